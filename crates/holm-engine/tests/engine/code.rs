//! Code: stored, run, removed.

use std::sync::atomic::Ordering;
use std::task::Poll;

use holm_engine::{CreateSandbox, Engine, ErrorKind, Language, RunCode, SandboxId};
use holm_wire::connect::{Code, Error};
use holm_wire::reason::Reason;

use crate::support::{FakeDriver, engine, settings, until};

const ALL: [&str; 4] = ["python3", "node", "bash", "Rscript"];

async fn start(
    programs: &[&'static str],
    refuses: &[(&'static str, Error)],
) -> (Engine, std::sync::Arc<FakeDriver>, SandboxId) {
    let (engine, driver) = engine(settings());
    driver.guest.lock().unwrap().programs = programs.to_vec();
    driver.guest.lock().unwrap().refuses = refuses.to_vec();
    let id = engine.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    (engine, driver, id)
}

fn code(language: Language, code: &str) -> RunCode {
    RunCode { code: code.to_owned(), language, ..RunCode::default() }
}

/// The fake interpreter prints its script, so the output shows that the script arrived.
async fn check(language: Language, programs: &[&'static str], want: &[&str]) {
    let (engine, driver, id) = start(programs, &[]).await;
    let result = engine.code_run(&id, code(language, "the 'text' $(id)\0")).await.unwrap();
    assert_eq!(result.result.stdout.text, "the 'text' $(id)\0");
    assert!(!result.stateful);
    let shared = driver.last().guest.shared.clone();
    let argv = shared.last_run.lock().unwrap().argv.clone();
    assert_eq!(argv[..argv.len() - 1], *want, "{argv:?}");
    assert!(argv.last().unwrap().starts_with("/tmp/.holm-code-"), "{argv:?}");
    assert!(shared.files.lock().unwrap().is_empty(), "the script is removed");
}

#[tokio::test]
async fn each_language_has_its_interpreter() {
    check(Language::Python, &ALL, &["python3"]).await;
    check(Language::Javascript, &ALL, &["node"]).await;
    check(Language::Bash, &ALL, &["bash"]).await;
    check(Language::Bash, &["sh"], &["sh"]).await;
    check(Language::R, &ALL, &["Rscript"]).await;
    let deno = ["deno", "run", "--allow-all", "--quiet"];
    check(Language::Typescript, &["node", "tsx", "deno"], &deno).await;
    check(Language::Typescript, &["ts-node", "tsx"], &["tsx"]).await;
    let strips = ["node", "--experimental-strip-types", "--no-warnings"];
    check(Language::Typescript, &["node", "node-strip-types"], &strips).await;
}

#[tokio::test]
async fn a_missing_interpreter_says_so_and_what_there_is() {
    let (engine, driver, id) = start(&["python3", "sh"], &[]).await;
    let error = engine.code_run(&id, code(Language::Typescript, "1")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::LanguageUnavailable);
    assert!(error.public.contains("available languages: python, bash"), "{error}");
    assert!(error.public.contains("deno"), "{error}");
    assert!(driver.last().guest.shared.files.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_script_of_5_mb_runs() {
    let (engine, _driver, id) = start(&ALL, &[]).await;
    let text = "x".repeat(5 << 20);
    let result = engine.code_run(&id, code(Language::Python, &text)).await.unwrap();
    assert_eq!((result.result.stdout.bytes, result.result.stdout.truncated), (5 << 20, true));
    let too_much = "x".repeat((16 << 20) + 1);
    let error = engine.code_run(&id, code(Language::Python, &too_much)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
}

#[tokio::test]
async fn case_23_without_a_temporary_directory_the_home_serves() {
    let refused = ("/tmp/", Error::new(Code::PermissionDenied, "permission denied"));
    let (engine, driver, id) = start(&ALL, &[refused]).await;
    engine.code_run(&id, code(Language::Python, "1")).await.unwrap();
    let argv = driver.last().guest.shared.last_run.lock().unwrap().argv.clone();
    assert!(argv[1].starts_with("/home/sandbox/.holm/code-"), "{argv:?}");
}

#[tokio::test]
async fn case_36_a_full_disk_is_said_and_nothing_is_tried_elsewhere() {
    let (engine, _driver, id) = start(
        &ALL,
        &[("/tmp/", Error::new(Code::ResourceExhausted, "no").because(Reason::DiskFull))],
    )
    .await;
    let error = engine.code_run(&id, code(Language::Python, "1")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::DiskFull);
}

#[tokio::test]
async fn case_108_code_gets_its_variables_and_finds_modules_of_the_working_directory() {
    let (engine, driver, id) = start(&ALL, &[]).await;
    let env = [("A".to_owned(), "é€".to_owned()), ("PYTHONPATH".to_owned(), "/mine".to_owned())];
    let request = RunCode { env: env.into(), ..code(Language::Python, "1") };
    engine.code_run(&id, request).await.unwrap();
    let run = driver.last().guest.shared.last_run.lock().unwrap().clone();
    assert_eq!((run.env["A"].as_str(), run.env["PYTHONPATH"].as_str()), ("é€", "/mine:/workspace"));
    assert_eq!(run.timeout_ms, 30_000);
    let cwd = Some("/srv/app".to_owned());
    let request = RunCode { cwd, ..code(Language::Javascript, "import 'x'") };
    engine.code_run(&id, request).await.unwrap();
    let run = driver.last().guest.shared.last_run.lock().unwrap().clone();
    assert_eq!(run.env["NODE_PATH"], "/srv/app/node_modules:/srv/app");
    assert!(run.argv[1].ends_with("/main.mjs"), "{:?}", run.argv);
    let env = [("A=".to_owned(), String::new())].into();
    let error = engine.code_run(&id, RunCode { env, ..RunCode::default() }).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn interpreters_are_looked_for_once() {
    let (engine, driver, id) = start(&ALL, &[]).await;
    for _ in 0..3 {
        engine.code_run(&id, code(Language::Python, "1")).await.unwrap();
    }
    assert_eq!(driver.last().guest.shared.runs.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn case_82_a_caller_who_goes_away_leaves_no_script() {
    let (engine, driver, id) = start(&ALL, &[]).await;
    // Found before, so that the wait below is for the code and not for the search.
    engine.code_run(&id, code(Language::Python, "1")).await.unwrap();
    let shared = driver.last().guest.shared.clone();
    // Dropped at each place where the call can wait, several times over.
    for polls in (0..40).cycle().take(400) {
        let mut call = std::pin::pin!(engine.code_run(&id, code(Language::Python, "1")));
        let mut left = polls;
        std::future::poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            call.as_mut().poll(context).map(drop)
        })
        .await;
    }
    until("every script is removed", || async { shared.files.lock().unwrap().is_empty() }).await;
}
