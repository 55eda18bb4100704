//! `holm mcp` and `holm run` whose launcher, keeper or both are killed.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use rustix::process::Signal;

use crate::common::*;
use crate::{Moments, kill, load};

as_root!(
    a_launcher_that_is_killed_costs_nothing,
    a_launcher_is_killed_under_load,
    owner_and_launcher_are_killed,
    without_a_keeper_all_goes_on,
    all_are_killed_and_swept,
    a_run_ends_with_its_launcher
);
as_rootless!(
    a_launcher_that_is_killed_costs_nothing,
    a_launcher_is_killed_under_load,
    owner_and_launcher_are_killed,
    without_a_keeper_all_goes_on,
    all_are_killed_and_swept,
    a_run_ends_with_its_launcher
);

/// The process of that name below one of ours. Between two launchers it takes a moment.
fn helper(owner: u32, name: &str) -> u32 {
    until(name, || {
        let named = |pid: &u32| {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            comm.trim() == name && is_alive(*pid)
        };
        descendants(owner).into_iter().map(|(pid, _)| pid).find(named)
    })
}

fn launcher(mcp: &Mcp) -> u32 {
    helper(mcp.pid(), "holm-launcher")
}

fn keeper(mcp: &Mcp) -> u32 {
    helper(mcp.pid(), "holm-keeper")
}

const COUNT: &str =
    "(i=0; while :; do i=$((i+1)); echo $i > n; sleep 0.02; done) >/dev/null 2>&1 &";

fn counts_on(mcp: &Mcp, sandbox: &str) {
    let seen = mcp.sh(sandbox, "cat n").stdout;
    until("it to count on", || (mcp.sh(sandbox, "cat n").stdout != seen).then_some(()));
}

fn a_launcher_that_is_killed_costs_nothing(home: &Home) {
    let mcp = home.mcp();
    let made: Vec<String> = (0..3).map(|_| mcp.create()).collect();
    for sandbox in &made {
        mcp.sh(sandbox, COUNT).good();
    }
    // A command is under way, also while there is no launcher.
    let wait = "while ! [ -e go ]; do sleep 0.02; done; echo went";
    let call = mcp.start_sh(&made[0], wait, json!({"timeout_ms": 600_000}));
    for _ in 0..3 {
        let before = launcher(&mcp);
        kill(before);
        for sandbox in &made {
            counts_on(&mcp, sandbox);
        }
        // Right after it, so that these are for the next one.
        kill(launcher(&mcp));
        let more = mcp.create();
        assert_eq!(mcp.sh(&more, "echo works").good(), "works");
        mcp.destroy(&more);
        assert_ne!(launcher(&mcp), before);
        let mut listed = mcp.list();
        listed.sort();
        let mut wanted = made.clone();
        wanted.sort();
        assert_eq!(listed, wanted);
    }
    mcp.sh(&made[0], "touch go").good();
    assert_eq!(mcp.finish(call).run().good(), "went");
    // Those that were taken over end like all others.
    mcp.destroy(&made[1]);
    assert_eq!(
        mcp.call("run_command", json!({"sandbox_id": made[1], "command": "true"})).code(),
        "sandbox_gone"
    );
    mcp.end(home);
    home.assert_clean();
}

/// In the middle of creates, destroys and commands: each call is answered, and what it says holds.
fn a_launcher_is_killed_under_load(home: &Home) {
    let mut moments = Moments::new();
    let mcp = home.mcp();
    for round in 0..if long() { 60 } else { 15 } {
        let doomed: Vec<String> = (0..3).map(|_| mcp.create()).collect();
        let creates: Vec<u64> = (0..4).map(|_| mcp.start("create_sandbox", json!({}))).collect();
        let destroys: Vec<u64> = doomed
            .iter()
            .map(|id| mcp.start("destroy_sandbox", json!({"sandbox_id": id})))
            .collect();
        for _ in 0..moments.below(20) {
            mcp.ask("ping", json!({}));
        }
        kill(launcher(&mcp));
        for call in destroys {
            mcp.finish(call).ok();
        }
        for call in creates {
            let made = mcp.finish(call);
            let id = made.ok()["sandbox_id"].as_str().expect("an id").to_owned();
            assert_eq!(mcp.sh(&id, "echo here").good(), "here", "round {round}");
            mcp.destroy(&id);
        }
        assert!(mcp.list().is_empty(), "round {round}");
    }
    mcp.end(home);
    home.assert_clean();
}

/// In either order, with work under way: what is left of holm removes all of it.
fn owner_and_launcher_are_killed(home: &Home) {
    let mut moments = Moments::new();
    for round in 0..if long() { 40 } else { 12 } {
        let mut mcp = home.mcp();
        let sandbox = mcp.create();
        mcp.sh(&sandbox, COUNT).good();
        let steps = moments.below(4);
        load(&mcp, steps, &mut moments);
        for _ in 0..moments.below(20) {
            mcp.ask("ping", json!({}));
        }
        let launcher = launcher(&mcp);
        if round % 2 == 0 {
            kill(launcher);
            for _ in 0..moments.below(3) {
                mcp.ask("ping", json!({}));
            }
        }
        mcp.signal(Signal::KILL);
        if round % 2 == 1 {
            kill(launcher);
        }
        mcp.wait();
        home.assert_clean();
    }
}

/// Until the launcher goes, too; then the server ends everything and says so.
fn without_a_keeper_all_goes_on(home: &Home) {
    let mut mcp = home.mcp();
    let sandbox = mcp.create();
    mcp.sh(&sandbox, COUNT).good();
    let launcher = launcher(&mcp);
    kill(keeper(&mcp));
    counts_on(&mcp, &sandbox);
    let more = mcp.create();
    mcp.destroy(&more);
    let call = mcp.start_sh(&sandbox, "sleep 3000", json!({"timeout_ms": 600_000}));
    kill(launcher);
    assert_eq!(mcp.finish(call).code(), "sandbox_gone");
    assert_eq!(mcp.wait().code(), Some(1));
    assert!(mcp.stderr().contains("the launcher process has ended"), "{}", mcp.stderr());
    mcp.assert_protocol_only();
    home.assert_clean();
    // An orderly end, and a sudden one.
    let mcp = home.mcp();
    mcp.create();
    kill(keeper(&mcp));
    mcp.end(home);
    home.assert_clean();
    let mut mcp = home.mcp();
    mcp.create();
    kill(keeper(&mcp));
    mcp.signal(Signal::KILL);
    mcp.wait();
    home.assert_clean();
}

/// At once, in every order: the next start of whatever kind removes what nobody is left to remove.
fn all_are_killed_and_swept(home: &Home) {
    let mut moments = Moments::new();
    for round in 0..6 {
        let mut mcp = home.mcp();
        let sandbox = mcp.create();
        mcp.sh(&sandbox, COUNT).good();
        let steps = moments.below(4);
        load(&mcp, steps, &mut moments);
        let (keeper, launcher) = (keeper(&mcp), launcher(&mcp));
        // The launcher is never killed while both of the others are alive.
        match round % 3 {
            0 => [keeper, launcher].into_iter().for_each(kill),
            1 => kill(keeper),
            _ => {}
        }
        mcp.signal(Signal::KILL);
        match round % 3 {
            0 => {}
            1 => kill(launcher),
            _ => [keeper, launcher].into_iter().for_each(kill),
        }
        mcp.wait();
        until("both to be dead", || (!is_alive(keeper) && !is_alive(launcher)).then_some(()));
        assert_eq!(home.holm(&["run", "--", "echo", "swept"]).out(), "swept\n");
        home.assert_clean();
    }
}

/// It has one sandbox for one command, and no keeper: who waits for the command is told.
fn a_run_ends_with_its_launcher(home: &Home) {
    let mut command = home.command();
    command.args(["run", "--", "sh", "-c", "echo up; exec sleep 1000"]);
    let mut run = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("holm run starts");
    let mut line = String::new();
    let mut stdout = BufReader::new(run.stdout.take().expect("piped"));
    stdout.read_line(&mut line).expect("text");
    assert_eq!(line, "up\n");
    home.note_instances();
    kill(helper(run.id(), "holm-launcher"));
    assert_eq!(wait(&mut run).code(), Some(125));
    let mut said = String::new();
    run.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(said.starts_with("error: "), "{said}");
    assert_eq!(home.holm(&["run", "--", "true"]).code(), Some(0), "it removes the rest");
}
