//! Ending: once, completely, with a reason that later calls can name.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use holm_engine::{
    CreateSandbox, EndReason, Engine, EngineSettings, Error, ErrorKind, ListSandboxes, RunCode,
    RunCommand, SandboxId, SandboxState,
};
use holm_runtime::ExitReason;

use crate::support::{engine, settings, until};

/// What every call on `id` answers.
async fn every_call(engine: &Engine, id: &SandboxId) -> Vec<Error> {
    let path = "/workspace/x";
    vec![
        engine.exec_run(id, RunCommand::shell("true")).await.unwrap_err(),
        engine.exec_background(id, RunCommand::shell("true")).await.unwrap_err(),
        engine.code_run(id, RunCode::default()).await.unwrap_err(),
        engine.file_read(id, path, None, 0, None).await.unwrap_err(),
        engine.file_write(id, path, None, None, Bytes::new()).await.unwrap_err(),
        engine.file_list(id, path, None, true, None, None).await.unwrap_err(),
        engine.sandbox_extend(id, Duration::from_secs(5)).await.unwrap_err(),
        engine.sandbox_touch(id).await.unwrap_err(),
        engine.guest(id).await.unwrap_err(),
        engine.sandbox_ended(id).await,
    ]
}

async fn create(engine: &Engine) -> SandboxId {
    engine.sandbox_create(CreateSandbox::default()).await.unwrap().id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_60_twenty_destroys_are_one() {
    let (engine, driver) = engine(settings());
    *driver.destroy_delay.lock().unwrap() = Duration::from_millis(20);
    let id = create(&engine).await;
    let mut destroys = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (engine, driver) = (engine.clone(), driver.clone());
        destroys.spawn(async move {
            let answer = engine.sandbox_destroy(&id).await.unwrap();
            assert_eq!(driver.alive(), 0, "success is only said when it is gone");
            answer
        });
    }
    let answers = destroys.join_all().await;
    assert_eq!(answers.iter().filter(|answer| !answer.already).count(), 1);
    assert!(answers.iter().all(|answer| answer.ended == answers[0].ended));
    assert_eq!(driver.removed(), 1);
    assert!(engine.sandbox_destroy(&id).await.unwrap().already);
    for error in every_call(&engine, &id).await {
        assert_eq!(error.kind, ErrorKind::SandboxGone);
        assert_eq!(error.ended.unwrap().reason, EndReason::Destroyed);
        assert!(error.public.contains("it was destroyed at 20"), "{error}");
    }
    let view = engine.sandbox_get(&id).await.unwrap();
    assert_eq!(view.state, SandboxState::Deleted);
    assert!(engine.sandbox_list(ListSandboxes::default()).await.unwrap().is_empty());
    let all = ListSandboxes { include_deleted: true, ..ListSandboxes::default() };
    assert_eq!(engine.sandbox_list(all).await.unwrap().len(), 1);
}

#[tokio::test]
async fn case_60_an_unknown_id_is_not_found_everywhere() {
    let (engine, _driver) = engine(settings());
    let id = SandboxId::random().unwrap();
    let mut errors = every_call(&engine, &id).await;
    errors.push(engine.sandbox_destroy(&id).await.unwrap_err());
    errors.push(engine.sandbox_get(&id).await.unwrap_err());
    for error in errors {
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert_eq!(error.public, format!("there is no sandbox {id}"));
    }
}

#[tokio::test(start_paused = true)]
async fn case_60_a_destroy_while_it_is_made_ends_the_create() {
    for made_for in [1, 11, 21] {
        let (engine, driver) = engine(settings());
        let delay = Duration::from_millis(10);
        *driver.delay.lock().unwrap() = delay;
        driver.guest.lock().unwrap().configure_delay = 2 * delay;
        let destroy = async {
            tokio::time::sleep(Duration::from_millis(made_for)).await;
            let listed = engine.sandbox_list(ListSandboxes::default()).await.unwrap();
            assert_eq!(listed[0].state, SandboxState::Provisioning);
            let unready = engine.exec_run(&listed[0].id, RunCommand::shell("true")).await;
            assert_eq!(unready.unwrap_err().kind, ErrorKind::Unavailable);
            let answer = engine.sandbox_destroy(&listed[0].id).await.unwrap();
            assert!(!answer.already);
            assert_eq!(driver.alive(), 0);
            listed[0].id
        };
        let create = engine.sandbox_create(CreateSandbox::default());
        let (created, id) = tokio::join!(create, destroy);
        let error = created.unwrap_err();
        assert_eq!(error.ended.map(|ended| ended.reason), Some(EndReason::Destroyed));
        assert!(engine.sandbox_destroy(&id).await.unwrap().already);
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_fails_stays_visible_and_is_tried_again() {
    let (engine, driver) = engine(EngineSettings { max_sandboxes: 1, ..settings() });
    let id = create(&engine).await;
    driver.stubborn.store(2, Ordering::SeqCst);
    let error = engine.sandbox_destroy(&id).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(!error.public.contains("busy"), "{error}");
    assert_eq!(engine.sandbox_get(&id).await.unwrap().state, SandboxState::Deleting);
    let full = engine.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    assert_eq!(full.kind, ErrorKind::QuotaExceeded, "it still holds its slot");
    until("the sweep removes it", || async { driver.alive() == 0 }).await;
    until("it is over", || async {
        engine.sandbox_get(&id).await.unwrap().state == SandboxState::Deleted
    })
    .await;
    create(&engine).await;
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_undo_fails_is_left_to_the_sweep() {
    let (engine, driver) = engine(EngineSettings { max_sandboxes: 1, ..settings() });
    driver.guest.lock().unwrap().configure_delay = Duration::from_secs(3600);
    driver.stubborn.store(2, Ordering::SeqCst);
    let error = engine.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(driver.alive(), 1);
    let listed = engine.sandbox_list(ListSandboxes::default()).await.unwrap();
    assert_eq!(listed[0].state, SandboxState::Deleting);
    until("the sweep removes it", || async { driver.alive() == 0 }).await;
    driver.guest.lock().unwrap().configure_delay = Duration::ZERO;
    let again = async || engine.sandbox_create(CreateSandbox::default()).await.is_ok();
    until("the slot is free", again).await;
}

#[tokio::test]
async fn a_sandbox_that_dies_is_failed_with_its_reason() {
    for (exit, reason) in
        [(ExitReason::Died, EndReason::Lost), (ExitReason::OutOfMemory, EndReason::OutOfMemory)]
    {
        let (engine, driver) = engine(settings());
        let id = create(&engine).await;
        let run = engine.exec_run(&id, RunCommand::shell("sleep 3600"));
        let die = async {
            let started = || async { driver.last().guest.shared.runs.load(Ordering::SeqCst) == 1 };
            until("the command runs", started).await;
            driver.last().die(exit);
        };
        let (run, ()) = tokio::join!(run, die);
        let error = run.unwrap_err();
        assert_eq!(error.ended.map(|ended| ended.reason), Some(reason), "{error}");
        until("it is removed", || async { driver.alive() == 0 }).await;
        let failed =
            || async { engine.sandbox_get(&id).await.unwrap().state == SandboxState::Failed };
        until("it is failed", failed).await;
        for error in every_call(&engine, &id).await {
            assert_eq!(error.ended.map(|ended| ended.reason), Some(reason));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_59_calls_in_flight_end_with_their_sandbox() {
    let (engine, driver) = engine(settings());
    driver.guest.lock().unwrap().programs = vec!["python3"];
    let id = create(&engine).await;
    let run = engine.exec_run(&id, RunCommand::shell("sleep 100"));
    let guest = driver.last();
    let destroy = async {
        until("the command runs", || async { guest.guest.shared.runs.load(Ordering::SeqCst) == 1 })
            .await;
        let begin = tokio::time::Instant::now();
        engine.sandbox_destroy(&id).await.unwrap();
        begin
    };
    let ended = engine.sandbox_ended(&id);
    let (run, begin, ended) = tokio::join!(run, destroy, ended);
    assert!(begin.elapsed() < Duration::from_secs(2));
    for error in [run.unwrap_err(), ended] {
        assert_eq!(error.kind, ErrorKind::SandboxGone);
        assert_eq!(error.ended.unwrap().reason, EndReason::Destroyed);
    }
}

#[tokio::test]
async fn what_ended_is_remembered_up_to_a_bound() {
    let (engine, _driver) = engine(EngineSettings { history: 3, ..settings() });
    let mut ids = Vec::new();
    for _ in 0..5 {
        let id = create(&engine).await;
        engine.sandbox_destroy(&id).await.unwrap();
        ids.push(id);
    }
    for (index, id) in ids.iter().enumerate() {
        assert_eq!(engine.sandbox_get(id).await.is_ok(), index >= 2, "{index}");
    }
    let usage = engine.usage().await.unwrap();
    assert_eq!((usage.sandboxes_total, usage.recent.len()), (5, 3));
}

#[tokio::test]
async fn case_75_usage_adds_up_and_failed_creates_count_nothing() {
    let (engine, driver) = engine(settings());
    let first = create(&engine).await;
    let second = create(&engine).await;
    *driver.failing.lock().unwrap() = Some(holm_runtime::DriverErrorKind::Internal);
    engine.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    engine.sandbox_destroy(&first).await.unwrap();
    engine.sandbox_destroy(&first).await.unwrap();
    let usage = engine.usage().await.unwrap();
    assert_eq!((usage.sandboxes_running, usage.sandboxes_total), (1, 2));
    let rows: f64 = usage.recent.iter().map(|row| row.seconds).sum();
    assert!((usage.seconds_total - rows).abs() < 1e-6, "{usage:?}");
    assert_eq!(usage.recent[0].id, second, "newest first");
    let ended = usage.recent[1].seconds;
    let later = engine.usage().await.unwrap().recent[1].seconds;
    assert_eq!(ended.to_bits(), later.to_bits(), "an ended one does not grow");
}

#[tokio::test]
async fn shutdown_ends_everything_and_takes_nothing_new() {
    let (engine, driver) = engine(settings());
    for _ in 0..5 {
        create(&engine).await;
    }
    let id = create(&engine).await;
    let run = engine.exec_run(&id, RunCommand::shell("sleep 3600"));
    let stop = async {
        let runs = || async { driver.last().guest.shared.runs.load(Ordering::SeqCst) == 1 };
        until("the command runs", runs).await;
        tokio::join!(engine.shutdown(), engine.shutdown());
    };
    let (run, ()) = tokio::join!(run, stop);
    assert_eq!(run.unwrap_err().kind, ErrorKind::SandboxGone);
    assert_eq!(driver.alive(), 0);
    let error = engine.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
}
