//! What the engine writes into its store, and what it makes of a store that fails it.

use std::time::Duration;

use holm_engine::{
    CreateSandbox, EndReason, Engine, EngineSettings, ErrorKind, SandboxId, SandboxState,
};
use holm_store::{OutboxClaim, Owner};
use jiff::Timestamp;
use tokio::time::sleep;

use crate::support::{Service, settings, until};

/// A save that was done although its answer was lost: the store has a newer version.
async fn lose_an_answer(service: &Service, id: SandboxId) {
    let record = service.store.sandbox_get(Owner::Any, id).await.unwrap().unwrap();
    service.store.sandbox_save(record, Vec::new()).await.unwrap();
}

#[tokio::test]
async fn a_save_whose_answer_was_lost_stops_nothing() {
    let service = Service::new();
    let (_, user) = service.tenant().await;
    let id = user.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    lose_an_answer(&service, id).await;
    let view = user.sandbox_extend(&id, Duration::from_secs(600)).await.unwrap();
    let record = service.store.sandbox_get(Owner::Any, id).await.unwrap().unwrap();
    assert_eq!(
        record.expires_at.map(Timestamp::as_microsecond),
        view.expires_at.map(Timestamp::as_microsecond)
    );
    lose_an_answer(&service, id).await;
    user.sandbox_destroy(&id).await.unwrap();
    assert_eq!(user.sandbox_get(&id).await.unwrap().state, SandboxState::Deleted);
    assert_eq!(service.driver.alive(), 0);
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_said_so_and_nothing_is_made() {
    let service = Service::new();
    let (_, user) = service.tenant().await;
    let id = user.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    service.store.close().await;
    for error in [
        user.sandbox_create(CreateSandbox::default()).await.unwrap_err(),
        user.sandbox_extend(&id, Duration::from_secs(60)).await.unwrap_err(),
        user.sandbox_destroy(&id).await.unwrap_err(),
        user.usage().await.unwrap_err(),
        user.authenticate("x").await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        assert_eq!(error.public, "the service's store does not answer");
    }
    assert_eq!(service.driver.alive(), 1, "what ran goes on");
}

async fn told(service: &Service) -> Vec<(String, String)> {
    let lease = Duration::from_secs(1);
    let claim = OutboxClaim { target: None, now: Timestamp::MAX, lease, limit: 100 };
    let due = service.store.outbox_claim(claim).await.unwrap();
    let mut told: Vec<_> =
        due.into_iter().map(|delivery| (delivery.event.kind, delivery.event.target)).collect();
    told.sort();
    told
}

async fn create(user: &Engine, seconds: u64) -> SandboxId {
    let timeout = Some(Duration::from_secs(seconds));
    user.sandbox_create(CreateSandbox { timeout, ..Default::default() }).await.unwrap().id
}

#[tokio::test(start_paused = true)]
async fn webhooks_are_told_what_happens() {
    let webhooks = vec!["one".to_owned(), "two".to_owned()];
    let prices = holm_engine::Prices { small: 100, ..holm_engine::Prices::default() };
    let service = Service::with(EngineSettings { webhooks, prices, ..settings() });
    let (account, user) = service.tenant().await;
    service.topup(account, 500).await;
    *service.driver.failing.lock().unwrap() = Some(holm_runtime::DriverErrorKind::Internal);
    user.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    *service.driver.failing.lock().unwrap() = None;
    let extended = create(&user, 3600).await;
    user.sandbox_extend(&extended, Duration::from_secs(60)).await.unwrap();
    user.sandbox_destroy(&extended).await.unwrap();
    create(&user, 3).await;
    sleep(Duration::from_secs(4)).await;
    create(&user, 3600).await;
    until("its balance is used up", || async { service.driver.alive() == 0 }).await;
    let want: Vec<(String, String)> = [
        // It is low, and then it is used up.
        "balance_low",
        "balance_low",
        "sandbox.created",
        "sandbox.created",
        "sandbox.created",
        "sandbox.created",
        // One of them never was ready.
        "sandbox.destroyed",
        "sandbox.destroyed",
        "sandbox.destroyed",
        "sandbox.expired",
        "sandbox.extended",
        "sandbox.ready",
        "sandbox.ready",
        "sandbox.ready",
    ]
    .into_iter()
    .flat_map(|kind| ["one", "two"].map(|target| (kind.to_owned(), target.to_owned())))
    .collect();
    let mut want = want;
    want.sort();
    assert_eq!(told(&service).await, want);
    let last = user.usage().await.unwrap().recent[0].ended.unwrap();
    assert_eq!(last.reason, EndReason::Balance);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_takes_no_record_makes_the_engine_unready() {
    let service = Service::new();
    assert!(service.engine.ready().await);
    service.store.close().await;
    // Whoever asks again at once gets the answer that is there.
    assert!(service.engine.ready().await);
    sleep(Duration::from_secs(2)).await;
    assert!(!service.engine.ready().await);
}

/// However often somebody tries: the log tells that, and does not grow with it.
#[tokio::test(start_paused = true)]
async fn calls_that_are_refused_do_not_fill_the_audit_log() {
    let service = Service::with(EngineSettings { max_sandboxes: 1, ..settings() });
    let (_, user) = service.tenant().await;
    let (_, other) = service.tenant().await;
    let id = user.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    for _ in 0..500 {
        let error = user.sandbox_create(CreateSandbox::default()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::QuotaExceeded);
    }
    other.sandbox_create(CreateSandbox::default()).await.unwrap();
    other.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    user.sandbox_destroy(&id).await.unwrap();
    for _ in 0..500 {
        user.sandbox_extend(&id, Duration::from_secs(60)).await.unwrap_err();
    }
    let count = async |text: &str| {
        let all = service.audited().await;
        all.iter().filter(|line| *line == text).count()
    };
    until("all of it is written", || async {
        count("sandbox.extend failed").await == 60 && count("sandbox.destroy done").await == 1
    })
    .await;
    assert_eq!(count("sandbox.create refused").await, 60 + 1);
    assert_eq!(count("sandbox.create done").await, 2);
    // Later it says how many there were.
    sleep(Duration::from_secs(61)).await;
    let full = user.sandbox_create(CreateSandbox::default()).await.unwrap();
    user.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    until("that is written, too", || async { count("sandbox.create refused").await == 62 }).await;
    let page = service.engine.audit_list(None, holm_engine::PageQuery::first(9)).await.unwrap();
    let told = page.items.iter().find(|event| event.detail["more_before"].is_number());
    assert_eq!(told.map(|event| event.detail["more_before"].clone()), Some(440.into()));
    user.sandbox_destroy(&full.id).await.unwrap();
}
