//! Metering: each second once, and what happens when nothing is left to pay with.

use std::time::Duration;

use holm_engine::{
    AccountId, CreateSandbox, EndReason, Engine, ErrorKind, PageQuery, RunCommand, SandboxId,
    SandboxState,
};
use tokio::time::{Instant, sleep, sleep_until};

use crate::support::service::PRICE;
use crate::support::{Service, until};

async fn create(user: &Engine, seconds: u64) -> SandboxId {
    let timeout = Some(Duration::from_secs(seconds));
    user.sandbox_create(CreateSandbox { timeout, ..Default::default() }).await.unwrap().id
}

async fn rich(service: &Service) -> (AccountId, Engine) {
    let (account, user) = service.tenant().await;
    service.topup(account, 1_000_000_000).await;
    (account, user)
}

#[tokio::test(start_paused = true)]
async fn case_75_each_second_is_charged_once() {
    let service = Service::priced();
    let (account, user) = rich(&service).await;
    // Not charged while it is made.
    *service.driver.delay.lock().unwrap() = Duration::from_secs(7);
    let id = create(&user, 3600).await;
    let ready = Instant::now();
    let spent = async || 1_000_000_000 - service.balance(account).await;
    assert_eq!(spent().await, 0);
    sleep_until(ready + Duration::from_millis(25_500)).await;
    // The meter has come by twice; usage counts what runs up to now.
    assert!((10..=25).contains(&service.charged(account).await));
    let usage = user.usage().await.unwrap();
    assert_eq!((usage.recent[0].cost, usage.cost_total), (25 * PRICE, 25 * PRICE));
    assert_eq!(usage.burn_per_hour, 3600 * PRICE);
    assert_eq!(usage.seconds_total.round().to_string(), "26");
    sleep_until(ready + Duration::from_millis(60_900)).await;
    user.sandbox_destroy(&id).await.unwrap();
    user.sandbox_destroy(&id).await.unwrap();
    assert_eq!(spent().await, 60 * PRICE);
    sleep(Duration::from_secs(100)).await;
    assert_eq!(spent().await, 60 * PRICE);
    service.check_ledger(account).await;
    let usage = user.usage().await.unwrap();
    assert_eq!((usage.cost_total, usage.balance), (60 * PRICE, 1_000_000_000 - 60 * PRICE));
    assert_eq!((usage.burn_per_hour, usage.charges), (0, true));
    assert_eq!(usage.recent[0].cost, 60 * PRICE);
}

#[tokio::test(start_paused = true)]
async fn sizes_have_their_prices_and_failed_creates_cost_nothing() {
    let service = Service::priced();
    let (account, user) = rich(&service).await;
    for size in ["small", "medium", "large"] {
        let size = Some(size.to_owned());
        user.sandbox_create(CreateSandbox { size, ..Default::default() }).await.unwrap();
    }
    *service.driver.failing.lock().unwrap() = Some(holm_runtime::DriverErrorKind::Internal);
    user.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    assert_eq!(user.usage().await.unwrap().burn_per_hour, 7 * 3600 * PRICE);
    sleep(Duration::from_secs(10)).await;
    service.engine.shutdown().await;
    assert_eq!(1_000_000_000 - service.balance(account).await, 7 * 10 * PRICE);
    service.check_ledger(account).await;
    let prices = service.engine.service_info().await.prices;
    assert_eq!(prices.iter().map(|(_, price)| *price).collect::<Vec<_>>(), [100, 200, 400]);
}

#[tokio::test(start_paused = true)]
async fn case_75_an_expired_one_pays_up_to_its_lease() {
    let service = Service::priced();
    let (account, user) = rich(&service).await;
    // Ends between two visits of the meter, and exactly at one.
    for seconds in [15, 20] {
        create(&user, seconds).await;
    }
    until("both have expired", || async { service.driver.alive() == 0 }).await;
    assert_eq!(service.charged(account).await, 35);
    service.check_ledger(account).await;
    // The process stood still over the end of a lease: only the lease is paid.
    let id = create(&user, 12).await;
    tokio::time::advance(Duration::from_secs(500)).await;
    let error = user.exec_run(&id, RunCommand::shell("true")).await.unwrap_err();
    assert_eq!(error.ended.unwrap().reason, EndReason::Expired);
    until("it is removed", || async { service.driver.alive() == 0 }).await;
    assert_eq!(service.charged(account).await, 47);
    service.check_ledger(account).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_price_only_the_heartbeat_is_written() {
    let service = Service::new();
    let (account, user) = service.tenant().await;
    let id = create(&user, 3600).await;
    sleep(Duration::from_secs(25)).await;
    let record = service.store.sandbox_get(holm_store::Owner::Any, id).await.unwrap().unwrap();
    assert!((10..=25).contains(&record.charged_seconds()), "{record:?}");
    assert_eq!(service.store.ledger_list(account, PageQuery::first(9)).await.unwrap().items, []);
    let usage = user.usage().await.unwrap();
    assert_eq!((usage.balance, usage.cost_total, usage.charges), (0, 0, false));
    sleep(Duration::from_secs(600)).await;
    assert_eq!(user.sandbox_get(&id).await.unwrap().state, SandboxState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_create_without_a_balance_is_refused() {
    let service = Service::priced();
    let (account, user) = service.tenant().await;
    let error = user.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InsufficientBalance);
    assert!(error.suggestion.contains("top up"), "{}", error.suggestion);
    assert_eq!(service.driver.counts.created.load(std::sync::atomic::Ordering::SeqCst), 0);
    service.topup(account, 1).await;
    user.sandbox_create(CreateSandbox::default()).await.unwrap();
}

/// 20 seconds are paid. The meter comes by every 10 s and finds nothing left at 20 s; 60 s later
/// the sandboxes end.
#[tokio::test(start_paused = true)]
async fn nothing_left_ends_it_after_the_grace_and_says_so() {
    let service = Service::priced();
    let (account, user) = service.tenant().await;
    let (_, other) = rich(&service).await;
    service.topup(account, 20 * PRICE).await;
    let id = create(&user, 3600).await;
    let spared = create(&other, 3600).await;
    let ready = Instant::now();
    let run = user.exec_run(&id, RunCommand::shell("sleep 3000"));
    let first = user.exec_run(&id, RunCommand::shell("true")).await;
    first.unwrap();
    sleep_until(ready + Duration::from_secs(75)).await;
    assert_eq!(user.sandbox_get(&id).await.unwrap().state, SandboxState::Running, "in its grace");
    let error = user.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InsufficientBalance);
    until("it is removed", || async { service.driver.alive() == 1 }).await;
    let took = ready.elapsed().as_secs();
    assert!((80..=91).contains(&took), "{took}");
    let view = user.sandbox_get(&id).await.unwrap();
    assert_eq!(
        (view.state, view.ended.unwrap().reason),
        (SandboxState::Deleted, EndReason::Balance)
    );
    let error = run.await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxGone);
    assert!(error.public.contains("balance was used up"), "{error}");
    // The grace is paid later, and only what was lived.
    let lived = view.ended.unwrap().at.duration_since(view.ready_at.unwrap()).as_secs();
    assert_eq!(service.balance(account).await, (20 - lived) * PRICE);
    service.check_ledger(account).await;
    assert!(other.exec_run(&spared, RunCommand::shell("true")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_topup_in_the_grace_saves_it() {
    let service = Service::priced();
    let (account, user) = service.tenant().await;
    service.topup(account, 20 * PRICE).await;
    let id = create(&user, 7200).await;
    sleep(Duration::from_secs(70)).await;
    assert!(service.balance(account).await < 0);
    service.topup(account, 200 * PRICE).await;
    sleep(Duration::from_secs(100)).await;
    assert_eq!(user.sandbox_get(&id).await.unwrap().state, SandboxState::Running);
    // It is used up again, and so is a whole new grace.
    let begin = Instant::now();
    until("it is removed", || async { service.driver.alive() == 0 }).await;
    let took = begin.elapsed().as_secs();
    assert!((50 + 60..=50 + 60 + 21).contains(&took), "{took}");
    service.check_ledger(account).await;
}

/// Paid past the engine, as another process does: it is seen at the end of the grace, at the
/// latest.
#[tokio::test(start_paused = true)]
async fn a_topup_by_another_process_saves_it_too() {
    let service = Service::priced();
    let (account, user) = service.tenant().await;
    service.topup(account, 20 * PRICE).await;
    let id = create(&user, 7200).await;
    sleep(Duration::from_secs(79)).await;
    let credit = holm_store::Credit {
        account_id: account,
        kind: holm_store::EntryKind::Topup,
        amount: 1_000_000,
        reference: None,
    };
    service.store.ledger_add(credit).await.unwrap();
    sleep(Duration::from_secs(100)).await;
    assert_eq!(user.sandbox_get(&id).await.unwrap().state, SandboxState::Running);
}
