//! Creating: all or nothing, never over the limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holm_engine::{
    CreateSandbox, EngineSettings, ErrorKind, Faults, ListSandboxes, Moment, SandboxState, Uplink,
    UplinkOptions, create_steps,
};
use holm_runtime::{DriverErrorKind, Enforcement, ExitReason, Layer, LayerState};
use jiff::Timestamp;

use crate::support::{engine, settings, until};

#[tokio::test]
async fn a_new_sandbox_is_described_completely() {
    let (engine, driver) = engine(settings());
    let request = CreateSandbox {
        name: Some("web-1".to_owned()),
        size: Some("large".to_owned()),
        env: [("A".to_owned(), "é€".to_owned())].into(),
        metadata: [("k".to_owned(), "v".to_owned())].into(),
        ..CreateSandbox::default()
    };
    let view = engine.sandbox_create(request).await.unwrap();
    assert_eq!(view.state, SandboxState::Running);
    assert_eq!((view.vcpus, view.memory_mb, view.disk_mb), (8, 16384, 32768));
    assert_eq!((view.name.as_deref(), view.network.mode.as_str()), (Some("web-1"), "none"));
    assert!(view.expires_at.unwrap() > Timestamp::now());
    assert_eq!(view.metadata["k"], "v");
    let machine = driver.last();
    assert_eq!(machine.spec.hostname, "web-1");
    assert_eq!(machine.guest.shared.env.lock().unwrap()["A"], "é€");
    machine.oom_kills.store(3, Ordering::SeqCst);
    let got = engine.sandbox_get(&view.id).await.unwrap().usage.unwrap();
    assert_eq!((got.cpu_seconds, got.oom_kills), (Some(1.5), Some(3)));
    assert_eq!(engine.sandbox_list(ListSandboxes::default()).await.unwrap().len(), 1);
}

/// Generated from the list of steps: whatever fails, nothing is left and the slot is free.
#[tokio::test]
async fn every_step_that_fails_leaves_nothing() {
    for name in create_steps() {
        for moment in [Moment::Before, Moment::After] {
            let armed = Arc::new(AtomicBool::new(true));
            let trigger = Arc::clone(&armed);
            let faults = Faults::when(move |step, when| {
                trigger.load(Ordering::SeqCst) && step == name && when == moment
            });
            let uplink = Some(Uplink::new(UplinkOptions::default()).unwrap());
            let (engine, driver) =
                engine(EngineSettings { faults, uplink, max_sandboxes: 1, ..settings() });
            driver.gates.store(true, Ordering::SeqCst);
            let error = engine.sandbox_create(CreateSandbox::default()).await.unwrap_err();
            let machines = driver.machines.lock().unwrap().clone();
            let closed = async || machines.iter().all(|machine| !machine.gate_is_open());
            until("its gate is closed", closed).await;
            assert_eq!(error.kind, ErrorKind::Internal, "{name} {moment:?}");
            assert_eq!(driver.alive(), 0, "{name} {moment:?}");
            let alive = engine.sandbox_list(ListSandboxes::default()).await.unwrap();
            assert!(alive.is_empty(), "{name} {moment:?}: {alive:?}");
            assert_eq!(engine.usage().await.unwrap().seconds_total.round(), 0.0);
            armed.store(false, Ordering::SeqCst);
            engine.sandbox_create(CreateSandbox::default()).await.unwrap();
            engine.shutdown().await;
            assert_eq!(driver.alive(), 0, "{name} {moment:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_58_a_caller_who_goes_away_leaves_nothing() {
    for patience in 0..45 {
        let (engine, driver) = engine(EngineSettings { max_sandboxes: 1, ..settings() });
        let delay = Duration::from_millis(10);
        *driver.delay.lock().unwrap() = delay;
        driver.guest.lock().unwrap().configure_delay = 2 * delay;
        let create = engine.sandbox_create(CreateSandbox::default());
        let waited = tokio::time::timeout(Duration::from_millis(patience), create).await;
        assert_eq!(waited.is_ok(), patience > 30, "the steps take 30 ms, waited {patience}");
        if let Ok(view) = waited {
            engine.sandbox_destroy(&view.unwrap().id).await.unwrap();
        }
        until("nothing is left", || async { driver.alive() == 0 }).await;
        // The slot is free again, and only then can this succeed.
        let again = async || engine.sandbox_create(CreateSandbox::default()).await.is_ok();
        until("the slot is free", again).await;
        engine.shutdown().await;
        assert_eq!(driver.alive(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_68_parallel_creates_never_pass_the_limit() {
    let (engine, driver) = engine(EngineSettings { max_sandboxes: 5, ..settings() });
    for round in 0..20 {
        // Every third round is one in which the driver fails.
        let failing = (round % 3 == 2).then_some(DriverErrorKind::HostExhausted);
        *driver.failing.lock().unwrap() = failing;
        let mut creates = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let engine = engine.clone();
            creates.spawn(async move { engine.sandbox_create(CreateSandbox::default()).await });
        }
        let mut made = Vec::new();
        for result in creates.join_all().await {
            match result {
                Ok(view) => made.push(view.id),
                Err(error) => assert!(
                    matches!(error.kind, ErrorKind::QuotaExceeded | ErrorKind::Capacity),
                    "{error}"
                ),
            }
        }
        assert!(made.len() <= 5 && (failing.is_some() || made.len() == 5), "{made:?}");
        for id in made {
            engine.sandbox_destroy(&id).await.unwrap();
        }
        assert_eq!(driver.alive(), 0);
    }
    assert!(driver.counts.most.load(Ordering::SeqCst) <= 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_66_fifty_at_once_with_room_for_ten() {
    let (engine, driver) = engine(EngineSettings { max_sandboxes: 10, ..settings() });
    let mut creates = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let engine = engine.clone();
        creates.spawn(async move { engine.sandbox_create(CreateSandbox::default()).await });
    }
    let results = creates.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 10);
    for error in results.iter().filter_map(|result| result.as_ref().err()) {
        assert_eq!(error.kind, ErrorKind::QuotaExceeded);
        assert!(error.public.contains("10 sandboxes"), "{error}");
    }
    assert_eq!(driver.alive(), 10);
    engine.shutdown().await;
    assert_eq!(driver.alive(), 0);
}

#[tokio::test]
async fn case_66_bad_requests_and_bad_hosts_make_nothing() {
    let (engine, driver) = engine(settings());
    let request = |change: fn(&mut CreateSandbox)| {
        let mut request = CreateSandbox::default();
        change(&mut request);
        request
    };
    for (request, kind) in [
        (request(|r| r.template = Some("nope".into())), ErrorKind::TemplateUnknown),
        (request(|r| r.size = Some("huge".into())), ErrorKind::InvalidArgument),
        (request(|r| r.memory_mb = Some(1 << 30)), ErrorKind::InvalidArgument),
        (request(|r| r.env = [("A=".into(), "".into())].into()), ErrorKind::InvalidArgument),
        (request(|r| r.timeout = Some(Duration::ZERO)), ErrorKind::InvalidArgument),
    ] {
        let error = engine.sandbox_create(request).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    }
    for (fault, kind) in [
        (DriverErrorKind::IsolationUnavailable, ErrorKind::IsolationUnavailable),
        (DriverErrorKind::HostExhausted, ErrorKind::Capacity),
        (DriverErrorKind::BadMount, ErrorKind::InvalidArgument),
        (DriverErrorKind::LauncherGone, ErrorKind::Unavailable),
        (DriverErrorKind::UnsafeDirectory, ErrorKind::Internal),
        (DriverErrorKind::Unsupported, ErrorKind::Unsupported),
        (DriverErrorKind::Internal, ErrorKind::Internal),
    ] {
        *driver.failing.lock().unwrap() = Some(fault);
        let error = engine.sandbox_create(CreateSandbox::default()).await.unwrap_err();
        assert_eq!(error.kind, kind);
        let restart = error.suggestion.contains("Start holm again");
        assert_eq!(restart, fault == DriverErrorKind::LauncherGone, "{}", error.suggestion);
        assert!(!error.public.contains("secret"), "host details are for the log: {error}");
        assert!(error.internal.unwrap().contains("secret"));
    }
    assert_eq!(driver.counts.created.load(Ordering::SeqCst), 0);
    assert_eq!(engine.usage().await.unwrap().sandboxes_total, 0);
}

#[tokio::test(start_paused = true)]
async fn case_62_the_lifetime_counts_from_ready() {
    let (engine, driver) = engine(settings());
    *driver.delay.lock().unwrap() = Duration::from_secs(6);
    let timeout = Some(Duration::from_secs(5));
    let view =
        engine.sandbox_create(CreateSandbox { timeout, ..Default::default() }).await.unwrap();
    tokio::time::sleep(Duration::from_millis(4900)).await;
    assert_eq!(engine.sandbox_get(&view.id).await.unwrap().state, SandboxState::Running);
    assert!(view.expires_at.unwrap() > Timestamp::now());
}

fn enforcement(mandatory: bool) -> &'static Enforcement {
    let row = |layer, mandatory| LayerState {
        layer,
        enforced: true,
        mandatory,
        by: "test".to_owned(),
        mend: Some("mend it so".to_owned()),
    };
    let layers = vec![row(Layer::Seccomp, mandatory), row(Layer::PivotRoot, true)];
    let mode = "root".to_owned();
    Box::leak(Box::new(Enforcement { mode, layers, ..Enforcement::default() }))
}

#[tokio::test]
async fn what_is_enforced_is_measured_and_nothing_runs_without_the_mandatory() {
    let (engine, driver) = engine(settings());
    *driver.enforcement.lock().unwrap() = Some(enforcement(false));
    let view = engine.sandbox_create(CreateSandbox::default()).await.unwrap();
    assert_eq!((view.enforced, view.missing), (vec!["pivot_root".into()], vec!["seccomp".into()]));

    *driver.enforcement.lock().unwrap() = Some(enforcement(true));
    let error = engine.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::IsolationUnavailable);
    assert!(error.public.contains("seccomp") && error.suggestion == "mend it so");
    assert_eq!(driver.alive(), 1, "only the first one");

    driver.guest.lock().unwrap().probe.seccomp = 2;
    let view = engine.sandbox_create(CreateSandbox::default()).await.unwrap();
    assert_eq!(view.enforced, ["seccomp", "pivot_root"]);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_dies_at_its_start_is_an_error_at_once() {
    let (engine, driver) = engine(settings());
    driver.guest.lock().unwrap().configure_delay = Duration::from_secs(3600);
    let begin = tokio::time::Instant::now();
    let create = engine.sandbox_create(CreateSandbox::default());
    let die = async {
        until("it is made", || async { driver.alive() == 1 }).await;
        driver.last().die(ExitReason::Died);
    };
    let (error, ()) = tokio::join!(create, die);
    assert_eq!(error.unwrap_err().kind, ErrorKind::Unavailable);
    assert!(begin.elapsed() < Duration::from_secs(1));
    assert_eq!(driver.alive(), 0);
}
