//! Guests that were taken over: whatever they answer, calls end with an error, in bounded time and
//! memory, and the sandbox can be destroyed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holm_engine::{
    CreateSandbox, EndReason, Engine, EngineSettings, Error, ErrorKind, GetCommand, RunCode,
    RunCommand, SandboxId, SandboxState,
};
use tokio::time::Instant;

use crate::support::guest::Manner;
use crate::support::{FakeDriver, engine, settings, until};

fn head(length: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{length}\r\n\r\n").into_bytes()
}

fn says(body: &str) -> Manner {
    let mut bytes = head(&format!("content-length: {}", body.len()));
    bytes.extend_from_slice(body.as_bytes());
    Manner::Says(bytes)
}

fn manners() -> Vec<(&'static str, Manner)> {
    let chunk = [b"10000\r\n".as_slice(), &[b'['; 0x10000], b"\r\n"].concat();
    let framed = [[0, 0xff, 0xff, 0xff, 0xff].as_slice(), &[b'x'; 4096]].concat();
    vec![
        ("silent", Manner::Silent),
        ("hangs up", Manner::HangsUp),
        ("garbage", Manner::Says(b"\x16\x03\x01 this is no HTTP\n\n\n".to_vec())),
        ("an endless head", Manner::Floods(b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'x'; 4096])),
        ("an endless body", Manner::Floods(head("transfer-encoding: chunked"), chunk)),
        ("a lie about the size", Manner::Says(head("content-length: 99999999999"))),
        ("a drip", Manner::Drips(head("content-length: 99999999999"))),
        ("not JSON", says("{]")),
        ("deep JSON", says(&"[".repeat(100_000))),
        ("the wrong JSON", says("[1,2,3]")),
        ("strange numbers", says(r#"{"exitCode":1e300,"signal":-9e99}"#)),
        ("an endless frame", Manner::Floods(head("transfer-encoding: identity"), framed)),
        (
            "an error with an endless text",
            Manner::Floods(
                b"HTTP/1.1 500 X\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
                [b"10000\r\n".as_slice(), &[b'"'; 0x10000], b"\r\n"].concat(),
            ),
        ),
    ]
}

async fn start(manner: Manner) -> (Engine, Arc<FakeDriver>, SandboxId) {
    let (engine, driver) = engine(EngineSettings {
        guest_patience: Duration::from_secs(5),
        max_read: 1 << 20,
        ..settings()
    });
    driver.guest.lock().unwrap().manner = manner;
    let id = engine.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    (engine, driver, id)
}

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Run,
    Background,
    Command,
    Code,
    Read,
    Write,
    List,
}

async fn call(engine: &Engine, id: &SandboxId, call: Call) -> Result<(), Error> {
    match call {
        Call::Run => engine.exec_run(id, RunCommand::shell("true")).await.map(drop),
        Call::Background => engine.exec_background(id, RunCommand::shell("true")).await.map(drop),
        Call::Command => engine.command_get(id, "cmd_1", &GetCommand::default()).await.map(drop),
        Call::Code => engine.code_run(id, RunCode::default()).await.map(drop),
        Call::Read => engine.file_read(id, "/x", None, 0, None).await.map(drop),
        Call::Write => {
            let bytes = Bytes::from(vec![0; 8 << 20]);
            engine.file_write(id, "/x", None, None, bytes).await.map(drop)
        }
        Call::List => engine.file_list(id, "/x", None, true, None, None).await.map(drop),
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_a_guest_answers_calls_end_and_the_sandbox_can_be_destroyed() {
    let before = resident();
    for (name, manner) in manners() {
        for asked in [
            Call::Run,
            Call::Background,
            Call::Command,
            Call::Code,
            Call::Read,
            Call::Write,
            Call::List,
        ] {
            let (engine, driver, id) = start(manner.clone()).await;
            let begin = Instant::now();
            // The bound of a run is its time limit and a grace; of a file call its deadline; of code
            // its time limit twice (it may wait for its turn) and the starts of its kernel.
            let bound = Duration::from_secs(160);
            let answer = tokio::time::timeout(bound * 10, call(&engine, &id, asked)).await;
            let answer = answer.unwrap_or_else(|_| panic!("{name}: {asked:?} never ended"));
            assert!(begin.elapsed() < bound, "{name}: {asked:?} took {:?}", begin.elapsed());
            // Some answers are valid for some calls (an empty file); most are errors.
            if let Err(error) = &answer {
                assert!(error.public.len() < 3000, "{name}: {asked:?}");
                assert!(
                    matches!(
                        error.kind,
                        ErrorKind::Unavailable | ErrorKind::SandboxGone | ErrorKind::TooLarge
                    ),
                    "{name}: {asked:?}: {error:?}"
                );
            }
            engine.sandbox_destroy(&id).await.unwrap();
            engine.shutdown().await;
            assert_eq!(driver.alive(), 0, "{name}: {asked:?}");
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 300 << 10, "memory grew by {grown} KiB");
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_stays_silent_is_lost_and_its_slot_free() {
    for manner in [Manner::Silent, Manner::HangsUp, Manner::Says(b"garbage\n\n".to_vec())] {
        let (engine, driver, id) = start(manner.clone()).await;
        let error = engine.exec_run(&id, RunCommand::shell("true")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{manner:?}: {error}");
        until("it is removed", || async { driver.alive() == 0 }).await;
        let over =
            || async { engine.sandbox_get(&id).await.unwrap().state == SandboxState::Failed };
        until("it is failed", over).await;
        let error = engine.exec_run(&id, RunCommand::shell("true")).await.unwrap_err();
        assert_eq!(error.ended.unwrap().reason, EndReason::Lost);
    }
}

#[tokio::test]
async fn a_guest_that_lies_about_a_run_fools_only_its_caller() {
    let big = "QUFB".repeat(100_000);
    let body = format!(
        r#"{{"outcome":"out_of_memory","exitCode":-7,"signal":12345,"durationMs":18446744073709551615,
           "stdout":{{"head":"{big}","tail":"{big}","total":3}}}}"#
    );
    let (engine, _driver, id) = start(says(&body)).await;
    let request = RunCommand { output_limit: Some(1 << 20), ..RunCommand::shell("true") };
    let result = engine.exec_run(&id, request).await.unwrap();
    assert!(!result.out_of_memory, "the host's counter says otherwise");
    assert_eq!(result.signal.as_deref(), Some("signal 12345"));
    assert_eq!(result.stdout.bytes, 600_000);
    let (engine, _driver, id) = start(says(&body)).await;
    let request = RunCommand { output_limit: Some(1000), ..RunCommand::shell("true") };
    let error = engine.exec_run(&id, request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "more than twice what was asked for");
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_never_answers_its_configuration_makes_no_sandbox() {
    let (engine, driver) = engine(settings());
    driver.guest.lock().unwrap().configure_delay = Duration::from_secs(1_000_000);
    let begin = Instant::now();
    let error = engine.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(begin.elapsed() < Duration::from_secs(40));
    assert_eq!(driver.alive(), 0);
}
