//! `holm serve` killed in the middle of its work, and started again.

use std::collections::BTreeSet;
use std::net::TcpStream;

use holm_store::{SqliteStore, Store as _};
use rustix::process::Signal;

use crate::common::*;
use crate::{Moments, helpers, kill, ledger};

as_root!(
    case_55_five_sandboxes_go_on_over_a_crash,
    killed_under_load,
    an_orderly_stop_leaves_what_runs,
    what_a_killed_import_left_goes_at_the_next_start,
    helpers_that_are_killed_are_replaced_or_the_service_starts_anew
);
as_rootless!(case_55_five_sandboxes_go_on_over_a_crash, killed_under_load);

const KEEP: [&str; 2] = ["--on-stop", "keep"];

fn what_a_killed_import_left_goes_at_the_next_start(home: &Home) {
    let mut serve = home.serve(&KEEP, &[]);
    serve.signal(Signal::KILL);
    serve.wait();
    let drafts = home.data().join("images/drafts");
    std::fs::create_dir_all(drafts.join("0123456789abcdef/tree/etc")).expect("made");
    std::fs::write(drafts.join("0123456789abcdef/tree/etc/passwd"), "root").expect("written");
    let serve = home.serve(&KEEP, &[]);
    until("the half-made layer is gone", || {
        std::fs::read_dir(&drafts).expect("a directory").next().is_none().then_some(())
    });
    serve.end();
}

fn list(serve: &Serve, session: &str) -> Vec<(String, String)> {
    let listed = serve.call(session, "list_sandboxes", json!({}));
    let rows = listed.ok()["sandboxes"].as_array().expect("a list").clone();
    let text = |row: &Value, key: &str| row[key].as_str().expect("text").to_owned();
    rows.iter().map(|row| (text(row, "sandbox_id"), text(row, "status"))).collect()
}

fn sh(serve: &Serve, session: &str, sandbox: &str, command: &str) -> String {
    let arguments = json!({"sandbox_id": sandbox, "command": command});
    serve.call(session, "run_command", arguments).run().good().to_owned()
}

fn case_55_five_sandboxes_go_on_over_a_crash(home: &Home) {
    let mut serve = home.serve(&KEEP, &[]);
    let session = serve.session();
    let made: Vec<String> = (0..5)
        .map(|_| {
            let made = serve.call(&session, "create_sandbox", json!({"timeout_minutes": 5}));
            made.ok()["sandbox_id"].as_str().expect("an id").to_owned()
        })
        .collect();
    for id in &made {
        let count =
            "(i=0; while :; do i=$((i+1)); echo $i > n; sleep 0.02; done) >/dev/null 2>&1 &";
        sh(&serve, &session, id, count);
    }
    let leases = |serve: &Serve, session: &str| -> Vec<Value> {
        let view = |id: &String| {
            serve.call(session, "get_sandbox", json!({"sandbox_id": id})).ok()["expires_at"].clone()
        };
        made.iter().map(view).collect()
    };
    let before = leases(&serve, &session);
    // A call is under way. It names its sandbox, so that it extends no lease.
    let sleep = json!({"command": "sleep 1000", "sandbox_id": made[0]});
    let call = serve.start(&session, "run_command", sleep);
    for all in [false, true] {
        let helpers = helpers(serve.pid());
        assert!(helpers.len() >= 2, "a keeper and a launcher: {helpers:?}");
        serve.signal(Signal::KILL);
        if all {
            helpers.into_iter().for_each(kill);
        }
        serve.wait();
        serve = home.serve(&KEEP, &[]);
        // What a session was is unknown now.
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        assert_eq!(serve.post(&[("mcp-session-id", &session)], &body).status, 404);
        let session = serve.session();
        let listed: BTreeSet<_> = list(&serve, &session).into_iter().collect();
        let wanted = made.iter().map(|id| (id.clone(), "running".to_owned())).collect();
        assert_eq!(listed, wanted);
        for id in &made {
            // What ran inside goes on.
            let seen = sh(&serve, &session, id, "cat n");
            until("it to count on", || (sh(&serve, &session, id, "cat n") != seen).then_some(()));
        }
        assert_eq!(leases(&serve, &session), before);
        let new = serve.call(&session, "create_sandbox", json!({}));
        let new = new.ok()["sandbox_id"].as_str().expect("an id").to_owned();
        serve.call(&session, "destroy_sandbox", json!({"sandbox_id": new})).ok();
    }
    drop(call);
    let session = serve.session();
    for id in &made {
        serve.call(&session, "destroy_sandbox", json!({"sandbox_id": id})).ok();
    }
    assert_eq!(list(&serve, &session), []);
    serve.end();
}

fn an_orderly_stop_leaves_what_runs(home: &Home) {
    let serve = home.serve(&KEEP, &[]);
    let session = serve.session();
    // The session's own default sandbox, too.
    serve.call(&session, "run_command", json!({"command": "echo kept > note"})).run().good();
    let id = list(&serve, &session)[0].0.clone();
    serve.end();
    home.note_instances();
    let serve = home.serve(&[], &[]);
    let session = serve.session();
    assert_eq!(list(&serve, &session), [(id.clone(), "running".to_owned())]);
    assert_eq!(sh(&serve, &session, &id, "cat note"), "kept");
    // This one was told to take them along.
    serve.end();
    home.assert_clean();
    let serve = home.serve(&[], &[]);
    assert_eq!(list(&serve, &serve.session()), []);
    serve.end();
}

fn helpers_that_are_killed_are_replaced_or_the_service_starts_anew(home: &Home) {
    let mut serve = home.serve(&KEEP, &[]);
    let session = serve.session();
    let made = serve.call(&session, "create_sandbox", json!({}));
    let id = made.ok()["sandbox_id"].as_str().expect("an id").to_owned();
    // The launcher alone, again and again: calls go on, also creates and destroys.
    for _ in 0..3 {
        let launcher = *helpers(serve.pid()).last().expect("a launcher");
        kill(launcher);
        assert_eq!(sh(&serve, &session, &id, "echo here"), "here");
        let new = serve.call(&session, "create_sandbox", json!({}));
        let new = new.ok()["sandbox_id"].as_str().expect("an id").to_owned();
        serve.call(&session, "destroy_sandbox", json!({"sandbox_id": new})).ok();
        home.note_instances();
    }
    // All of them: it cannot go on, and says so by its end.
    helpers(serve.pid()).into_iter().for_each(kill);
    assert_eq!(serve.wait().code(), Some(1), "{}", serve.stderr());
    assert!(serve.stderr().contains("start holm again"), "{}", serve.stderr());
    let serve = home.serve(&[], &[]);
    home.note_instances();
    let session = serve.session();
    assert_eq!(sh(&serve, &session, &id, "echo here"), "here");
    serve.end();
}

/// Calls under way, for as long as they are kept.
#[derive(Default)]
struct Load {
    creates: Vec<TcpStream>,
    others: Vec<TcpStream>,
    /// Sandboxes that somebody wants to end.
    doomed: BTreeSet<String>,
}

impl Load {
    fn begin(serve: &Serve, moments: &mut Moments, known: &[String]) -> Self {
        let session = serve.session();
        let mut load = Self::default();
        for _ in 0..6 + moments.below(6) {
            let count = u64::try_from(known.len().max(1)).expect("few");
            let at = usize::try_from(moments.below(count)).expect("small");
            match (moments.below(4), known.get(at)) {
                (0, Some(id)) => {
                    load.doomed.insert(id.clone());
                    let arguments = json!({"sandbox_id": id});
                    load.others.push(serve.start(&session, "destroy_sandbox", arguments));
                }
                (1, Some(id)) => {
                    let command = "setsid sleep 3000 & head -c 3000000 /dev/zero | tr '\\0' x";
                    let arguments = json!({"sandbox_id": id, "command": command});
                    load.others.push(serve.start(&session, "run_command", arguments));
                }
                _ => {
                    let arguments = json!({"timeout_minutes": 30});
                    load.creates.push(serve.start(&session, "create_sandbox", arguments));
                }
            }
        }
        load
    }

    /// Waits for some creates: what these have made must not get lost.
    fn finish(&mut self, count: usize) -> Vec<String> {
        let done = self.creates.drain(..count.min(self.creates.len()));
        let made = done.map(|stream| receive(stream).tool());
        made.map(|made| made.ok()["sandbox_id"].as_str().expect("an id").to_owned()).collect()
    }
}

fn killed_under_load(home: &Home) {
    let mut moments = Moments::new();
    let rounds = if home.mode == Mode::Root { 50 } else { 12 };
    let mut known: Vec<String> = Vec::new();
    let mut adopted = 0;
    // A unit of money for a second, charged as often as may be.
    let text = "[billing]\nsmall = 1000000\ninterval = '1s'\n";
    std::fs::write(home.data().join("config.toml"), text).expect("written");
    let mut serve = home.serve(&KEEP, &[]);
    assert_eq!(home.holm(&["account", "topup", "first", "1000000"]).code(), Some(0));
    for round in 0..rounds {
        let mut load = Load::begin(&serve, &mut moments, &known);
        let made = load.finish(usize::try_from(moments.below(6)).expect("small"));
        for _ in 0..moments.below(20) {
            // A turn of the service, which takes as long as it takes.
            serve.ask("GET", "/health", &[], "");
        }
        home.note_instances();
        let helpers = helpers(serve.pid());
        let safe: BTreeSet<String> = known.iter().chain(&made).cloned().collect();
        let safe: BTreeSet<String> = safe.difference(&load.doomed).cloned().collect();
        // The service alone, or all of it in either order, or the launcher and then the service.
        match moments.below(4) {
            0 => serve.signal(Signal::KILL),
            1 => {
                serve.signal(Signal::KILL);
                helpers.iter().for_each(|pid| kill(*pid));
            }
            2 => {
                helpers.iter().for_each(|pid| kill(*pid));
                serve.signal(Signal::KILL);
            }
            _ => {
                helpers.iter().rev().take(1).for_each(|pid| kill(*pid));
                for _ in 0..moments.below(20) {
                    serve.ask("GET", "/health", &[], "");
                }
                serve.signal(Signal::KILL);
            }
        }
        drop(load);
        serve.wait();
        serve = home.serve(&KEEP, &[]);
        let session = serve.session();
        home.note_instances();
        // What is listed as running is; what is going is gone soon.
        known = until("only running ones", || {
            let all = list(&serve, &session);
            all.iter()
                .all(|(_, state)| state == "running")
                .then(|| all.into_iter().map(|(id, _)| id).collect())
        });
        for id in safe {
            if !known.contains(&id) {
                let view = serve.call(&session, "get_sandbox", json!({"sandbox_id": id}));
                panic!("round {round}: {id} got lost: {view:?} {}", serve.stderr());
            }
        }
        for id in &known {
            assert_eq!(sh(&serve, &session, id, "echo here"), "here", "round {round}: {id}");
        }
        adopted += known.len();
        until("no record but theirs", || {
            (home.recorded() == known.iter().cloned().collect()).then_some(())
        });
        home.assert_all_recorded(|| [vec![serve.pid()], crate::helpers(serve.pid())].concat());
        // Room for the next round.
        while known.len() > 6 {
            let id = known.remove(0);
            serve.call(&session, "destroy_sandbox", json!({"sandbox_id": id})).ok();
        }
        if round % 10 == 9 {
            serve.signal(Signal::KILL);
            serve.wait();
            let drained = home.holm(&["drain"]);
            assert_eq!(drained.code(), Some(0), "{}", drained.err());
            home.note_instances();
            home.assert_clean();
            known.clear();
            serve = home.serve(&KEEP, &[]);
        }
    }
    println!("{adopted} sandboxes were adopted");
    assert!(adopted > rounds, "hardly anything was adopted: {adopted}");
    let session = serve.session();
    serve.call(&session, "create_sandbox", json!({})).ok();
    until("something to be billed", || {
        let usage = serve.call(&session, "get_usage", json!({}));
        usage.ok()["cost_total"].as_f64().is_some_and(|cost| cost > 0.0).then_some(())
    });
    serve.signal(Signal::KILL);
    serve.wait();
    assert_eq!(home.holm(&["drain"]).code(), Some(0));
    home.note_instances();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let spent = runtime.expect("an event loop").block_on(async {
        let store = SqliteStore::open(home.data().join("holm.db")).await.expect("the database");
        let spent = ledger::check(&store).await;
        store.close().await;
        spent
    });
    println!("{} seconds were billed", spent / 1_000_000);
    assert!(spent > 0);
}
