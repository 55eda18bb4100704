//! Leases: what expires is gone, what is extended lives, and nothing is both.

use std::sync::atomic::Ordering;
use std::time::Duration;

use holm_engine::{
    CreateSandbox, EndReason, Engine, EngineSettings, ErrorKind, LifetimeRules, RunCommand,
    SandboxId, SandboxState,
};
use tokio::time::{Instant, sleep, sleep_until};

use crate::support::{engine, settings, until};

async fn create(engine: &Engine, lifetime: Duration) -> SandboxId {
    let timeout = Some(lifetime);
    engine.sandbox_create(CreateSandbox { timeout, ..Default::default() }).await.unwrap().id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn case_53_extended_and_alive_or_gone_and_said_so() {
    let (engine, driver) = engine(EngineSettings { max_sandboxes: 1000, ..settings() });
    let lifetime = Duration::from_millis(60);
    let mut trials = tokio::task::JoinSet::new();
    for trial in 0..500_u64 {
        let engine = engine.clone();
        trials.spawn(async move {
            let id = create(&engine, lifetime).await;
            let ready = Instant::now();
            // From well before the end to a little after it.
            sleep_until(ready + lifetime * 9 / 10 + Duration::from_micros(trial * 20)).await;
            let extended = engine.sandbox_extend(&id, Duration::from_secs(3600)).await;
            (id, extended)
        });
    }
    let outcomes = trials.join_all().await;
    let (mut alive, mut gone) = (0, 0);
    for (id, extended) in &outcomes {
        let view = engine.sandbox_get(id).await.unwrap();
        match extended {
            Ok(answer) => {
                alive += 1;
                assert_eq!(view.state, SandboxState::Running);
                assert_eq!(view.expires_at, answer.expires_at);
                engine.exec_run(id, RunCommand::shell("true")).await.unwrap();
            }
            Err(error) => {
                gone += 1;
                assert_eq!(error.ended.map(|ended| ended.reason), Some(EndReason::Expired));
                assert!(matches!(view.state, SandboxState::Deleting | SandboxState::Deleted));
            }
        }
    }
    assert!(alive > 0 && gone > 0, "both outcomes must occur: {alive} and {gone}");
    until("the gone ones are removed", || async { driver.alive() == alive }).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn case_56_a_late_timer_never_lets_an_expired_sandbox_be_used() {
    let (engine, driver) = engine(settings());
    let id = create(&engine, Duration::from_secs(10)).await;
    // The process was stopped: time has passed and no task of the engine has run since.
    tokio::time::advance(Duration::from_secs(60)).await;
    let error = engine.exec_run(&id, RunCommand::shell("true")).await.unwrap_err();
    assert_eq!(error.ended.unwrap().reason, EndReason::Expired);
    assert_eq!(driver.last().guest.shared.runs.load(Ordering::SeqCst), 0);
    until("it is removed", || async { driver.alive() == 0 }).await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_sandbox_is_removed_although_nobody_calls() {
    let (engine, driver) = engine(settings());
    let ready = Instant::now();
    let id = create(&engine, Duration::from_secs(5)).await;
    create(&engine, Duration::from_secs(3600)).await;
    until("it is removed", || async { driver.alive() == 1 }).await;
    let took = ready.elapsed();
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(6), "{took:?}");
    let view = engine.sandbox_get(&id).await.unwrap();
    assert_eq!(view.ended.unwrap().reason, EndReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn case_64_a_run_ends_with_the_lease_and_keeps_what_it_wrote() {
    let (engine, _driver) = engine(settings());
    let id = create(&engine, Duration::from_secs(5)).await;
    let begin = Instant::now();
    let error = engine.exec_run(&id, RunCommand::shell("sleep 60")).await.unwrap_err();
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(6), "{took:?}");
    assert_eq!(error.kind, ErrorKind::SandboxGone);
    assert_eq!(error.ended.unwrap().reason, EndReason::Expired);
    assert!(error.public.contains("its lifetime expired at 20"), "{error}");
    assert_eq!(error.partial.unwrap().stdout.text, "so far");
    let later = engine.exec_run(&id, RunCommand::shell("true")).await.unwrap_err();
    assert_eq!(later.ended.unwrap().reason, EndReason::Expired);
    assert_eq!(later.partial, None);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_outlives_the_lease_it_began_with_is_timed_out_when_extended() {
    let (engine, _driver) = engine(settings());
    let id = create(&engine, Duration::from_secs(5)).await;
    let run = engine.exec_run(&id, RunCommand::shell("sleep 60"));
    let extend = async {
        sleep(Duration::from_secs(1)).await;
        engine.sandbox_extend(&id, Duration::from_secs(3600)).await.unwrap();
    };
    let (run, ()) = tokio::join!(run, extend);
    let result = run.unwrap();
    assert!(result.timed_out);
    assert_eq!(result.timeout.as_secs_f64().ceil(), 5.0);
    engine.exec_run(&id, RunCommand::shell("true")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn leases_end_at_the_ceiling() {
    let max = Duration::from_secs(100);
    let lifetime = LifetimeRules { max, ..settings().lifetime };
    let (engine, driver) = engine(EngineSettings { lifetime, ..settings() });
    let id = create(&engine, Duration::from_secs(60)).await;
    let ready = Instant::now();
    let view = engine.sandbox_extend(&id, Duration::from_secs(90)).await.unwrap();
    let length = view.expires_at.unwrap().duration_since(view.ready_at.unwrap());
    assert!((99..=101).contains(&length.as_secs()), "cut to the ceiling, and said: {length:?}");
    let error = engine.sandbox_extend(&id, Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    assert!(error.public.contains("100 seconds"), "{error}");
    for bad in [Duration::ZERO, Duration::from_secs(101)] {
        let error = engine.sandbox_extend(&id, bad).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{bad:?}");
    }
    sleep_until(ready + Duration::from_secs(98)).await;
    engine.sandbox_touch(&id).await.unwrap();
    until("it is gone", || async { driver.alive() == 0 }).await;
    assert!(ready.elapsed() < Duration::from_secs(102));
}

#[tokio::test(start_paused = true)]
async fn a_touch_gives_the_first_lifetime_again_and_never_shortens() {
    let (engine, driver) = engine(settings());
    let id = create(&engine, Duration::from_secs(10)).await;
    let ready = Instant::now();
    for _ in 0..10 {
        sleep(Duration::from_secs(9)).await;
        engine.sandbox_touch(&id).await.unwrap();
    }
    engine.sandbox_extend(&id, Duration::from_secs(1000)).await.unwrap();
    engine.sandbox_touch(&id).await.unwrap();
    sleep(Duration::from_secs(900)).await;
    assert_eq!(engine.sandbox_get(&id).await.unwrap().state, SandboxState::Running);
    until("it is gone", || async { driver.alive() == 0 }).await;
    assert!(ready.elapsed() < Duration::from_secs(1200));
}
