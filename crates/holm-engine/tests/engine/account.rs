//! Accounts, their limits and what is written down of all of it.

use std::time::Duration;

use holm_engine::{
    AccountId, AccountLimits, CreateSandbox, EntryKind, ErrorKind, KeyId, KeyScope, NewAccount,
    NewKey, PageQuery, Refusal,
};
use tokio::time::{Instant, sleep};

use crate::support::{Service, until};

fn lifetime(seconds: u64) -> CreateSandbox {
    CreateSandbox { timeout: Some(Duration::from_secs(seconds)), ..CreateSandbox::default() }
}

#[tokio::test(start_paused = true)]
async fn an_account_has_its_own_longest_lifetime() {
    let service = Service::new();
    let max_lifetime = Some(Duration::from_secs(600));
    let limits = AccountLimits { max_lifetime, ..AccountLimits::default() };
    let user = service.user(service.account_with(limits).await).await;
    let error = user.sandbox_create(lifetime(601)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    assert!(error.public.contains("10 minutes"), "{error}");
    // Where none is named, the default is brought there.
    let begin = Instant::now();
    let id = user.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    let error = user.sandbox_extend(&id, Duration::from_secs(60)).await.unwrap_err();
    assert!(error.public.contains("10 minutes"), "{error}");
    let short = user.sandbox_create(lifetime(60)).await.unwrap();
    let extended = user.sandbox_extend(&short.id, Duration::from_secs(3600)).await.unwrap();
    let (ready, end) = (extended.ready_at.unwrap(), extended.expires_at.unwrap());
    assert_eq!(end.duration_since(ready).as_secs(), 600, "never past the ceiling");
    sleep(Duration::from_secs(599)).await;
    assert_eq!(service.driver.alive(), 2);
    until("both have expired", || async { service.driver.alive() == 0 }).await;
    assert_eq!(begin.elapsed().as_secs(), 600);
    // Everybody else may use the service's.
    let (_, other) = service.tenant().await;
    other.sandbox_create(lifetime(24 * 3600)).await.unwrap();
}

#[tokio::test]
async fn only_administrators_manage() {
    let service = Service::new();
    let (account, user) = service.tenant().await;
    let new = || NewAccount { name: "x".to_owned(), ..NewAccount::default() };
    let page = || PageQuery::first(10);
    let key = service.store.key_list(holm_store::Owner::Any, page()).await.unwrap().items[0].id;
    for (call, kind) in [
        ("create", user.account_create(new()).await.map(|_| ()).unwrap_err().kind),
        ("list", user.account_list(page()).await.map(|_| ()).unwrap_err().kind),
        ("topup", user.account_topup(account, 5, None).await.map(|_| ()).unwrap_err().kind),
        ("adjust", user.account_adjust(account, 5, None).await.map(|_| ()).unwrap_err().kind),
        ("disable", user.account_set_disabled(account, true).await.map(|_| ()).unwrap_err().kind),
        (
            "limits",
            user.account_set_limits(account, AccountLimits::default()).await.unwrap_err().kind,
        ),
        ("key", user.key_create(NewKey::new(account, "k")).await.map(|_| ()).unwrap_err().kind),
        ("keys", user.key_list(Some(account), page()).await.map(|_| ()).unwrap_err().kind),
        ("revoke", user.key_revoke(key).await.map(|_| ()).unwrap_err().kind),
        ("audit", user.audit_list(Some(account), page()).await.map(|_| ()).unwrap_err().kind),
    ] {
        assert_eq!(kind, ErrorKind::Forbidden, "{call}");
    }
    // Own numbers may be read; others look the same whether they exist or not.
    assert_eq!(user.account_balance(account).await.unwrap(), 0);
    assert_eq!(user.ledger_list(account, page()).await.unwrap().items, []);
    for foreign in [service.account().await, AccountId::random().unwrap()] {
        for error in [
            user.account_get(foreign).await.map(|_| ()).unwrap_err(),
            user.account_balance(foreign).await.map(|_| ()).unwrap_err(),
            user.ledger_list(foreign, page()).await.map(|_| ()).unwrap_err(),
        ] {
            assert_eq!(error.kind, ErrorKind::Forbidden);
            assert!(!error.public.contains(&foreign.to_string()), "{error}");
        }
    }
}

#[tokio::test]
async fn administrators_get_clear_answers() {
    let service = Service::new();
    let account = service.account().await;
    let engine = &service.engine;
    let missing = AccountId::random().unwrap();
    for error in [
        engine.account_get(missing).await.unwrap_err(),
        engine.account_topup(missing, 5, None).await.unwrap_err(),
        engine.account_set_disabled(missing, true).await.unwrap_err(),
        engine.key_create(NewKey::new(missing, "k")).await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert_eq!(error.public, format!("there is no account {missing}"));
    }
    let error = engine.key_revoke(KeyId::random().unwrap()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    for name in ["", "a\n", &"x".repeat(65)] {
        let new = NewAccount { name: name.to_owned(), ..NewAccount::default() };
        let error = engine.account_create(new).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{name:?}");
    }
    for amount in [0, -5] {
        let error = engine.account_topup(account, amount, None).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{amount}");
    }
    let none = NewKey { scopes: [].into(), ..NewKey::new(account, "k") };
    assert_eq!(engine.key_create(none).await.unwrap_err().kind, ErrorKind::InvalidArgument);
    // The same payment told twice counts once; another amount under its mark is refused.
    let pay = |amount| engine.account_topup(account, amount, Some("invoice 7".to_owned()));
    let first = pay(100).await.unwrap();
    assert_eq!(pay(100).await.unwrap(), first);
    assert_eq!(pay(101).await.unwrap_err().kind, ErrorKind::Conflict);
    engine.account_adjust(account, -30, None).await.unwrap();
    assert_eq!(service.balance(account).await, 70);
    let kinds = engine.ledger_list(account, PageQuery::first(9)).await.unwrap();
    let kinds: Vec<EntryKind> = kinds.items.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Adjust, EntryKind::Topup]);
}

#[tokio::test]
async fn a_disabled_account_makes_nothing_new_and_keeps_what_it_has() {
    let service = Service::new();
    let account = service.account().await;
    let created = service.engine.key_create(NewKey::new(account, "k")).await.unwrap();
    let auth = async || service.engine.authenticate(created.text.reveal()).await.unwrap();
    let user = service.engine.for_caller(auth().await.unwrap());
    let id = user.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    service.engine.account_set_disabled(account, true).await.unwrap();
    assert_eq!(auth().await, Err(Refusal::AccountDisabled));
    // A caller that was let in before, such as an open session.
    let error = user.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);
    assert!(error.public.contains("disabled"), "{error}");
    user.sandbox_get(&id).await.unwrap();
    service.engine.account_set_disabled(account, false).await.unwrap();
    assert!(auth().await.is_ok());
    user.sandbox_create(CreateSandbox::default()).await.unwrap();
}

#[tokio::test]
async fn everything_is_in_the_audit_log() {
    let service = Service::new();
    let account = service.account().await;
    let created = service.engine.key_create(NewKey::new(account, "k")).await.unwrap();
    let caller = service.engine.authenticate(created.text.reveal()).await.unwrap().unwrap();
    let user = service.engine.for_caller(caller);
    let view = user.sandbox_create(CreateSandbox::default()).await.unwrap();
    user.sandbox_extend(&view.id, Duration::from_secs(60)).await.unwrap();
    user.sandbox_destroy(&view.id).await.unwrap();
    *service.driver.failing.lock().unwrap() = Some(holm_runtime::DriverErrorKind::Internal);
    user.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    service.topup(account, 5).await;
    service.engine.account_set_limits(account, AccountLimits::default()).await.unwrap();
    service.engine.account_set_disabled(account, true).await.unwrap();
    service.engine.account_set_disabled(account, false).await.unwrap();
    service.engine.key_revoke(created.key.id).await.unwrap();
    let refused = service.engine.authenticate(created.text.reveal()).await.unwrap();
    assert_eq!(refused, Err(Refusal::Revoked));
    let want = [
        "account.create done",
        "account.disable done",
        "account.enable done",
        "account.set_limits done",
        "account.topup done",
        "key.create done",
        "key.revoke done",
        "key.use refused",
        "sandbox.create done",
        "sandbox.create failed",
        "sandbox.destroy done",
        "sandbox.extend done",
    ];
    until("all of it is written", || async { service.audited().await.len() == want.len() }).await;
    let mut audited = service.audited().await;
    audited.sort();
    assert_eq!(audited, want);
    let page = service.engine.audit_list(Some(account), PageQuery::first(100)).await.unwrap();
    assert!(page.items.iter().all(|event| event.key_id == Some(created.key.id)));
    let text = format!("{:?}", service.engine.audit_list(None, PageQuery::first(100)).await);
    assert!(!text.contains(&created.text.reveal()[14..30]), "no key is in it");
    let create = page.items.iter().find(|event| event.target == Some(view.id.to_string()));
    assert_eq!(create.map(|event| event.account_id), Some(Some(account)));
}

#[tokio::test(start_paused = true)]
async fn an_embedded_engine_has_one_account_and_no_keys() {
    let (engine, _driver) = crate::support::engine(crate::support::settings());
    let id = engine.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    sleep(Duration::from_secs(30)).await;
    assert!(engine.sandbox_get(&id).await.is_ok());
    assert_eq!(engine.authenticate("x").await.unwrap(), Err(Refusal::Unknown));
    let accounts = engine.account_list(PageQuery::first(9)).await.unwrap().items;
    assert_eq!(accounts.len(), 1);
    assert_eq!(accounts[0].id, engine.caller().account);
    assert!(engine.caller().may(KeyScope::Admin));
    let error = engine.key_create(NewKey::new(accounts[0].id, "k")).await.unwrap_err();
    assert!(error.suggestion.contains("holm serve"), "{}", error.suggestion);
}
