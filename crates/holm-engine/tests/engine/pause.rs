//! Pauses: by hand, by themselves, what they cost, and what a crash makes of them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use holm_engine::{
    CreateSandbox, EndReason, Engine, EngineSettings, ErrorKind, Faults, ListSandboxes, Moment,
    Prices, RunCommand, SandboxId, SandboxState, pause_steps,
};
use tokio::time::{Instant, sleep, sleep_until};

use crate::support::service::PRICE;
use crate::support::{Service, settings, until};

const PAUSED: i64 = 7;

fn priced() -> EngineSettings {
    let same = |price| Prices { small: price, medium: price, large: price };
    EngineSettings { prices: same(PRICE), paused_prices: same(PAUSED), ..settings() }
}

async fn service_with(settings: EngineSettings) -> (Service, holm_engine::AccountId, Engine) {
    let service = Service::with(settings);
    service.driver.outlived.store(true, Ordering::SeqCst);
    let (account, user) = service.tenant().await;
    service.topup(account, 1_000_000).await;
    (service, account, user)
}

async fn create(user: &Engine, request: CreateSandbox) -> SandboxId {
    user.sandbox_create(request).await.unwrap().id
}

fn command() -> RunCommand {
    RunCommand::shell("true")
}

async fn state(user: &Engine, id: &SandboxId) -> SandboxState {
    user.sandbox_get(id).await.unwrap().state
}

#[tokio::test(start_paused = true)]
async fn pauses_and_resumes_are_idempotent_told_and_audited() {
    let webhooks = vec!["http://hook".to_owned()];
    let (service, _, user) = service_with(EngineSettings { webhooks, ..priced() }).await;
    let id = create(&user, CreateSandbox::default()).await;
    for _ in 0..2 {
        let view = user.sandbox_pause(&id).await.unwrap();
        assert_eq!(view.state, SandboxState::Paused);
        assert!(view.paused_at.is_some() && service.driver.last().is_frozen());
    }
    let found = user.sandbox_get(&id).await.unwrap();
    assert!(found.state == SandboxState::Paused && found.usage.is_some(), "it is looked at so");
    let listed = user.sandbox_list(ListSandboxes::default()).await.unwrap();
    assert_eq!(listed[0].state, SandboxState::Paused);
    // What needs nothing inside leaves it paused.
    user.sandbox_extend(&id, Duration::from_secs(60)).await.unwrap();
    user.port_expose(&id, 80, holm_engine::PortOptions::default()).await.unwrap();
    assert_eq!(state(&user, &id).await, SandboxState::Paused);
    for _ in 0..2 {
        let view = user.sandbox_resume(&id).await.unwrap();
        assert_eq!((view.state, view.paused_at), (SandboxState::Running, None));
        assert!(!service.driver.last().is_frozen());
    }
    let (now, lease) = (jiff::Timestamp::MAX, Duration::from_secs(1));
    let claim = holm_store::OutboxClaim { target: None, now, lease, limit: 100 };
    let told = service.store.outbox_claim(claim).await.unwrap();
    let kinds: Vec<_> = told.iter().map(|told| told.event.kind.clone()).collect();
    let count = |kind: &str| kinds.iter().filter(|told| *told == kind).count();
    assert_eq!((count("sandbox.paused"), count("sandbox.resumed")), (1, 1), "{kinds:?}");
    until("it is audited", || async {
        let audited = service.audited().await;
        let count = |what: &str| audited.iter().filter(|text| *text == what).count();
        count("sandbox.pause done") == 2 && count("sandbox.resume done") == 2
    })
    .await;
    let stranger = service.tenant().await.1;
    for result in [stranger.sandbox_pause(&id).await, stranger.sandbox_resume(&id).await] {
        assert_eq!(result.unwrap_err().kind, ErrorKind::NotFound);
    }
    user.sandbox_destroy(&id).await.unwrap();
    for result in [user.sandbox_pause(&id).await, user.sandbox_resume(&id).await] {
        assert_eq!(result.unwrap_err().kind, ErrorKind::SandboxGone);
    }
}

#[tokio::test(start_paused = true)]
async fn use_lets_it_go_on_unless_that_was_not_wanted() {
    let (service, _, user) = service_with(priced()).await;
    let id = create(&user, CreateSandbox::default()).await;
    user.sandbox_pause(&id).await.unwrap();
    user.exec_run(&id, command()).await.unwrap();
    assert_eq!(state(&user, &id).await, SandboxState::Running);
    assert!(!service.driver.last().is_frozen());
    let wanted = CreateSandbox { auto_resume: Some(false), ..CreateSandbox::default() };
    let id = create(&user, wanted).await;
    user.sandbox_pause(&id).await.unwrap();
    let error = user.exec_run(&id, command()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxPaused);
    assert!(error.suggestion.contains("resume_sandbox"), "{error:?}");
    let error = user.file_list(&id, "/", None, false, None, None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxPaused);
    assert_eq!(state(&user, &id).await, SandboxState::Paused);
    user.sandbox_resume(&id).await.unwrap();
    user.exec_run(&id, command()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_second_has_one_price() {
    let (service, account, user) = service_with(priced()).await;
    let id = create(&user, CreateSandbox::default()).await;
    let ready = Instant::now();
    let at = |millis| sleep_until(ready + Duration::from_millis(millis));
    at(20_500).await;
    user.sandbox_pause(&id).await.unwrap();
    // The running second that has begun is not charged before it is over.
    assert_eq!(service.charged(account).await, 20);
    let usage = user.usage().await.unwrap();
    assert_eq!(usage.burn_per_hour, 3600 * PAUSED);
    at(60_900).await;
    let want = 21 * PRICE + 39 * PAUSED;
    assert_eq!(user.usage().await.unwrap().cost_total, want, "also what is not charged yet");
    user.sandbox_resume(&id).await.unwrap();
    at(65_100).await;
    let want = want + 5 * PRICE;
    assert_eq!(user.usage().await.unwrap().recent[0].cost, want);
    user.sandbox_pause(&id).await.unwrap();
    at(70_200).await;
    user.sandbox_destroy(&id).await.unwrap();
    let want = want + PRICE + 4 * PAUSED;
    assert_eq!(1_000_000 - service.balance(account).await, want);
    assert_eq!(service.charged(account).await, 70);
    service.check_ledger(account).await;
    let usage = user.usage().await.unwrap();
    assert_eq!((usage.cost_total, usage.recent[0].cost), (want, want));
}

#[tokio::test(start_paused = true)]
async fn it_expires_is_quoted_and_runs_out_of_money_as_any() {
    let limits = EngineSettings { max_sandboxes: 1, ..priced() };
    let (service, account, user) = service_with(limits).await;
    let timeout = Some(Duration::from_secs(30));
    let id = create(&user, CreateSandbox { timeout, ..CreateSandbox::default() }).await;
    user.sandbox_pause(&id).await.unwrap();
    let error = user.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::QuotaExceeded, "its memory is kept");
    until("it has expired", || async { service.driver.alive() == 0 }).await;
    let ended = user.sandbox_get(&id).await.unwrap().ended.unwrap();
    assert_eq!(ended.reason, EndReason::Expired);
    let spent = 1_000_000 - service.balance(account).await;
    assert!((29 * PAUSED..=30 * PAUSED + PRICE).contains(&spent), "{spent}");
    // Nothing is left to pay a pause with.
    service.engine.account_topup(account, 1, None).await.unwrap();
    let id = create(&user, CreateSandbox::default()).await;
    user.sandbox_pause(&id).await.unwrap();
    let balance = service.balance(account).await;
    service.engine.account_adjust(account, -balance, None).await.unwrap();
    until("it ended", || async { service.driver.alive() == 0 }).await;
    let ended = user.sandbox_get(&id).await.unwrap().ended.unwrap();
    assert_eq!(ended.reason, EndReason::Balance);
    service.check_ledger(account).await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_uses_is_paused_and_what_is_used_is_not() {
    let (service, _, user) = service_with(priced()).await;
    let wanted = CreateSandbox {
        auto_pause: Some(Duration::from_secs(20)),
        timeout: Some(Duration::from_secs(3600)),
        ..CreateSandbox::default()
    };
    let id = create(&user, wanted).await;
    for _ in 0..10 {
        sleep(Duration::from_secs(15)).await;
        user.exec_run(&id, command()).await.unwrap();
        assert_eq!(state(&user, &id).await, SandboxState::Running);
    }
    // To look at it is no use.
    for _ in 0..30 {
        sleep(Duration::from_secs(1)).await;
        state(&user, &id).await;
    }
    assert_eq!(state(&user, &id).await, SandboxState::Paused);
    assert!(service.driver.last().is_frozen());
    user.exec_run(&id, command()).await.unwrap();
    sleep(Duration::from_secs(15)).await;
    assert_eq!(state(&user, &id).await, SandboxState::Running);
    // So it is after a restart.
    until("it is paused", || async { state(&user, &id).await == SandboxState::Paused }).await;
    user.sandbox_resume(&id).await.unwrap();
    let mut service = service;
    let caller = user.caller().clone();
    service.kill();
    service.engine.start().await.unwrap();
    let user = service.engine.for_caller(caller);
    until("it is paused", || async { state(&user, &id).await == SandboxState::Paused }).await;
    let bad = Some(Duration::from_millis(10));
    let bad = CreateSandbox { auto_pause: bad, ..CreateSandbox::default() };
    let error = user.sandbox_create(bad).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    service.driver.never_freezes.store(true, Ordering::SeqCst);
    let vain = Some(Duration::from_secs(10));
    let vain = CreateSandbox { auto_pause: vain, ..CreateSandbox::default() };
    let error = user.sandbox_create(vain).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_fails_leaves_it_running() {
    let (service, _, user) = service_with(priced()).await;
    let id = create(&user, CreateSandbox::default()).await;
    service.driver.last().freeze_failures.store(1, Ordering::SeqCst);
    let error = user.sandbox_pause(&id).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(!error.public.contains("/secret"), "{error:?}");
    assert_eq!(state(&user, &id).await, SandboxState::Running);
    user.sandbox_pause(&id).await.unwrap();
    service.driver.last().freeze_failures.store(1, Ordering::SeqCst);
    user.sandbox_resume(&id).await.unwrap_err();
    assert!(service.driver.last().is_frozen());
    assert_eq!(state(&user, &id).await, SandboxState::Paused);
    user.sandbox_resume(&id).await.unwrap();
    user.exec_run(&id, command()).await.unwrap();
}

/// What fails at any step, whether the store has it or not, leaves what is true, and the store
/// learns of it.
#[tokio::test(start_paused = true)]
async fn what_fails_half_way_is_recorded_as_it_is() {
    for step in pause_steps() {
        for moment in [Moment::Before, Moment::After] {
            let armed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
            let faults = {
                let armed = std::sync::Arc::clone(&armed);
                Faults::when(move |name, when| {
                    name == step && when == moment && armed.swap(false, Ordering::SeqCst)
                })
            };
            let (service, account, user) =
                service_with(EngineSettings { faults, ..priced() }).await;
            let id = create(&user, CreateSandbox::default()).await;
            sleep(Duration::from_millis(3_300)).await;
            let paused = user.sandbox_pause(&id).await;
            sleep(Duration::from_millis(3_300)).await;
            let resumed = user.sandbox_resume(&id).await;
            assert!(paused.is_err() || resumed.is_err(), "{step} {moment:?}");
            let found = state(&user, &id).await;
            let frozen = service.driver.last().is_frozen();
            assert_eq!(found == SandboxState::Paused, frozen, "{step} {moment:?}: {found}");
            until("the store knows", || async {
                let record = service.store.sandbox_get(holm_store::Owner::Any, id).await;
                record.unwrap().unwrap().state == found
            })
            .await;
            user.exec_run(&id, command()).await.unwrap();
            user.sandbox_pause(&id).await.unwrap();
            user.sandbox_destroy(&id).await.unwrap();
            service.check_ledger(account).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_engine_makes_it_what_is_recorded() {
    for (pause, freeze) in [(true, true), (true, false), (false, true), (false, false)] {
        let (mut service, account, user) = service_with(priced()).await;
        let id = create(&user, CreateSandbox::default()).await;
        if pause {
            user.sandbox_pause(&id).await.unwrap();
        }
        // As if it had been killed between the one and the other.
        service.driver.last().frozen.store(freeze, Ordering::SeqCst);
        let caller = user.caller().clone();
        drop(user);
        service.kill();
        service.engine.start().await.unwrap();
        let user = service.engine.for_caller(caller);
        let want = if pause { SandboxState::Paused } else { SandboxState::Running };
        // Also long after a guest that does not answer would be lost.
        sleep(Duration::from_secs(100)).await;
        assert_eq!(state(&user, &id).await, want);
        assert_eq!(service.driver.last().is_frozen(), pause);
        user.exec_run(&id, command()).await.unwrap();
        user.sandbox_destroy(&id).await.unwrap();
        service.check_ledger(account).await;
    }
}

#[tokio::test(start_paused = true)]
async fn many_at_once_end_in_one_state() {
    let (service, account, user) = service_with(priced()).await;
    let id = create(&user, CreateSandbox::default()).await;
    let mut all = tokio::task::JoinSet::new();
    for number in 0..40 {
        let user = user.clone();
        all.spawn(async move {
            match number % 4 {
                0 => user.sandbox_pause(&id).await.map(|_| ()),
                1 => user.sandbox_resume(&id).await.map(|_| ()),
                2 => user.exec_run(&id, command()).await.map(|_| ()),
                _ => user.sandbox_extend(&id, Duration::from_secs(1)).await.map(|_| ()),
            }
        });
        sleep(Duration::from_millis(7)).await;
    }
    while let Some(done) = all.join_next().await {
        done.unwrap().unwrap();
    }
    let paused = state(&user, &id).await == SandboxState::Paused;
    assert_eq!(service.driver.last().is_frozen(), paused);
    // Against its end.
    let mut all = tokio::task::JoinSet::new();
    for number in 0..30 {
        let user = user.clone();
        all.spawn(async move {
            match number {
                15 => user.sandbox_destroy(&id).await.map(|_| ()),
                _ if number % 2 == 0 => user.sandbox_pause(&id).await.map(|_| ()),
                _ => user.sandbox_resume(&id).await.map(|_| ()),
            }
        });
    }
    while let Some(done) = all.join_next().await {
        if let Err(error) = done.unwrap() {
            assert_eq!(error.kind, ErrorKind::SandboxGone, "{error:?}");
        }
    }
    assert_eq!((state(&user, &id).await, service.driver.alive()), (SandboxState::Deleted, 0));
    service.check_ledger(account).await;
}
