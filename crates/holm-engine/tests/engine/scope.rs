//! Whose sandboxes a call reaches, and what a key may do.

use std::time::Duration;

use holm_engine::{
    AccountLimits, CreateSandbox, Engine, EngineSettings, Error, ErrorKind, KeyScope,
    ListSandboxes, PortOptions, RunCode, RunCommand, SandboxId, SandboxState,
};

use crate::support::service::caller;
use crate::support::{Service, settings};

/// The error of every call that names a sandbox.
async fn every_call(engine: &Engine, id: &SandboxId) -> Vec<(&'static str, Error)> {
    let code = RunCode { code: "1".to_owned(), ..RunCode::default() };
    let minute = Duration::from_secs(60);
    vec![
        ("get", engine.sandbox_get(id).await.unwrap_err()),
        ("extend", engine.sandbox_extend(id, minute).await.unwrap_err()),
        ("touch", engine.sandbox_touch(id).await.unwrap_err()),
        ("destroy", engine.sandbox_destroy(id).await.unwrap_err()),
        ("guest", engine.guest(id).await.map(|_| ()).unwrap_err()),
        ("ended", engine.sandbox_ended(id).await),
        ("run", engine.exec_run(id, RunCommand::shell("true")).await.unwrap_err()),
        ("background", engine.exec_background(id, RunCommand::shell("true")).await.unwrap_err()),
        ("code", engine.code_run(id, code).await.unwrap_err()),
        ("read", engine.file_read(id, "/a", None, 0, None).await.unwrap_err()),
        ("write", engine.file_write(id, "/a", None, None, vec![1].into()).await.unwrap_err()),
        ("expose", engine.port_expose(id, 80, PortOptions::default()).await.unwrap_err()),
        ("unexpose", engine.port_unexpose(id, 80).await.unwrap_err()),
        ("ports", engine.port_list(id).await.unwrap_err()),
        ("connect", engine.port_connect(id, 80).await.map(|_| ()).unwrap_err()),
        ("list", engine.file_list(id, "/", None, false, Some(10), None).await.unwrap_err()),
    ]
}

#[tokio::test]
async fn case_69_a_foreign_sandbox_looks_like_none_in_every_call() {
    let service = Service::new();
    let (_, owner) = service.tenant().await;
    let (_, stranger) = service.tenant().await;
    let running = owner.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    let ended = owner.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    owner.sandbox_destroy(&ended).await.unwrap();
    let never = SandboxId::random().unwrap();
    let (runs, missing) =
        (every_call(&stranger, &running).await, every_call(&stranger, &never).await);
    let over = every_call(&stranger, &ended).await;
    // The operator has an account like everybody else; scopes reach no further.
    let operator = every_call(&service.engine, &running).await;
    for (id, errors) in [(running, runs), (never, missing), (ended, over), (running, operator)] {
        for (call, error) in errors {
            // Everything that a caller can see of an error.
            assert_eq!(error.kind, ErrorKind::NotFound, "{call}");
            assert_eq!(error.public, format!("there is no sandbox {id}"), "{call}");
            assert_eq!(error.suggestion, ErrorKind::NotFound.remedy(), "{call}");
            assert_eq!((error.ended, error.partial), (None, None), "{call}");
        }
    }
    // Nothing of that has touched it.
    assert_eq!(owner.sandbox_get(&running).await.unwrap().state, SandboxState::Running);
    assert_eq!(
        service.driver.last().guest.shared.runs.load(std::sync::atomic::Ordering::SeqCst),
        0
    );
    owner.exec_run(&running, RunCommand::shell("true")).await.unwrap();
}

#[tokio::test]
async fn case_69_lists_and_usage_show_only_own_things() {
    let service = Service::new();
    let (_, owner) = service.tenant().await;
    let (_, stranger) = service.tenant().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(owner.sandbox_create(CreateSandbox::default()).await.unwrap().id);
    }
    owner.sandbox_destroy(&made[0]).await.unwrap();
    let all = ListSandboxes { limit: 2, include_deleted: true };
    assert_eq!(stranger.sandbox_list(all).await.unwrap(), []);
    let usage = stranger.usage().await.unwrap();
    assert_eq!((usage.sandboxes_running, usage.sandboxes_total, usage.recent.len()), (0, 0, 0));
    let usage = owner.usage().await.unwrap();
    assert_eq!((usage.sandboxes_running, usage.sandboxes_total, usage.recent.len()), (4, 5, 5));
    // Pages: each once, newest first; somebody else's cursor opens nothing.
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = owner.sandbox_page(all, after.clone()).await.unwrap();
        assert_eq!(stranger.sandbox_page(all, after).await.unwrap().items, []);
        seen.extend(page.items.iter().map(|view| view.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    made.reverse();
    assert_eq!(seen, made);
}

#[tokio::test]
async fn scopes_are_checked_in_every_call() {
    let service = Service::new();
    let account = service.account().await;
    let id = service.user(account).await.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    let reader = service.user_with(account, &[KeyScope::Read]).await;
    reader.sandbox_get(&id).await.unwrap();
    reader.usage().await.unwrap();
    assert_eq!(reader.sandbox_list(ListSandboxes::default()).await.unwrap().len(), 1);
    reader.account_get(account).await.unwrap();
    for (call, error) in every_call_but_get(&reader, &id).await {
        assert_eq!(error.kind, ErrorKind::Forbidden, "{call}");
        assert!(error.public.contains("`sandboxes`"), "{call}: {error}");
    }
    let admin = service.user_with(account, &[KeyScope::Admin]).await;
    for (call, error) in every_call(&admin, &id).await {
        assert_eq!(error.kind, ErrorKind::Forbidden, "{call}");
    }
    for error in [
        admin.usage().await.unwrap_err(),
        admin.sandbox_list(ListSandboxes::default()).await.unwrap_err(),
        admin.sandbox_create(CreateSandbox::default()).await.unwrap_err(),
        reader.sandbox_create(CreateSandbox::default()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Forbidden);
    }
    let nobody = service.engine.for_caller(caller(account, &[]));
    assert_eq!(nobody.sandbox_get(&id).await.unwrap_err().kind, ErrorKind::Forbidden);
    assert_eq!(nobody.account_get(account).await.unwrap_err().kind, ErrorKind::Forbidden);
}

async fn every_call_but_get(engine: &Engine, id: &SandboxId) -> Vec<(&'static str, Error)> {
    let minute = Duration::from_secs(60);
    vec![
        ("extend", engine.sandbox_extend(id, minute).await.unwrap_err()),
        ("destroy", engine.sandbox_destroy(id).await.unwrap_err()),
        ("run", engine.exec_run(id, RunCommand::shell("true")).await.unwrap_err()),
        ("read", engine.file_read(id, "/a", None, 0, None).await.unwrap_err()),
        ("list", engine.file_list(id, "/", None, false, Some(10), None).await.unwrap_err()),
    ]
}

/// Limit 5, 50 creates at once, 20 rounds; destroys, failing creates and a second account, which
/// has its own places, mixed in.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_68_an_accounts_limit_holds_under_parallel_creates() {
    let service = Service::new();
    let limits = AccountLimits { max_sandboxes: Some(5), ..AccountLimits::default() };
    let account = service.account_with(limits).await;
    let user = service.user(account).await;
    let (_, other) = service.tenant().await;
    for round in 0..20 {
        let failing = (round % 3 == 2).then_some(holm_runtime::DriverErrorKind::HostExhausted);
        *service.driver.failing.lock().unwrap() = failing;
        let mut creates = tokio::task::JoinSet::new();
        for number in 0..50 {
            let engine = if number % 10 == 0 { other.clone() } else { user.clone() };
            creates.spawn(async move {
                let made = engine.sandbox_create(CreateSandbox::default()).await;
                (number % 10 == 0, made)
            });
        }
        let (mut mine, mut others) = (Vec::new(), Vec::new());
        for (is_other, result) in creates.join_all().await {
            match result {
                Ok(view) if is_other => others.push(view.id),
                Ok(view) => mine.push(view.id),
                Err(error) => {
                    let full = error.kind == ErrorKind::QuotaExceeded && !is_other;
                    assert!(full || error.kind == ErrorKind::Capacity, "{error}");
                }
            }
        }
        assert!(mine.len() <= 5, "{mine:?}");
        if failing.is_none() {
            assert_eq!((mine.len(), others.len()), (5, 5));
            let error = user.sandbox_create(CreateSandbox::default()).await.unwrap_err();
            assert!(error.public.contains("5 sandboxes"), "{error}");
        }
        for id in mine {
            user.sandbox_destroy(&id).await.unwrap();
        }
        for id in others {
            other.sandbox_destroy(&id).await.unwrap();
        }
        assert_eq!(service.driver.alive(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_machines_limit_holds_over_all_accounts() {
    let service = Service::with(EngineSettings { max_sandboxes_here: 3, ..settings() });
    let mut creates = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (_, user) = service.tenant().await;
        creates.spawn(async move { user.sandbox_create(CreateSandbox::default()).await });
    }
    let results = creates.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 3);
    for error in results.into_iter().filter_map(Result::err) {
        assert_eq!(error.kind, ErrorKind::Capacity, "{error}");
    }
}
