//! What is counted of a sandbox's network, and the bounds that a service's settings give it.

use crate::bed::*;
use crate::common::*;
use crate::probe::{Inside, Session};

on_beds!(Root, root: what_was_counted_stays_over_a_restart_and_the_end, metrics_tell_what_all_did,
    the_settings_file_bounds_connections, the_settings_file_bounds_bandwidth,
    equal_refusals_are_one_entry_with_their_number);
on_beds!(Rootless, rootless: what_was_counted_stays_over_a_restart_and_the_end);

const COUNTED: [&str; 5] = ["bytes_out", "bytes_in", "connections", "denied", "dns_queries"];

fn numbers(of: &Value) -> Vec<u64> {
    let number = |name: &&str| of[*name].as_u64().unwrap_or_else(|| panic!("no {name}: {of}"));
    COUNTED.iter().map(number).collect()
}

fn settings(home: &Home, text: &str) {
    std::fs::write(home.data().join("config.toml"), text).expect("a settings file");
}

fn what_was_counted_stays_over_a_restart_and_the_end(home: &Home, _bed: &Bed) {
    let serve = home.serve(&["--on-stop", "keep"], &[]);
    let caller = Session(&serve, serve.session());
    let deny = json!({"mode": "open", "deny": ["203.0.113.20"], });
    let inside = Inside::with(&caller, json!({"network": deny, "timeout_minutes": 10}));
    inside.check(&[("tcp site.bed.test 80", "reached"), ("tcp 203.0.113.20 80", "refused")]);
    let id = inside.id.clone();
    let path = format!("/v1/sandboxes/{id}/network");
    until("all to be over", || (inside.count("connections_open") == 0).then_some(()));
    let before = serve.rest("GET", &path, &Value::Null).json();
    assert!(numbers(&before).iter().all(|number| *number > 0), "{before}");
    assert!(before["denials"].as_array().is_some_and(|all| !all.is_empty()), "{before}");
    serve.end();
    home.note_instances();
    let serve = home.serve(&[], &[]);
    let session = serve.session();
    let shown = serve.rest("GET", &path, &Value::Null).json();
    assert_eq!(numbers(&shown), numbers(&before), "{shown}");
    // The log was in the memory of the service before, and this one says since when it has its own.
    assert_eq!(shown["denials"], json!([]));
    let since = |shown: &Value| shown["denials_since"].as_str().expect("a time").to_owned();
    assert!(since(&shown) >= since(&before), "{shown} after {before}");
    // It counts on from there.
    let command = "python3 /workspace/probe.py 'tcp 203.0.113.10 80'";
    let run = json!({"sandbox_id": id, "command": command, "timeout_ms": 600_000});
    assert_eq!(serve.call(&session, "run_command", run).run().good(), "reached");
    let more = || serve.rest("GET", &path, &Value::Null).json();
    until("it to be over", || (more()["connections_open"] == 0).then_some(()));
    let last = more();
    assert_eq!(last["connections"].as_u64(), before["connections"].as_u64().map(|n| n + 1));
    // And after the end, for all who ask.
    serve.call(&session, "destroy_sandbox", json!({"sandbox_id": id})).ok();
    let over = more();
    assert_eq!(numbers(&over), numbers(&last), "{over}");
    assert_eq!((&over["denials"], &over["denials_since"]), (&Value::Null, &Value::Null));
    let tool = serve.call(&session, "get_sandbox", json!({"sandbox_id": id})).ok().clone();
    assert_eq!(numbers(&tool["traffic"]), numbers(&last), "{tool}");
    let usage = serve.rest("GET", "/v1/usage", &Value::Null).json();
    let tool = serve.call(&session, "get_usage", json!({})).ok().clone();
    for of in [&usage, &usage["recent"][0], &tool, &tool["recent"][0]] {
        for name in ["bytes_out", "bytes_in", "connections"] {
            assert_eq!(of[name], last[name], "{name}: {of}");
        }
    }
    serve.end();
}

/// A number of `/metrics`.
fn metric(serve: &Client, name: &str) -> u64 {
    let page = serve.ask("GET", "/metrics", &[], "").body;
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("no {name} in {page}"));
    value.parse().expect("a number")
}

fn metrics_tell_what_all_did(home: &Home, _bed: &Bed) {
    let serve = home.serve(&[], &[]);
    let caller = Session(&serve, serve.session());
    let inside = Inside::new(&caller, json!({"mode": "open", "deny": ["203.0.113.20"]}));
    let names = [
        "holm_network_bytes_total{direction=\"out\"}",
        "holm_network_bytes_total{direction=\"in\"}",
        "holm_network_connections_total",
        "holm_network_denied_total",
        "holm_network_dns_queries_total",
    ];
    let all = || names.map(|name| metric(&serve, name));
    assert_eq!((all(), metric(&serve, "holm_network_connections")), ([0; 5], 0));
    let hold = "import socket\ns = socket.create_connection(('203.0.113.10', 7), 100)\n\
        s.sendall(b'x'); s.recv(1)\nopen('held', 'w').close()\ns.recv(1)\n";
    inside.write("hold.py", hold);
    inside.sh("setsid python3 hold.py >log 2>&1 & echo $! >pid; while ! [ -e held ]; do sleep 0.01; done").good();
    assert_eq!(metric(&serve, "holm_network_connections"), 1);
    inside.check(&[("tcp site.bed.test 80", "reached"), ("tcp 203.0.113.20 80", "refused")]);
    inside.sh("kill -9 $(cat pid)").good();
    until("all to be over", || (metric(&serve, "holm_network_connections") == 0).then_some(()));
    let seen = numbers(&inside.get()["traffic"]);
    assert_eq!(all().to_vec(), seen, "of one sandbox they are its own numbers");
    assert!(seen.iter().all(|number| *number > 0), "{seen:?}");
    // They never go down, whatever becomes of the sandbox.
    inside.destroy();
    assert_eq!(all().to_vec(), seen);
    serve.end();
}

/// Opens some, keeps those that echo, and says how many there are.
const KEEP: &str = r#"
import os, socket, sys, time
kept = []
for n in range(int(sys.argv[1])):
    try:
        s = socket.create_connection(('203.0.113.10', 7), 100)
        s.sendall(b'x')
        if s.recv(1) == b'x': kept.append(s)
    except TimeoutError: sys.exit('silent')
    except OSError: pass
with open('said.new', 'w') as f: f.write(str(len(kept)))
os.rename('said.new', 'said')
time.sleep(3600)
"#;

/// How many of some connections a sandbox gets, and keeps.
fn kept(inside: &Inside<'_>, wanted: u32) -> String {
    inside.write("keep.py", KEEP);
    let command = format!(
        "setsid python3 keep.py {wanted} >log 2>&1 & while ! [ -e said ]; do sleep 0.01; grep . log && exit 1; done; cat said"
    );
    inside.sh(&command).good().to_owned()
}

fn the_settings_file_bounds_connections(home: &Home, _bed: &Bed) {
    settings(home, "[network]\nconnections_max = 5\nconnections_total = 11\n");
    let serve = home.serve(&[], &[]);
    let caller = Session(&serve, serve.session());
    let rule = |inside: &Inside<'_>| {
        let denials = inside.denials();
        denials.last().expect("a refusal")["rule"].as_str().expect("a rule").to_owned()
    };
    let first = Inside::new(&caller, json!("open"));
    assert_eq!(kept(&first, 7), "5");
    assert!(rule(&first).ends_with("limit: 5 open connections"), "{}", rule(&first));
    let second = Inside::new(&caller, json!("open"));
    assert_eq!(kept(&second, 5), "1", "what the first has left of their account's share: 6 of 11");
    assert!(rule(&second).contains("share"), "{}", rule(&second));
    first.destroy();
    until("there to be room", || (second.probe("tcp 203.0.113.10 80") == "reached").then_some(()));
    serve.end();
}

const RATE: u64 = 500_000;
const BYTES: u64 = 3_000_000;

/// Both ways and two connections at once share it. Only that it is not faster is measured, by the
/// clock inside: a slow machine makes it slower.
fn the_settings_file_bounds_bandwidth(home: &Home, _bed: &Bed) {
    settings(home, &format!("[network]\nbandwidth = {RATE}\n"));
    let serve = home.serve(&[], &[]);
    let caller = Session(&serve, serve.session());
    let inside = Inside::new(&caller, json!("open"));
    let code = format!(
        "import subprocess, time\nstart = time.monotonic()\nhalf = {BYTES} // 2\n\
         open('up', 'wb').write(b'x' * half)\n\
         down = subprocess.Popen(['curl', '-sS', '-o', 'down', f'http://203.0.113.10/bytes/{{half}}'])\n\
         up = subprocess.Popen(['curl', '-sS', '-o', 'said', '-T', 'up', 'http://203.0.113.20:8000/x'])\n\
         assert down.wait() == 0 and up.wait() == 0\nprint(time.monotonic() - start)\n"
    );
    let took: f64 = inside.python(&code).parse().expect("seconds");
    let moved = inside.count("bytes_in") + inside.count("bytes_out");
    assert!(moved >= BYTES, "{moved}");
    // Half of the time that it has to take at least, for what may be saved up and under way.
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let least = moved as f64 / RATE as f64 / 2.0;
    assert!(took >= least, "{moved} bytes in {took} s, at {RATE} in a second");
    serve.end();
}

fn equal_refusals_are_one_entry_with_their_number(home: &Home, _bed: &Bed) {
    let serve = home.serve(&[], &[]);
    let caller = Session(&serve, serve.session());
    let inside = Inside::new(&caller, json!("open"));
    let probes = vec!["'tcp 10.0.0.1 80'"; 30].join(" ");
    inside.sh(&format!("python3 probe.py {probes}")).good();
    let path = format!("/v1/sandboxes/{}/network", inside.id);
    let network = serve.rest("GET", &path, &Value::Null).json();
    assert_eq!((&network["denied"], &network["denied_unlogged"]), (&json!(30), &json!(0)));
    let denials = network["denials"].as_array().expect("a list");
    assert_eq!((denials.len(), &denials[0]["times"]), (1, &json!(30)), "{network}");
    assert_eq!(inside.denials()[0]["times"], 30);
    serve.end();
}
