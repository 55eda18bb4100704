//! Pausing sandboxes and letting them go on, by every face.

use super::Rest;
use crate::common::{Home, Mcp, Serve, Value, as_root, as_rootless, at_once, json, until};

as_root!(
    a_paused_one_stands_still_and_goes_on,
    an_idle_one_is_paused_and_use_lets_it_go_on,
    many_callers_at_once_and_an_end_in_between,
    a_paused_one_outlives_its_service_and_expires,
);
as_rootless!(without_a_freezer_it_is_refused_and_said);

const COUNTING: &str = "(i=0; while :; do i=$((i+1)); echo $i > /workspace/n.new; \
    mv /workspace/n.new /workspace/n; sleep 0.01; done) >/dev/null 2>&1 &";

fn count(mcp: &Mcp, id: &str) -> u64 {
    mcp.sh(id, "cat /workspace/n").good().trim().parse().expect("a number")
}

fn status(mcp: &Mcp, id: &str) -> String {
    let view = mcp.call("get_sandbox", json!({"sandbox_id": id}));
    view.ok()["status"].as_str().expect("a status").to_owned()
}

/// Microseconds of processor time that it has used, by the host's own count.
fn used(serve: &Rest<'_>) -> f64 {
    let view = serve.ask("GET", "", &Value::Null).json();
    view["usage"]["cpu_seconds"].as_f64().expect("a number")
}

fn a_paused_one_stands_still_and_goes_on(home: &Home) {
    let mcp = home.mcp();
    let id = mcp.create_with(json!({"auto_resume": false}));
    mcp.sh(&id, COUNTING);
    until("it counts", || mcp.sh(&id, "test -s /workspace/n").exit_code.eq(&0).then_some(()));
    // A command under way goes on, too.
    let under_way = mcp.start_sh(&id, "sleep 0.3; echo done", json!({}));
    for _ in 0..2 {
        let paused = mcp.call("pause_sandbox", json!({"sandbox_id": id}));
        assert_eq!(paused.ok()["status"], "paused");
    }
    assert_eq!(status(&mcp, &id), "paused");
    let refused = mcp.call("run_command", json!({"sandbox_id": id, "command": "true"}));
    assert_eq!(refused.code(), "sandbox_paused");
    assert!(refused.text().contains("resume_sandbox"), "{}", refused.text());
    for _ in 0..2 {
        let resumed = mcp.call("resume_sandbox", json!({"sandbox_id": id}));
        assert_eq!(resumed.ok()["status"], "running");
    }
    assert_eq!(mcp.finish(under_way).run().good(), "done");
    let before = count(&mcp, &id);
    until("it counts on", || (count(&mcp, &id) > before).then_some(()));
    mcp.call("pause_sandbox", json!({"sandbox_id": id})).ok();
    mcp.destroy(&id);
    // One that is paused when all ends leaves nothing either.
    let id = mcp.create();
    mcp.call("pause_sandbox", json!({"sandbox_id": id})).ok();
    mcp.end(home);
    home.assert_clean();
}

fn an_idle_one_is_paused_and_use_lets_it_go_on(home: &Home) {
    let mcp = home.mcp();
    let id = mcp.create_with(json!({"auto_pause_seconds": 1}));
    mcp.sh(&id, COUNTING);
    // A foreground command is use, however long it takes.
    assert_eq!(mcp.sh(&id, "sleep 3; echo done").good(), "done");
    until("it is paused", || (status(&mcp, &id) == "paused").then_some(()));
    let first = count(&mcp, &id);
    assert_eq!(status(&mcp, &id), "running");
    until("it counts on", || (count(&mcp, &id) > first).then_some(()));
    until("it is paused", || (status(&mcp, &id) == "paused").then_some(()));
    let bad = mcp.call("create_sandbox", json!({"auto_pause_seconds": 0}));
    assert_eq!(bad.code(), "invalid_argument");
    mcp.destroy(&id);
    mcp.end(home);
}

fn many_callers_at_once_and_an_end_in_between(home: &Home) {
    let serve = home.serve(&[], &[]);
    let made = serve.stateless("create_sandbox", &json!({})).tool();
    let sandbox = Rest::of(&serve, made.ok()["sandbox_id"].as_str().expect("an id"));
    let turn = |what: &str| sandbox.ask("POST", what, &Value::Null);
    let answers = at_once(8, |n| match n % 2 {
        0 => turn("/pause").status,
        _ => turn("/resume").status,
    });
    assert_eq!(answers, [200; 8]);
    let view = turn("/pause").json();
    assert_eq!(view["status"], "paused", "{view}");
    assert!(view["paused_at"].is_string(), "{view}");
    let listed = serve.ask("GET", "/v1/sandboxes", &[], "").json();
    assert_eq!(listed["sandboxes"][0]["status"], "paused");
    assert_eq!(sandbox.good("echo lives"), "lives\n");
    let answers = at_once(9, |n| match n {
        4 => sandbox.ask("DELETE", "", &Value::Null).status,
        _ if n % 2 == 0 => turn("/pause").status,
        _ => turn("/resume").status,
    });
    assert_eq!(answers[4], 200);
    assert!(answers.iter().all(|status| [200, 410].contains(status)), "{answers:?}");
    assert_eq!(turn("/pause").status, 410);
    until("nothing of it", || home.recorded().is_empty().then_some(()));
    serve.end();
}

/// A service that takes short lifetimes.
fn short_lived(home: &Home) -> Serve {
    let text = "[sandboxes]\nlifetime_min = '1s'\n";
    std::fs::write(home.data().join("config.toml"), text).expect("written");
    home.serve(&[], &[])
}

fn a_paused_one_outlives_its_service_and_expires(home: &Home) {
    let mut serve = short_lived(home);
    let make = |serve: &Serve, seconds: u64| {
        let made = serve.stateless("create_sandbox", &json!({"timeout": seconds})).tool();
        made.ok()["sandbox_id"].as_str().expect("an id").to_owned()
    };
    let (short, lasting) = (make(&serve, 4), make(&serve, 3600));
    Rest::of(&serve, &lasting).good("while :; do :; done >/dev/null 2>&1 & true");
    for id in [&short, &lasting] {
        let paused = Rest::of(&serve, id).ask("POST", "/pause", &Value::Null);
        assert_eq!(paused.json()["status"], "paused");
    }
    serve.signal(rustix::process::Signal::KILL);
    serve.wait();
    drop(serve);
    let serve = short_lived(home);
    let sandbox = Rest::of(&serve, &lasting);
    assert_eq!(sandbox.ask("GET", "", &Value::Null).json()["status"], "paused");
    // While another one lives its whole life.
    let before = used(&sandbox);
    let other = Rest::of(&serve, &make(&serve, 60));
    assert_eq!(other.good("echo lives"), "lives\n");
    assert_eq!(used(&sandbox).to_bits(), before.to_bits(), "something in it runs");
    assert_eq!(other.ask("DELETE", "", &Value::Null).status, 200);
    let gone = Rest::of(&serve, &short);
    let view = until("it expires", || {
        let view = gone.ask("GET", "", &Value::Null).json();
        (view["status"] == "deleted").then_some(view)
    });
    assert_eq!(view["ended_reason"], "expired", "{view}");
    until("nothing of it", || (!home.recorded().contains(&short)).then_some(()));
    assert_eq!(sandbox.good("echo lives"), "lives\n");
    until("it runs", || (used(&sandbox) > before).then_some(()));
    assert_eq!(sandbox.ask("DELETE", "", &Value::Null).status, 200);
    serve.end();
}

fn without_a_freezer_it_is_refused_and_said(home: &Home) {
    let mcp = home.mcp();
    let info = mcp.call("get_service_info", json!({}));
    if info.ok()["pause"]["possible"] == true {
        println!("SKIP pauses: this user has cgroups of its own here");
        return;
    }
    assert!(info.ok()["pause"]["mend"].is_string());
    let id = mcp.create();
    let refused = mcp.call("pause_sandbox", json!({"sandbox_id": id}));
    assert_eq!(refused.code(), "unsupported");
    assert!(refused.text().contains("holm doctor"), "{}", refused.text());
    assert_eq!(mcp.sh(&id, "echo lives").good(), "lives");
    let vain = mcp.call("create_sandbox", json!({"auto_pause_seconds": 60}));
    assert_eq!(vain.code(), "unsupported");
    mcp.end(home);
}
