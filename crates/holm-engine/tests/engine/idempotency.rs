//! A create that is asked for twice.

use std::time::Duration;

use holm_engine::{CreateSandbox, EngineSettings, ErrorKind, ListSandboxes, SandboxState};

use crate::support::{Service, settings, until};

fn keyed(key: &str) -> CreateSandbox {
    CreateSandbox { idempotency_key: Some(key.to_owned()), ..CreateSandbox::default() }
}

#[tokio::test]
async fn the_same_key_and_request_are_one_sandbox() {
    let service = Service::with(EngineSettings { max_sandboxes: 1, ..settings() });
    let (_, user) = service.tenant().await;
    let first = user.sandbox_create(keyed("k")).await.unwrap();
    // Also where no place is left.
    let again = user.sandbox_create(keyed("k")).await.unwrap();
    assert_eq!((again.id, again.state), (first.id, SandboxState::Running));
    assert_eq!(again.enforced, first.enforced);
    assert_eq!(service.driver.alive(), 1);
    let other = CreateSandbox { name: Some("x".to_owned()), ..keyed("k") };
    let error = user.sandbox_create(other).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(error.suggestion.contains("new idempotency key"), "{}", error.suggestion);
    // Keys are an account's own.
    let (_, stranger) = service.tenant().await;
    let theirs = stranger.sandbox_create(keyed("k")).await.unwrap();
    assert_ne!(theirs.id, first.id);
    // It stays the same one after its end.
    user.sandbox_destroy(&first.id).await.unwrap();
    let over = user.sandbox_create(keyed("k")).await.unwrap();
    assert_eq!((over.id, over.state), (first.id, SandboxState::Deleted));
}

#[tokio::test(start_paused = true)]
async fn many_at_once_wait_for_the_one_that_makes_it() {
    let service = Service::new();
    *service.driver.delay.lock().unwrap() = Duration::from_secs(5);
    let (_, user) = service.tenant().await;
    let mut creates = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let user = user.clone();
        creates.spawn(async move { user.sandbox_create(keyed("k")).await.unwrap() });
    }
    let made = creates.join_all().await;
    assert!(made.iter().all(|view| view.id == made[0].id));
    assert!(made.iter().all(|view| view.state == SandboxState::Running));
    assert_eq!(service.driver.counts.created.load(std::sync::atomic::Ordering::SeqCst), 1);
}

/// The first fails: one of the others makes it.
#[tokio::test(start_paused = true)]
async fn a_create_that_fails_gives_its_key_back() {
    let service = Service::new();
    let (_, user) = service.tenant().await;
    *service.driver.delay.lock().unwrap() = Duration::from_secs(5);
    *service.driver.failing.lock().unwrap() = Some(holm_runtime::DriverErrorKind::HostExhausted);
    let first = user.sandbox_create(keyed("k"));
    let second = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let second = user.sandbox_create(keyed("k"));
        let mend = async {
            // The first one fails at 5 s, before it is mended.
            tokio::time::sleep(Duration::from_millis(4500)).await;
            *service.driver.failing.lock().unwrap() = None;
        };
        tokio::join!(second, mend).0
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.unwrap_err().kind, ErrorKind::Capacity);
    assert_eq!(second.unwrap().state, SandboxState::Running);
    assert_eq!(service.driver.alive(), 1);
    // Another request may take the key of one that failed.
    *service.driver.failing.lock().unwrap() = Some(holm_runtime::DriverErrorKind::HostExhausted);
    user.sandbox_create(keyed("m")).await.unwrap_err();
    *service.driver.failing.lock().unwrap() = None;
    let other = CreateSandbox { name: Some("x".to_owned()), ..keyed("m") };
    user.sandbox_create(other).await.unwrap();
}

/// Whoever gives a key comes back: the create goes on without them and the answer is there.
#[tokio::test(start_paused = true)]
async fn a_caller_who_comes_back_finds_it() {
    let service = Service::new();
    let (_, user) = service.tenant().await;
    *service.driver.delay.lock().unwrap() = Duration::from_secs(5);
    let gone = tokio::time::timeout(Duration::from_secs(1), user.sandbox_create(keyed("k"))).await;
    assert!(gone.is_err());
    let made = user.sandbox_create(keyed("k")).await.unwrap();
    assert_eq!(made.state, SandboxState::Running);
    assert_eq!(user.sandbox_list(ListSandboxes::default()).await.unwrap().len(), 1);
    user.sandbox_destroy(&made.id).await.unwrap();
    until("nothing is left", || async { service.driver.alive() == 0 }).await;
}

#[tokio::test]
async fn odd_keys_are_refused() {
    let service = Service::new();
    let (_, user) = service.tenant().await;
    for key in ["", "a b", "é"] {
        let error = user.sandbox_create(keyed(key)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{key:?}");
    }
}
