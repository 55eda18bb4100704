//! What is left when holm ends, however it ends; and what the next start does about it.

#![allow(clippy::print_stdout, reason = "tests say what they did")]

#[path = "../common/mod.rs"]
mod common;
mod launcher;
mod ledger;
mod service;
mod snapshots;
mod steps;

use common::*;
use rustix::process::{Pid, Signal, kill_process};

as_root!(
    killed_at_random_moments,
    killed_with_its_launcher_is_swept,
    ends_under_load,
    others_are_never_swept
);
as_rootless!(killed_at_random_moments, killed_with_its_launcher_is_swept, ends_under_load);

/// A small generator: the seed is printed, so that a failure can be tried again.
struct Moments(u64);

impl Moments {
    fn new() -> Self {
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let seed = std::env::var("HOLM_TEST_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or(now.as_secs());
        println!("HOLM_TEST_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Sends creates, commands and destroys; `steps` of them are waited for, the rest is in flight.
fn load(mcp: &Mcp, steps: u64, moments: &mut Moments) {
    let mut ids = Vec::new();
    for n in 0..steps + 6 {
        ids.push(match moments.below(3) {
            0 => mcp.start("create_sandbox", json!({})),
            1 => mcp.start("run_command", json!({"command": "setsid sleep 3000 & head -c 3000000 /dev/zero | tr '\\0' x", "timeout_ms": 600_000})),
            _ => mcp.start("destroy_sandbox", json!({})),
        });
        if n < steps {
            mcp.finish(ids.remove(0));
        }
    }
}

fn killed_at_random_moments(home: &Home) {
    let mut moments = Moments::new();
    for round in 0..if long() { 50 } else { 12 } {
        let mut mcp = home.mcp();
        let steps = moments.below(8);
        load(&mcp, steps, &mut moments);
        // Between no and many further turns of the server.
        for _ in 0..moments.below(40) {
            mcp.ask("ping", json!({}));
        }
        home.note_instances();
        mcp.signal(Signal::KILL);
        mcp.wait();
        println!("round {round}: killed after {steps} calls");
        home.assert_clean();
    }
    assert_eq!(home.holm(&["run", "--", "echo", "works"]).out(), "works\n");
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("not zero");
    // It may be gone already: its parent was killed a moment ago.
    if kill_process(pid, Signal::KILL).is_err() {
        println!("already gone");
    }
}

/// Processes below one of holm's that are ours and no sandbox's.
fn helpers(owner: u32) -> Vec<u32> {
    let named = |(pid, _): (u32, String)| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        matches!(name.trim(), "holm-keeper" | "holm-launcher" | "holm").then_some(pid)
    };
    descendants(owner).into_iter().filter_map(named).collect()
}

fn killed_with_its_launcher_is_swept(home: &Home) {
    let mut moments = Moments::new();
    for _ in 0..if long() { 20 } else { 5 } {
        let mut mcp = home.mcp();
        let steps = moments.below(6);
        load(&mcp, steps, &mut moments);
        home.note_instances();
        let launchers = helpers(mcp.pid());
        assert!(launchers.len() >= 2, "there are a keeper and a launcher");
        // All at once, in either order: neither can tidy up after the other.
        let launcher_first = moments.below(2) == 0;
        if launcher_first {
            launchers.iter().for_each(|pid| kill(*pid));
        }
        mcp.signal(Signal::KILL);
        launchers.iter().for_each(|pid| kill(*pid));
        mcp.wait();
        until("all to be dead", || (!launchers.iter().any(|pid| is_alive(*pid))).then_some(()));
        assert_eq!(home.holm(&["run", "--", "echo", "swept"]).out(), "swept\n");
        home.assert_clean();
    }
}

fn ends_under_load(home: &Home) {
    let mut moments = Moments::new();
    for round in 0..if long() { 20 } else { 6 } {
        let mut mcp = home.mcp();
        let steps = moments.below(6);
        load(&mcp, steps, &mut moments);
        home.note_instances();
        match round % 3 {
            0 => mcp.close_stdin(),
            1 => mcp.signal(Signal::TERM),
            _ => {
                mcp.signal(Signal::TERM);
                mcp.signal(Signal::TERM);
                mcp.close_stdin();
            }
        }
        let status = mcp.wait();
        assert_eq!(status.code(), Some(0), "round {round}: {}", mcp.stderr());
        mcp.assert_protocol_only();
        home.assert_clean();
    }
}

fn others_are_never_swept(home: &Home) {
    let living = home.mcp();
    let sandbox = living.create();
    let canary = living.start_sh(
        &sandbox,
        "while ! [ -e go ]; do sleep 0.02; done; echo survived",
        json!({"timeout_ms": 600_000}),
    );
    for _ in 0..4 {
        let mut dying = home.mcp();
        dying.create();
        home.note_instances();
        let launchers = helpers(dying.pid());
        dying.signal(Signal::KILL);
        launchers.iter().for_each(|pid| kill(*pid));
        dying.wait();
        assert_eq!(home.holm(&["run", "--", "true"]).code(), Some(0));
        assert_eq!(living.sh(&sandbox, "echo lives").good(), "lives");
    }
    living.sh(&sandbox, "touch go").good();
    assert_eq!(living.finish(canary).run().good(), "survived");
    living.end(home);
}
