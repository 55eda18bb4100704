//! An engine that is gone without a word, and the next one on the same store.

use std::sync::Arc;
use std::time::Duration;

use holm_engine::{CreateSandbox, EndReason, ListSandboxes, SandboxState};
use tokio::time::sleep;

use crate::support::Service;
use crate::support::service::PRICE;

#[tokio::test(start_paused = true)]
async fn case_75_a_crash_bills_each_second_up_to_the_last_heartbeat_once() {
    // Before the first visit of the meter, after it, and long after.
    for (lived, least, most) in [(3, 0, 0), (14, 10, 14), (95, 85, 95)] {
        let mut service = Service::priced();
        let (account, user) = service.tenant().await;
        service.topup(account, 1_000_000).await;
        let view = user.sandbox_create(CreateSandbox::default()).await.unwrap();
        sleep(Duration::from_secs(lived)).await;
        let caller = user.caller().clone();
        drop(user);
        service.crash().await;
        // However long nobody looked.
        sleep(Duration::from_secs(1000)).await;
        let user = service.engine.for_caller(caller);
        let found = user.sandbox_get(&view.id).await.unwrap();
        assert_eq!(found.state, SandboxState::Failed);
        let ended = found.ended.unwrap();
        assert_eq!(ended.reason, EndReason::Lost);
        let charged = service.charged(account).await;
        assert!((least..=most).contains(&charged), "{lived}: {charged}");
        assert_eq!(ended.at.duration_since(found.ready_at.unwrap()).as_secs(), charged);
        assert_eq!(1_000_000 - service.balance(account).await, charged * PRICE);
        service.check_ledger(account).await;
        let usage = user.usage().await.unwrap();
        assert_eq!((usage.cost_total, usage.sandboxes_running), (charged * PRICE, 0));
        // Another start changes nothing.
        service.crash().await;
        assert_eq!(service.charged(account).await, charged);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_being_made_or_removed_is_settled_and_places_are_free() {
    let limit = holm_engine::EngineSettings { max_sandboxes: 2, ..crate::support::settings() };
    let mut service = Service::with(limit);
    let (_, user) = service.tenant().await;
    let going = user.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    service.driver.stubborn.store(1000, std::sync::atomic::Ordering::SeqCst);
    user.sandbox_destroy(&going).await.unwrap_err();
    *service.driver.delay.lock().unwrap() = Duration::from_secs(3600);
    let making = user.clone();
    // It never gets further: the process is gone before.
    tokio::spawn(async move { making.sandbox_create(CreateSandbox::default()).await });
    sleep(Duration::from_secs(1)).await;
    let states = async |user: &holm_engine::Engine| {
        let views = user.sandbox_list(ListSandboxes::default()).await.unwrap();
        views.into_iter().map(|view| view.state).collect::<Vec<_>>()
    };
    assert_eq!(states(&user).await, [SandboxState::Provisioning, SandboxState::Deleting]);
    service.crash().await;
    let user = service.engine.for_caller(user.caller().clone());
    assert_eq!(states(&user).await, []);
    let view = user.sandbox_get(&going).await.unwrap();
    assert_eq!(view.ended.unwrap().reason, EndReason::Destroyed);
    assert_eq!(user.usage().await.unwrap().sandboxes_total, 1, "failed creates count nothing");
    for _ in 0..2 {
        user.sandbox_create(CreateSandbox::default()).await.unwrap();
    }
}

#[tokio::test]
async fn nodes_leave_each_others_sandboxes_alone() {
    let mut service = Service::new();
    let (_, user) = service.tenant().await;
    let id = user.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    service.settings.node = holm_engine::NodeId::random().unwrap();
    service.crash().await;
    let there = service.engine.for_caller(user.caller().clone());
    assert_eq!(there.sandbox_get(&id).await.unwrap().state, SandboxState::Running);
    assert_eq!(there.sandbox_list(ListSandboxes::default()).await.unwrap().len(), 1);
    let error = there.sandbox_destroy(&id).await.unwrap_err();
    assert!(error.public.contains("another machine"), "{error}");
    user.sandbox_destroy(&id).await.unwrap();
    assert!(there.sandbox_destroy(&id).await.unwrap().already);
}

/// The other tests use the store in memory; this is the way of a sandbox over a database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_a_crash_and_a_start_over_sqlite() {
    let mut service = Service::priced();
    service.store = Arc::new(holm_store::SqliteStore::in_memory().await.unwrap());
    service.crash().await;
    let (account, user) = service.tenant().await;
    service.topup(account, 1_000_000).await;
    let wanted = || CreateSandbox { idempotency_key: Some("k".to_owned()), ..Default::default() };
    let made = user.sandbox_create(wanted()).await.unwrap();
    assert_eq!(user.sandbox_create(wanted()).await.unwrap().id, made.id);
    let extended = user.sandbox_extend(&made.id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(user.sandbox_get(&made.id).await.unwrap().expires_at, extended.expires_at);
    assert!(!user.sandbox_destroy(&made.id).await.unwrap().already);
    assert!(user.sandbox_destroy(&made.id).await.unwrap().already);
    let lost = user.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    let caller = user.caller().clone();
    drop(user);
    service.crash().await;
    let user = service.engine.for_caller(caller);
    let view = user.sandbox_get(&lost).await.unwrap();
    assert_eq!(view.ended.unwrap().reason, EndReason::Lost);
    assert_eq!(view.ended.map(|ended| ended.at), view.ready_at, "no heartbeat yet");
    let usage = user.usage().await.unwrap();
    assert_eq!((usage.sandboxes_total, usage.sandboxes_running), (2, 0));
    assert_eq!(1_000_000 - usage.balance, usage.cost_total);
    service.check_ledger(account).await;
    service.engine.shutdown().await;
    service.store.close().await;
}
