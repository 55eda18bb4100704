//! An engine that is gone without a word, sandboxes that are not, and the next engine.

use std::time::Duration;

use holm_engine::{
    CreateSandbox, EndReason, Engine, ErrorKind, ListSandboxes, RunCommand, SandboxId, SandboxState,
};
use holm_runtime::ExitReason;
use tokio::time::sleep;

use crate::support::guest::Manner;
use crate::support::service::PRICE;
use crate::support::{Service, until};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

async fn create(user: &Engine, life: u64) -> SandboxId {
    let request = CreateSandbox {
        timeout: Some(seconds(life)),
        workdir: Some("/workspace/project".to_owned()),
        ..CreateSandbox::default()
    };
    user.sandbox_create(request).await.unwrap().id
}

/// A service with a rich tenant, and one sandbox.
async fn begin(life: u64) -> (Service, holm_engine::AccountId, Engine, SandboxId) {
    let service = Service::outlived();
    let (account, user) = service.tenant().await;
    service.topup(account, 1_000_000_000).await;
    let id = create(&user, life).await;
    (service, account, user, id)
}

/// The next engine, `down` seconds later.
async fn restart(service: &mut Service, user: &mut Engine, down: u64) {
    let caller = user.caller().clone();
    service.kill();
    *user = service.engine.for_caller(caller);
    sleep(seconds(down)).await;
    service.engine.start().await.unwrap();
}

async fn run(user: &Engine, id: &SandboxId) -> Result<String, holm_engine::Error> {
    Ok(user.exec_run(id, RunCommand::shell("echo hello")).await?.stdout.text)
}

#[tokio::test(start_paused = true)]
async fn case_55_what_runs_goes_on_with_its_lease() {
    let (mut service, account, mut user, id) = begin(1000).await;
    let before = user.sandbox_get(&id).await.unwrap();
    sleep(seconds(100)).await;
    for _ in 0..3 {
        restart(&mut service, &mut user, 50).await;
        let mut after = user.sandbox_get(&id).await.unwrap();
        assert!(after.usage.take().is_some());
        assert_eq!(after, {
            let mut view = before.clone();
            view.usage = None;
            view
        });
        assert_eq!(run(&user, &id).await.unwrap(), "hello");
        assert_eq!(user.sandbox_list(ListSandboxes::default()).await.unwrap().len(), 1);
    }
    assert_eq!(service.driver.created(), 0, "none was made anew");
    // 250 s of 1000 are over.
    sleep(seconds(745)).await;
    assert_eq!(run(&user, &id).await.unwrap(), "hello");
    let extended = user.sandbox_extend(&id, seconds(100)).await.unwrap();
    assert_eq!(
        extended.expires_at.unwrap().duration_since(before.expires_at.unwrap()).as_secs(),
        100
    );
    restart(&mut service, &mut user, 1).await;
    sleep(seconds(98)).await;
    assert_eq!(run(&user, &id).await.unwrap(), "hello");
    sleep(seconds(10)).await;
    let error = run(&user, &id).await.unwrap_err();
    assert_eq!(error.ended.unwrap().reason, EndReason::Expired);
    until("removed", async || service.driver.alive() == 0).await;
    // No second is missing, none is there twice.
    assert_eq!(service.charged(account).await, 1100);
    assert_eq!(service.balance(account).await, 1_000_000_000 - 1100 * PRICE);
    service.check_ledger(account).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_lengthened_by_restarts() {
    let (mut service, _, mut user, id) = begin(3600).await;
    let ready = user.sandbox_get(&id).await.unwrap().ready_at.unwrap();
    for _ in 0..30 {
        sleep(seconds(1700)).await;
        user.sandbox_extend(&id, seconds(1800)).await.unwrap();
        restart(&mut service, &mut user, 100).await;
    }
    let error = loop {
        match user.sandbox_extend(&id, seconds(3600)).await {
            Ok(view) => assert!(view.expires_at.unwrap().duration_since(ready).as_secs() <= 86_400),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    let end = user.sandbox_get(&id).await.unwrap().expires_at.unwrap();
    assert_eq!(end.duration_since(ready).as_secs(), 86_400);
}

#[tokio::test(start_paused = true)]
async fn case_56_what_expired_meanwhile_ends_before_it_can_be_used() {
    let (mut service, account, mut user, id) = begin(60).await;
    sleep(seconds(45)).await;
    restart(&mut service, &mut user, 600).await;
    let view = user.sandbox_get(&id).await.unwrap();
    let ended = view.ended.unwrap();
    assert_eq!((ended.reason, Some(ended.at)), (EndReason::Expired, view.expires_at));
    assert_eq!(run(&user, &id).await.unwrap_err().kind, ErrorKind::SandboxGone);
    until("removed", async || service.driver.last().is_gone()).await;
    assert_eq!(service.charged(account).await, 60, "charged to its lease's end");
    let state = async || user.sandbox_get(&id).await.unwrap().state;
    until("deleted", async || state().await == SandboxState::Deleted).await;
    service.check_ledger(account).await;
}

#[tokio::test(start_paused = true)]
async fn case_75_what_died_meanwhile_is_charged_to_the_last_heartbeat() {
    let (mut service, account, mut user, id) = begin(3600).await;
    let other = create(&user, 3600).await;
    sleep(seconds(34)).await;
    service.driver.machines.lock().unwrap()[0].die(ExitReason::Died);
    // Nobody sees it: the engine is gone already.
    restart(&mut service, &mut user, 300).await;
    let ended = user.sandbox_get(&id).await.unwrap().ended.unwrap();
    assert_eq!(ended.reason, EndReason::Lost);
    let first = service.charged(account).await;
    assert!((60..=68).contains(&first), "twice to the last heartbeat: {first}");
    sleep(seconds(20)).await;
    assert_eq!(run(&user, &other).await.unwrap(), "hello");
    user.sandbox_destroy(&other).await.unwrap();
    let all = service.charged(account).await;
    assert_eq!(all - first / 2, 354, "the other one for all of its time");
    service.check_ledger(account).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_half_made_or_half_removed_goes_and_so_does_what_has_no_record() {
    let (mut service, _, mut user, going) = begin(3600).await;
    service.driver.stubborn.store(1000, std::sync::atomic::Ordering::SeqCst);
    user.sandbox_destroy(&going).await.unwrap_err();
    // It is made, and the engine gone before it is recorded as ready.
    service.driver.guest.lock().unwrap().configure_delay = seconds(10_000);
    let making = user.clone();
    let create = tokio::spawn(async move { create(&making, 3600).await });
    until("made", async || service.driver.machines.lock().unwrap().len() == 2).await;
    let half = user.sandbox_list(ListSandboxes::default()).await.unwrap()[0].id;
    // One that only the driver knows.
    service.driver.guest.lock().unwrap().configure_delay = Duration::ZERO;
    let mut stray = service.driver.last().spec.clone();
    stray.id = SandboxId::random().unwrap().to_string();
    holm_runtime::Driver::create(&*service.driver, stray).await.unwrap();
    service.driver.stubborn.store(0, std::sync::atomic::Ordering::SeqCst);
    restart(&mut service, &mut user, 5).await;
    create.abort();
    let all = service.driver.machines.lock().unwrap().clone();
    assert_eq!(all.len(), 3);
    until("removed", async || all.iter().all(|machine| machine.is_gone())).await;
    let ended = async || user.sandbox_get(&going).await.unwrap().state;
    until("deleted", async || ended().await == SandboxState::Deleted).await;
    until("forgotten", async || user.sandbox_get(&half).await.is_err()).await;
    assert_eq!(user.sandbox_list(ListSandboxes::default()).await.unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_does_not_answer_is_not_kept() {
    for manner in [Manner::Silent, Manner::HangsUp, Manner::Says(b"garbage\n\n".to_vec())] {
        let service = Service::outlived();
        service.driver.guest.lock().unwrap().manner = manner;
        let mut service = service;
        let (_, mut user) = service.tenant().await;
        service.topup(user.caller().account, 1_000_000_000).await;
        let id = create(&user, 3600).await;
        restart(&mut service, &mut user, 1).await;
        let lost = async || user.sandbox_get(&id).await.unwrap().ended;
        until("lost", async || lost().await.is_some()).await;
        assert_eq!(lost().await.unwrap().reason, EndReason::Lost);
        until("removed", async || service.driver.last().is_gone()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_orderly_end_leaves_what_runs_and_charges_up_to_it() {
    let (mut service, account, mut user, id) = begin(3600).await;
    sleep(Duration::from_millis(37_500)).await;
    service.engine.leave().await;
    assert_eq!(service.charged(account).await, 37);
    let error = user.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(!service.driver.last().is_gone());
    restart(&mut service, &mut user, 10).await;
    assert_eq!(run(&user, &id).await.unwrap(), "hello");
    service.engine.shutdown().await;
    assert!(service.driver.last().is_gone());
    assert_eq!(service.charged(account).await, 47);
    service.check_ledger(account).await;
}

#[tokio::test(start_paused = true)]
async fn an_end_by_itself_is_seen_after_the_restart() {
    for (exit, reason) in
        [(ExitReason::OutOfMemory, EndReason::OutOfMemory), (ExitReason::Died, EndReason::Lost)]
    {
        let (mut service, account, mut user, id) = begin(3600).await;
        restart(&mut service, &mut user, 20).await;
        sleep(seconds(20)).await;
        service.driver.last().die(exit);
        let ended = async || user.sandbox_get(&id).await.unwrap().ended;
        until("ended", async || ended().await.is_some()).await;
        assert_eq!(ended().await.unwrap().reason, reason);
        assert_eq!(service.charged(account).await, 40);
    }
}
