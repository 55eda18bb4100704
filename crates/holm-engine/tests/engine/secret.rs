//! Secrets of accounts: whose they are, what is refused, and what becomes of them with other keys.
//! What a gate does with them is tried with real ones.

use std::sync::Arc;

use holm_engine::{
    AuditEvent, CreateSandbox, Engine, EngineSettings, ErrorKind, KeyScope, NewSecret, PageQuery,
    Sealer, SecretText, SecretView,
};
use holm_store::Owner;

use crate::support::{Service, until};

const VALUE: &str = "x-marker-x-0123456789";

fn new(name: &str) -> NewSecret {
    NewSecret {
        name: name.to_owned(),
        value: SecretText::new(VALUE.to_owned()),
        hosts: vec!["api.example.com".to_owned()],
        headers: Vec::new(),
        allow_plaintext: false,
    }
}

/// With gates and with keys to seal with.
fn sealed(keys: &[[u8; 32]]) -> Service {
    let mut service = Service::gated();
    service.settings.sealer = Some(Sealer::new(keys).unwrap());
    again(&mut service);
    service
}

fn again(service: &mut Service) {
    let settings: EngineSettings = service.settings.clone();
    let (driver, store) = (Arc::clone(&service.driver), Arc::clone(&service.store));
    service.engine = Engine::with_store(driver as _, settings, store);
}

fn names(secrets: &[SecretView]) -> Vec<&str> {
    secrets.iter().map(|secret| &*secret.name).collect()
}

#[tokio::test]
async fn they_are_put_listed_and_deleted_by_their_owner_alone() {
    let service = sealed(&[[1; 32]]);
    let (account, user) = service.tenant().await;
    let (first, added) = user.secret_put(new("TOKEN")).await.unwrap();
    assert!(added && first.hosts == ["api.example.com"]);
    let more = NewSecret { headers: vec!["X-Token".to_owned()], ..new("TOKEN") };
    let (second, added) = user.secret_put(more).await.unwrap();
    assert!(!added && second.headers == ["x-token"]);
    let micros = |view: &SecretView| view.created_at.as_microsecond();
    assert_eq!(micros(&second), micros(&first));
    user.secret_put(new("A")).await.unwrap();
    assert_eq!(names(&user.secret_list().await.unwrap()), ["A", "TOKEN"]);
    let (_, stranger) = service.tenant().await;
    assert!(stranger.secret_list().await.unwrap().is_empty());
    assert_eq!(stranger.secret_delete("TOKEN").await.unwrap_err().kind, ErrorKind::NotFound);
    let wanted = || CreateSandbox { secrets: vec!["TOKEN".to_owned()], ..Default::default() };
    let error = stranger.sandbox_create(wanted()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    let reader = service.user_with(account, &[KeyScope::Read]).await;
    assert_eq!(reader.secret_put(new("B")).await.unwrap_err().kind, ErrorKind::Forbidden);
    assert_eq!(reader.secret_delete("A").await.unwrap_err().kind, ErrorKind::Forbidden);
    assert_eq!(reader.secret_list().await.unwrap().len(), 2);
    user.secret_delete("A").await.unwrap();
    assert_eq!(user.secret_delete("A").await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(names(&user.secret_list().await.unwrap()), ["TOKEN"]);
    // In the log is who did what, and no value.
    let audited = async || service.audited().await;
    let done = "secret.delete done".to_owned();
    until("audited", async || audited().await.contains(&done)).await;
    let events = service.engine.audit_list(None, PageQuery::first(100)).await.unwrap().items;
    assert!(events.iter().any(|event| event.action == "secret.put"));
    assert!(!format!("{events:?}").contains(VALUE));
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_and_says_no_value() {
    let service = sealed(&[[1; 32]]);
    let (_, user) = service.tenant().await;
    let hosts = |host: &str| NewSecret { hosts: vec![host.to_owned()], ..new("A") };
    let headers = |name: &str| NewSecret { headers: vec![name.to_owned()], ..new("A") };
    let value = |text: &str| NewSecret { value: SecretText::new(text.to_owned()), ..new("A") };
    for wrong in [
        new("9"),
        new("A B"),
        // Name and value in each other's place.
        new(VALUE),
        NewSecret { hosts: Vec::new(), ..new("A") },
        hosts("203.0.113.7"),
        hosts("*"),
        hosts("a b"),
        headers("host"),
        headers("a b"),
        value(""),
        value(&format!("{VALUE}\n{VALUE}")),
        value(&VALUE.repeat(1000)),
    ] {
        let said = format!("{wrong:?}");
        assert!(wrong.name == VALUE || !said.contains(VALUE), "{said}");
        let error = user.secret_put(wrong).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{said}: {error}");
        assert!(!format!("{error:?}").contains(VALUE), "{error:?}");
    }
    let error = user.secret_delete(VALUE).await.unwrap_err();
    assert!(!format!("{error:?}").contains(VALUE), "{error:?}");
    let refused = async || {
        let events = service.engine.audit_list(None, PageQuery::first(100)).await.unwrap().items;
        let is_put = |event: &AuditEvent| event.action == "secret.put";
        events.into_iter().filter(is_put).collect::<Vec<_>>()
    };
    until("audited", async || refused().await.len() == 12).await;
    assert!(!format!("{:?}", refused().await).contains(VALUE));
    assert!(user.secret_list().await.unwrap().is_empty());
    for number in 0..100 {
        user.secret_put(new(&format!("S{number}"))).await.unwrap();
    }
    let error = user.secret_put(new("S100")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    assert!(error.public.contains("100"), "{error}");
    assert!(!user.secret_put(new("S7")).await.unwrap().1, "one that is there can be replaced");
    // Where nothing is sealed there is nothing to put.
    let plain = Service::new();
    let (_, user) = plain.tenant().await;
    let error = user.secret_put(new("A")).await.unwrap_err();
    assert!(error.suggestion.contains("holm serve"), "{}", error.suggestion);
}

#[tokio::test]
async fn a_sandbox_has_a_text_of_its_own_and_never_the_value() {
    let mut service = sealed(&[[1; 32]]);
    let (_, user) = service.tenant().await;
    user.secret_put(new("TOKEN")).await.unwrap();
    let wanted = || CreateSandbox { secrets: vec!["TOKEN".to_owned()], ..Default::default() };
    let one = user.sandbox_create(wanted()).await.unwrap();
    assert_eq!(one.secrets, ["TOKEN"]);
    let inside = |service: &Service| service.driver.last().guest.shared.env.lock().unwrap().clone();
    let first = inside(&service);
    assert!(first["TOKEN"].starts_with("holm_ph_"), "{first:?}");
    assert!(first.contains_key("SSL_CERT_FILE") && !format!("{first:?}").contains(VALUE));
    user.sandbox_create(wanted()).await.unwrap();
    let second = inside(&service);
    assert_ne!(first["TOKEN"], second["TOKEN"], "each has its own");
    user.sandbox_create(CreateSandbox::default()).await.unwrap();
    let without = inside(&service);
    assert!(!without.contains_key("TOKEN") && !without.contains_key("SSL_CERT_FILE"));
    let env = [("TOKEN".to_owned(), "x".to_owned())].into();
    let error = user.sandbox_create(CreateSandbox { env, ..wanted() }).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    // The text is the same in the next engine, which puts the same value in.
    service.kill();
    service.engine.start().await.unwrap();
    let record = service.store.sandbox_get(Owner::Any, one.id).await.unwrap().unwrap();
    assert_eq!(record.secrets["TOKEN"], first["TOKEN"]);
}

#[tokio::test]
async fn a_start_seals_with_the_key_in_use_what_an_older_one_has_sealed() {
    let (old, new_key) = ([1; 32], [2; 32]);
    let mut service = sealed(&[old]);
    let (account, user) = service.tenant().await;
    user.secret_put(new("TOKEN")).await.unwrap();
    let stored =
        async |service: &Service| service.store.secret_list(account).await.unwrap().remove(0);
    let before = stored(&service).await;
    service.settings.sealer = Some(Sealer::new(&[new_key, old]).unwrap());
    again(&mut service);
    service.engine.start().await.unwrap();
    let after = stored(&service).await;
    assert_ne!(before.sealed, after.sealed);
    let only_new = Sealer::new(&[new_key]).unwrap();
    assert_eq!(only_new.open(&after).unwrap().reveal(), VALUE);
    // What no key opens keeps nobody from starting.
    service.settings.sealer = Some(Sealer::new(&[[3; 32]]).unwrap());
    again(&mut service);
    service.engine.start().await.unwrap();
    assert_eq!(stored(&service).await, after);
}
