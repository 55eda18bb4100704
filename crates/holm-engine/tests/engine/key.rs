//! API keys, from the text to a caller.

use std::sync::atomic::{AtomicBool, Ordering};

use holm_engine::{
    CreateSandbox, Error, ErrorKind, KeyScope, KeyStatus, NewKey, PageQuery, Refusal,
};
use jiff::{SignedDuration, Timestamp};

use crate::support::{Service, until};

#[tokio::test]
async fn a_key_opens_its_account_with_its_scopes() {
    let service = Service::new();
    let account = service.account().await;
    let scopes = [KeyScope::Read].into();
    let request = NewKey { scopes, ..NewKey::new(account, "laptop") };
    let created = service.engine.key_create(request).await.unwrap();
    let caller = service.engine.authenticate(created.text.reveal()).await.unwrap().unwrap();
    assert_eq!((caller.account, caller.key), (account, Some(created.key.id)));
    assert_eq!(caller.scopes, [KeyScope::Read].into());
    let used = || async {
        let page = service.engine.key_list(Some(account), PageQuery::first(9)).await.unwrap();
        page.items[0].last_used_at.is_some()
    };
    until("its use is written down", used).await;
    let listed = service.engine.key_list(None, PageQuery::first(9)).await.unwrap().items;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].prefix, created.text.prefix());
    assert!(created.text.reveal().len() > 2 * listed[0].prefix.len());
}

#[tokio::test]
async fn what_is_no_key_is_refused_with_its_reason() {
    let service = Service::new();
    let account = service.account().await;
    let created = service.engine.key_create(NewKey::new(account, "a")).await.unwrap();
    let text = created.text.reveal();
    let cut = &text[..text.len() - 1];
    let longer = format!("{text}0");
    for wrong in ["", "holm_sk_", cut, &longer, &text.to_uppercase(), "\0", &"x".repeat(1 << 20)] {
        let refused = service.engine.authenticate(wrong).await.unwrap();
        assert_eq!(refused, Err(Refusal::Unknown), "{} bytes", wrong.len());
    }
    for refusal in Refusal::ALL {
        let error = Error::from(refusal);
        let want = if refusal == Refusal::AccountDisabled {
            ErrorKind::Forbidden
        } else {
            ErrorKind::Unauthorized
        };
        assert_eq!(error.kind, want);
        assert!(error.suggestion.ends_with('.'), "{refusal}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_key_is_refused_and_none_is_made_expired() {
    let service = Service::new();
    let account = service.account().await;
    let past = Timestamp::now().checked_sub(SignedDuration::from_secs(1)).unwrap();
    let request = NewKey { expires_at: Some(past), ..NewKey::new(account, "a") };
    let error = service.engine.key_create(request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    // One that was made before its end, as the store has it now.
    let created = service.engine.key_create(NewKey::new(account, "a")).await.unwrap();
    let text = holm_engine::KeyText::random().unwrap();
    let hash = holm_engine::KeyHasher::new(&[7; 32]).hash(text.reveal());
    let id = holm_engine::KeyId::random().unwrap();
    let old = holm_engine::Key { id, expires_at: Some(past), ..created.key };
    service.store.key_create(old, hash).await.unwrap();
    let refused = service.engine.authenticate(text.reveal()).await.unwrap();
    assert_eq!(refused, Err(Refusal::Expired));
}

/// Open handles, as sessions have them, with creates going on all the time: after the answer of
/// the revoke no create with the key succeeds, and no authentication.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_73_a_revoked_key_is_refused_at_once_everywhere() {
    let service = Service::new();
    let account = service.account().await;
    let created = service.engine.key_create(NewKey::new(account, "a")).await.unwrap();
    let caller = service.engine.authenticate(created.text.reveal()).await.unwrap().unwrap();
    let user = service.engine.for_caller(caller);
    let kept = user.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    let revoked = std::sync::Arc::new(AtomicBool::new(false));
    let mut sessions = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (user, revoked) = (user.clone(), std::sync::Arc::clone(&revoked));
        sessions.spawn(async move {
            let mut made = 0;
            loop {
                let after = revoked.load(Ordering::SeqCst);
                match user.sandbox_create(CreateSandbox::default()).await {
                    Ok(view) => {
                        assert!(!after, "made after the revoke was answered");
                        made += 1;
                        user.sandbox_destroy(&view.id).await.unwrap();
                    }
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::Unauthorized, "{error}");
                        return made;
                    }
                }
            }
        });
    }
    let busy = || async { service.driver.removed() >= 8 };
    until("all are at work", busy).await;
    let key = service.engine.key_revoke(created.key.id).await.unwrap();
    revoked.store(true, Ordering::SeqCst);
    assert_eq!(key.status(Timestamp::now()), KeyStatus::Revoked);
    let refused = service.engine.authenticate(created.text.reveal()).await.unwrap();
    assert_eq!(refused, Err(Refusal::Revoked));
    assert!(sessions.join_all().await.into_iter().sum::<u32>() >= 8);
    // Revoking again changes nothing; what runs goes on until its lease ends.
    assert_eq!(service.engine.key_revoke(created.key.id).await.unwrap(), key);
    assert!(service.user(account).await.sandbox_get(&kept).await.is_ok());
}

#[tokio::test]
async fn case_71_no_key_is_in_what_is_shown_or_kept() {
    let service = Service::new();
    let account = service.account().await;
    let created = service.engine.key_create(NewKey::new(account, "a")).await.unwrap();
    let caller = service.engine.authenticate(created.text.reveal()).await.unwrap().unwrap();
    let user = service.engine.for_caller(caller.clone());
    let keys = service.engine.key_list(None, PageQuery::first(9)).await.unwrap();
    let secret = &created.text.reveal()[created.text.prefix().len()..][..8];
    for text in [
        format!("{created:?}"),
        format!("{caller:?}"),
        format!("{user:?}"),
        format!("{keys:?}"),
        format!("{:?}", service.settings),
    ] {
        assert!(!text.contains(secret), "{text}");
    }
}

/// What runs with a key hears of its end, whoever ended it.
#[tokio::test(start_paused = true)]
async fn case_73_what_runs_with_a_key_hears_that_it_ended() {
    let service = Service::new();
    for ending in [Refusal::Revoked, Refusal::AccountDisabled, Refusal::Unknown] {
        let account = service.account().await;
        let created = service.engine.key_create(NewKey::new(account, "a")).await.unwrap();
        let (id, text) = (created.key.id, created.text);
        let caller = service.engine.authenticate(text.reveal()).await.unwrap().unwrap();
        let user = service.engine.for_caller(caller);
        let (mut one, mut two) = (user.key_end(), user.key_end());
        let mut other = service.user(service.account().await).await.key_end();
        // Nothing ends it by itself, however long it runs.
        let patience = std::time::Duration::from_secs(3600);
        tokio::time::timeout(patience, one.refused()).await.expect_err("the key works");
        let want = match ending {
            Refusal::Revoked => {
                service.engine.key_revoke(id).await.unwrap();
                Refusal::Revoked
            }
            Refusal::AccountDisabled => {
                service.engine.account_set_disabled(account, true).await.unwrap();
                Refusal::AccountDisabled
            }
            // Past the engine, as another process does it.
            _ => {
                let at = Timestamp::now();
                service.store.key_revoke(holm_store::Owner::Any, id, at).await.unwrap();
                Refusal::Revoked
            }
        };
        assert_eq!((one.refused().await, two.refused().await), (want, want));
        tokio::time::timeout(patience, other.refused()).await.expect_err("another key");
        // It works again, and so what begins then is not over at once.
        if ending == Refusal::AccountDisabled {
            service.engine.account_set_disabled(account, false).await.unwrap();
            let mut again = user.key_end();
            tokio::time::timeout(patience, again.refused()).await.expect_err("it works again");
        }
    }
    let mut nobodys = service.engine.key_end();
    let patience = std::time::Duration::from_secs(3600);
    tokio::time::timeout(patience, nobodys.refused()).await.expect_err("there is no key");
}
