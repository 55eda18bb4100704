//! Commands and files on a running sandbox.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use holm_engine::{
    BackgroundState, CommandResult, CreateSandbox, Engine, EngineSettings, ErrorKind, GetCommand,
    Room, RunCommand, SandboxId,
};
use holm_wire::connect::{Code, Error};
use holm_wire::reason::Reason;
use tokio::task::JoinSet;

use crate::support::{FakeDriver, engine, settings, until};

async fn start(settings: EngineSettings) -> (Engine, std::sync::Arc<FakeDriver>, SandboxId) {
    let (engine, driver) = engine(settings);
    let id = engine.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    (engine, driver, id)
}

async fn run(line: &str) -> Result<CommandResult, holm_engine::Error> {
    let (engine, _driver, id) = start(settings()).await;
    engine.exec_run(&id, RunCommand::shell(line)).await
}

#[tokio::test]
async fn case_19_exit_codes_and_signals_are_told_apart() {
    for (line, code, signal) in [
        ("true", 0, None),
        ("exit 255", 255, None),
        ("kill 11", 139, Some("SIGSEGV")),
        ("kill 15", 143, Some("SIGTERM")),
        ("kill 9", 137, Some("SIGKILL")),
    ] {
        let result = run(line).await.unwrap();
        assert_eq!((result.exit_code, result.signal.as_deref()), (code, signal), "{line}");
        assert!(!result.out_of_memory && !result.timed_out, "{line}");
    }
}

#[tokio::test]
async fn case_98_death_by_memory_is_decided_by_the_hosts_counter_and_names_the_limit() {
    let result = run("oom").await.unwrap();
    assert!(result.out_of_memory);
    let note = result.note.unwrap();
    assert!(note.starts_with("killed") && note.contains("memory limit of 4096 MiB"), "{note}");
    // A child, or a process of another command, was killed; the command itself went on.
    for code in [0, 3] {
        let result = run(&format!("survive {code}")).await.unwrap();
        assert_eq!((result.exit_code, result.out_of_memory), (code, true));
        let note = result.note.unwrap();
        assert!(note.contains("a process of the sandbox was killed"), "{note}");
        assert!(note.contains("memory limit of 4096 MiB"), "{note}");
    }
}

#[tokio::test]
async fn case_16_no_process_left_is_a_clear_error() {
    let error = run("full").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Capacity);
    assert!(error.public.contains("no process left"), "{error}");
}

#[tokio::test]
async fn case_4_output_is_bounded_and_says_so() {
    let (engine, _driver, id) = start(settings()).await;
    let output_limit = Some(1000);
    let request = RunCommand { output_limit, ..RunCommand::shell("flood") };
    let result = engine.exec_run(&id, request).await.unwrap();
    assert!(result.stdout.truncated && result.stdout.bytes == 1 << 30);
    assert!(result.stdout.text.contains("\n[... 1073740824 bytes cut ...]\n"));
    for bad in [0, (8 << 20) + 1] {
        let request = RunCommand { output_limit: Some(bad), ..RunCommand::shell("true") };
        let error = engine.exec_run(&id, request).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
    }
}

#[tokio::test]
async fn only_so_many_outputs_wait_whole_for_room() {
    const MAY_WAIT: usize = 32;
    let mut settings = settings();
    // An account's half is what one output needs.
    settings.answer_room = 16 << 20;
    settings.answer_wait = Duration::from_secs(3600);
    let (engine, _driver, id) = start(settings).await;
    let (first, room) = Room::around(engine.exec_run(&id, RunCommand::shell("flood"))).await;
    assert_eq!(first.unwrap().note, None);
    let mut runs = JoinSet::new();
    for _ in 0..=MAY_WAIT {
        let engine = engine.clone();
        runs.spawn(async move { engine.exec_run(&id, RunCommand::shell("flood")).await });
    }
    let cut = tokio::time::timeout(Duration::from_secs(120), runs.join_next()).await;
    let cut = cut.expect("one that has no place").unwrap().unwrap().unwrap();
    assert!(cut.note.unwrap().contains("output was cut"));
    assert!(cut.stdout.text.len() < 64 << 10 && cut.stdout.bytes == 1 << 30);
    drop(room);
    while let Some(run) = runs.join_next().await {
        assert_eq!(run.unwrap().unwrap().note, None);
    }
}

#[tokio::test(start_paused = true)]
async fn commands_have_a_time_limit() {
    let (engine, driver, id) = start(settings()).await;
    let result = engine.exec_run(&id, RunCommand::shell("sleep 600")).await.unwrap();
    assert!(result.timed_out && result.stdout.text == "so far");
    assert_eq!(result.timeout, Duration::from_secs(60));
    assert!(result.note.unwrap().contains("60 seconds"));
    let timeout = Some(Duration::from_secs(2));
    let request = RunCommand { timeout, ..RunCommand::shell("sleep 600") };
    let result = engine.exec_run(&id, request).await.unwrap();
    assert_eq!(result.timeout, Duration::from_secs(2));
    assert_eq!(driver.last().guest.shared.last_run.lock().unwrap().timeout_ms, 2000);
    let request = RunCommand { timeout: Some(Duration::ZERO), ..RunCommand::shell("true") };
    let error = engine.exec_run(&id, request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn case_82_dropping_the_call_ends_the_command() {
    let (engine, driver, id) = start(settings()).await;
    let shared = driver.last().guest.shared.clone();
    for count in 1..=5 {
        let call = engine.exec_run(&id, RunCommand::shell("sleep 3600"));
        let started = until("it runs", || async { shared.runs.load(Ordering::SeqCst) == count });
        tokio::select! {
            result = call => panic!("ended by itself: {result:?}"),
            () = started => {}
        }
        until("it is ended", || async { shared.dropped.load(Ordering::SeqCst) == count }).await;
    }
    engine.exec_run(&id, RunCommand::shell("true")).await.unwrap();
}

#[tokio::test]
async fn a_background_command_is_found_by_its_id_and_read_on() {
    let (engine, _driver, id) = start(settings()).await;
    let started = engine.exec_background(&id, RunCommand::shell("sleep 9")).await.unwrap();
    assert_eq!((started.id.as_str(), started.pid), ("cmd_1", 77));
    let mut asked = GetCommand::default();
    let first = engine.command_get(&id, "cmd_1", &asked).await.unwrap();
    assert_eq!((first.stdout.text.as_str(), first.stdout.next), ("tick é\n", 8));
    assert_eq!((first.state, first.exit_code), (BackgroundState::Running, None));
    asked.stdout_from = 5;
    let more = engine.command_get(&id, "cmd_1", &asked).await.unwrap().stdout;
    assert_eq!((more.from, more.text.as_str(), more.missed), (5, "é\n", 0));
    let past = GetCommand { stdout_from: u64::MAX, stderr_from: u64::MAX, ..GetCommand::default() };
    let none = engine.command_get(&id, "cmd_1", &past).await.unwrap().stdout;
    assert_eq!((none.text.as_str(), none.missed, none.total), ("", 0, 8));
    for (command, asked, kind) in [
        ("cmd_2", GetCommand::default(), ErrorKind::NotFound),
        ("", GetCommand::default(), ErrorKind::InvalidArgument),
        ("cmd_1", GetCommand { max_bytes: Some(0), ..asked.clone() }, ErrorKind::InvalidArgument),
        ("cmd_1", GetCommand { max_bytes: Some(2 << 20), ..asked }, ErrorKind::InvalidArgument),
    ] {
        let error = engine.command_get(&id, command, &asked).await.unwrap_err();
        assert_eq!(error.kind, kind, "{command}: {error}");
    }
    let input = RunCommand { stdin: Some("x".into()), ..RunCommand::shell("cat") };
    let error = engine.exec_background(&id, input).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn case_81_calls_run_side_by_side() {
    let (engine, driver, id) = start(settings()).await;
    let shared = driver.last().guest.shared.clone();
    let mut slow = JoinSet::new();
    for _ in 0..20 {
        let engine = engine.clone();
        slow.spawn(async move { engine.exec_run(&id, RunCommand::shell("sleep 3600")).await });
    }
    until("they run", || async { shared.runs.load(Ordering::SeqCst) == 20 }).await;
    let echo = engine.exec_run(&id, RunCommand::shell("echo ok")).await.unwrap();
    assert_eq!(echo.stdout.text, "ok");
    slow.shutdown().await;
}

#[tokio::test]
async fn case_67_a_hundred_sandboxes_are_a_hundred_places() {
    let (engine, _driver) = engine(EngineSettings { max_sandboxes: 100, ..settings() });
    for _ in 0..3 {
        let mut writes = JoinSet::new();
        for _ in 0..100 {
            let engine = engine.clone();
            writes.spawn(async move {
                let id = engine.sandbox_create(CreateSandbox::default()).await.unwrap().id;
                let text = Bytes::from(id.to_string());
                engine.file_write(&id, "/workspace/id", None, None, text).await.unwrap();
                id
            });
        }
        for id in writes.join_all().await {
            let read = engine.file_read(&id, "/workspace/id", None, 0, None).await.unwrap();
            assert_eq!(read.bytes, id.to_string());
            let page = engine.file_list(&id, "/", None, true, None, None).await.unwrap();
            assert_eq!(page.files.len(), 1);
            engine.sandbox_destroy(&id).await.unwrap();
        }
    }
}

#[tokio::test]
async fn case_31_files_come_back_as_they_went_in_parts_too() {
    let (engine, driver, id) = start(EngineSettings { max_read: 1000, ..settings() }).await;
    let bytes: Bytes = (0..2500_u32).map(|n| n.to_le_bytes()[0]).collect::<Vec<u8>>().into();
    let written = engine.file_write(&id, "/w/a b", None, Some(0o640), bytes.clone()).await.unwrap();
    assert_eq!((written.path.as_str(), written.bytes), ("/w/a b", 2500));
    let shared = driver.last().guest.shared.clone();
    assert_eq!(shared.files.lock().unwrap()["/w/a b"].1, Some(0o640));
    let error = engine.file_read(&id, "/w/a b", None, 0, None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
    assert!(error.public.contains("2500") && error.suggestion.contains("offset"), "{error}");
    let mut all = Vec::new();
    loop {
        let at = all.len() as u64;
        let part = engine.file_read(&id, "/w/a b", None, at, Some(999)).await.unwrap();
        assert_eq!(part.size, 2500);
        all.extend_from_slice(&part.bytes);
        if !part.truncated {
            break;
        }
    }
    assert_eq!(all, bytes);
    let rest = engine.file_read(&id, "/w/a b", None, 2000, None).await.unwrap();
    assert_eq!((rest.bytes.len(), rest.truncated), (500, false));
}

#[tokio::test]
async fn case_34_lists_come_in_pages() {
    let (engine, _driver, id) = start(settings()).await;
    for n in 0..25 {
        let path = format!("/w/{n:02}");
        engine.file_write(&id, &path, None, None, Bytes::new()).await.unwrap();
    }
    let (mut names, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page =
            engine.file_list(&id, "/w", None, true, Some(10), after.as_deref()).await.unwrap();
        names.extend(page.files.into_iter().map(|file| file.name));
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, 3);
    assert_eq!(names, (0..25).map(|n| format!("{n:02}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn file_errors_have_a_kind_and_name_the_path() {
    let (engine, driver) = engine(EngineSettings { max_write: 10, ..settings() });
    driver.guest.lock().unwrap().refuses = vec![
        ("/full", Error::new(Code::ResourceExhausted, "no room").because(Reason::DiskFull)),
        ("/large", Error::new(Code::ResourceExhausted, "no room").because(Reason::TooLarge)),
        ("/busy", Error::new(Code::ResourceExhausted, "disk full? too large? no: files")),
        ("/mine", Error::new(Code::PermissionDenied, "permission denied")),
        ("/dir", Error::new(Code::InvalidArgument, "it is a directory")),
        ("/odd", Error::new(Code::Internal, "odd")),
    ];
    let id = engine.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    let write = async |path: &str, mode, bytes: &'static [u8]| {
        engine.file_write(&id, path, None, mode, Bytes::from_static(bytes)).await.unwrap_err()
    };
    for (path, kind) in [
        ("/full/x", ErrorKind::DiskFull),
        ("/large/x", ErrorKind::TooLarge),
        ("/busy/x", ErrorKind::Capacity),
        ("/mine/x", ErrorKind::PermissionDenied),
        ("/dir/x", ErrorKind::FileInvalid),
        ("/odd/x", ErrorKind::Unavailable),
    ] {
        let error = write(path, None, b"").await;
        assert_eq!(error.kind, kind, "{path}");
        assert!(error.public.contains(path), "{error}");
    }
    assert_eq!(write("/x", Some(0o4755), b"").await.kind, ErrorKind::InvalidArgument);
    assert_eq!(write("", None, b"").await.kind, ErrorKind::InvalidArgument);
    assert_eq!(write("/x", None, &[0; 11]).await.kind, ErrorKind::TooLarge);
    let error = engine.file_read(&id, "/nope", None, 0, None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::FileNotFound);
    assert!(error.public.contains("/nope"), "{error}");
    let error = engine.file_read(&id, "/nope", Some("mallory"), 0, None).await.unwrap_err();
    assert!(error.public.contains("mallory"), "{error}");
}

#[tokio::test]
async fn service_info_tells_the_limits_in_force() {
    let (engine, _driver) = engine(settings());
    let info = engine.service_info().await;
    assert_eq!(info.limits.max_sandboxes, 20);
    assert_eq!(info.sizes.len(), 3);
    assert_eq!(info.templates, ["base", "host"]);
    assert!(info.network.contains("loopback only"));
    assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
}
