//! Policies that change while connections are open.

use crate::bed::*;
use crate::common::*;
use crate::probe::{Inside, Session};

on_beds!(
    Root, root:
    a_change_cuts_what_it_refuses,
    denials_are_told_and_bounded,
    an_account_has_a_ceiling,
    open_connections_outlive_a_pause,
);
on_beds!(Rootless, rootless: a_change_cuts_what_it_refuses);

/// Keeps two connections and says of each how often it echoed, and when it was cut.
const KEEP: &str = r#"
import json, os, socket, time
all = {'203.0.113.10': 0, '2001:db8:20::20': 0}
open_ = {to: socket.create_connection((to, 7), 100) for to in all}
while True:
    for to, s in list(open_.items()):
        try:
            s.sendall(b'x')
            if s.recv(1) != b'x': raise OSError('end')
            all[to] += 1
        except OSError as e:
            all[to] = 'silent' if isinstance(e, TimeoutError) else 'cut'
            del open_[to]
    with open('state.new', 'w') as f: json.dump(all, f)
    os.rename('state.new', 'state')
    time.sleep(0.01)
"#;

fn state(inside: &Inside, of: &str) -> Value {
    let text = inside.read("state");
    serde_json::from_str::<Value>(&text).expect("JSON")[of].clone()
}

/// Neither side notices, but by the clock.
fn open_connections_outlive_a_pause(home: &Home, bed: &Bed) {
    let serve = home.serve(&[], &[]);
    let caller = Session(&serve, serve.session());
    let inside = Inside::new(&caller, json!("open"));
    inside.write("keep.py", KEEP);
    inside
        .sh("setsid python3 keep.py >log 2>&1 & while ! [ -e state ]; do sleep 0.01; done")
        .good();
    let goes_on = || {
        for to in ["203.0.113.10", "2001:db8:20::20"] {
            let seen = state(&inside, to);
            assert!(seen.is_u64(), "{to}: {seen}");
            until("it to echo on", || (state(&inside, to).as_u64() > seen.as_u64()).then_some(()));
        }
    };
    goes_on();
    let path = format!("/v1/sandboxes/{}", inside.id);
    for _ in 0..3 {
        let paused = serve.rest("POST", &format!("{path}/pause"), &Value::Null);
        assert_eq!(paused.json()["status"], "paused", "{paused:?}");
        assert!(bed.internet.seen.open() >= 2, "the servers have them open");
        let resumed = serve.rest("POST", &format!("{path}/resume"), &Value::Null);
        assert_eq!(resumed.json()["status"], "running", "{resumed:?}");
        goes_on();
    }
    assert_eq!(serve.rest("DELETE", &path, &Value::Null).status, 200);
    until("the servers to have noticed", || (bed.internet.seen.open() == 0).then_some(()));
    serve.end();
}

fn a_change_cuts_what_it_refuses(home: &Home, bed: &Bed) {
    let serve = home.serve(&[], &[]);
    let caller = Session(&serve, serve.session());
    let inside = Inside::new(&caller, json!("open"));
    inside.write("keep.py", KEEP);
    inside
        .sh("setsid python3 keep.py >log 2>&1 & while ! [ -e state ]; do sleep 0.01; done")
        .good();
    let goes_on = |to: &str| {
        let seen = state(&inside, to);
        assert!(seen.is_u64(), "{to}: {seen}");
        until("it to echo on", || (state(&inside, to).as_u64() > seen.as_u64()).then_some(()));
    };
    goes_on("203.0.113.10");
    goes_on("2001:db8:20::20");
    let path = format!("/v1/sandboxes/{}/network", inside.id);
    let set = |policy: Value| {
        let answer = serve.rest("PUT", &path, &json!({"network": policy}));
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    set(json!({"mode": "allow", "allow": ["[2001:db8:20::]/48"]}));
    until("the refused one to be cut", || (state(&inside, "203.0.113.10") == "cut").then_some(()));
    goes_on("2001:db8:20::20");
    inside.check(&[
        ("tcp 203.0.113.10 80", "refused"),
        ("tcp 2001:db8:20::20 80", "reached"),
        ("name site.bed.test", "noname"),
    ]);
    assert_eq!(serve.rest("GET", &path, &Value::Null).json()["network"]["mode"], "allow");
    set(json!("none"));
    until("the other to be cut", || (state(&inside, "2001:db8:20::20") == "cut").then_some(()));
    until("the servers to have noticed", || (bed.internet.seen.open() == 0).then_some(()));
    let asked = bed.internet.dns.asked().len();
    bed.sent();
    bed.internet.wire.clear();
    inside.check(&[("tcp 2001:db8:20::20 80", "refused"), ("name other.bed.test", "noname")]);
    assert_eq!(bed.sent(), [], "with none nothing is sent");
    assert_eq!(bed.internet.dns.asked().len(), asked);
    set(json!("open"));
    inside.check(&[("tcp site.bed.test 80", "reached")]);
    // A wrong one changes nothing.
    let wrong = serve.rest("PUT", &path, &json!({"network": {"mode": "opem"}}));
    assert_eq!(wrong.status, 400, "{wrong:?}");
    inside.check(&[("tcp 203.0.113.10 80", "reached")]);
    serve.end();
}

fn denials_are_told_and_bounded(home: &Home, _bed: &Bed) {
    let serve = home.serve(&[], &[]);
    let caller = Session(&serve, serve.session());
    let inside = Inside::new(&caller, json!({"mode": "open", "deny": ["*.other.bed.test"]}));
    inside.check(&[("tcp 169.254.169.254 80", "refused"), ("name x.other.bed.test", "noname")]);
    let path = format!("/v1/sandboxes/{}/network", inside.id);
    let network = || serve.rest("GET", &path, &Value::Null).json();
    let of = |network: &Value, key: &str, value: &str| {
        let list = network["denials"].as_array().expect("a list").clone();
        let found = list.into_iter().find(|denial| denial[key] == value);
        found.unwrap_or_else(|| panic!("no {value}: {network}"))
    };
    let shown = network();
    let metadata = of(&shown, "address", "169.254.169.254");
    assert_eq!((&metadata["port"], &metadata["protocol"]), (&json!(80), &json!("tcp")));
    assert!(metadata["rule"].as_str().is_some_and(|rule| rule.contains("refused")), "{metadata}");
    let name = of(&shown, "name", "x.other.bed.test");
    assert!(name["rule"].as_str().is_some_and(|rule| rule.contains("*.other.bed.test")), "{name}");
    assert_eq!(name["protocol"], "dns");
    // An agent learns it from the tool, with what to do about it.
    let tool = inside.get();
    let told = tool["network_denied"].as_array().expect("a list");
    assert!(told.contains(&metadata) && told.contains(&name), "{told:?}");
    assert!(tool["network_hint"].is_string());
    let code = "import socket\nfor n in range(400):\n  s = socket.socket()\n\
        \u{20} try: s.connect(('10.0.0.1', 1000 + n)); s.recv(1)\n  except OSError: pass\n  s.close()";
    inside.python(code);
    let shown = network();
    let denials = shown["denials"].as_array().expect("a list");
    assert_eq!(denials.len(), 100);
    assert_eq!(denials[99]["port"], 1399, "the newest is last");
    assert!(shown["denied"].as_u64() >= Some(402), "{}", shown["denied"]);
    serve.end();
}

fn an_account_has_a_ceiling(home: &Home, bed: &Bed) {
    let serve = home.serve(&[], &[]);
    let done = |arguments: &[&str]| {
        let exit = home.holm(arguments);
        assert_eq!(exit.code(), Some(0), "{}", exit.err());
        exit.out()
    };
    done(&["account", "create", "small", "--network", "allow:203.0.113.10:80,site.bed.test"]);
    let key = done(&["key", "create", "small"]);
    let tenant = serve.with_key(key.trim());
    let caller = Session(&tenant, tenant.session());
    let inside = Inside::new(&caller, json!("open"));
    let both: &[(&str, &str)] = &[
        ("tcp 203.0.113.10 80", "reached"),
        ("tls site.bed.test 443 site.bed.test", "reached"),
        ("tcp 203.0.113.20 80", "refused"),
        ("tcp 2001:db8:20::20 80", "refused"),
        ("name other.bed.test", "noname"),
    ];
    inside.check(both);
    assert_eq!(inside.get()["network_ceiling"]["mode"], "allow");
    // Nothing that the tenant says widens it; what it says narrows it.
    let path = format!("/v1/sandboxes/{}/network", inside.id);
    let set = |policy: Value| tenant.rest("PUT", &path, &json!({"network": policy})).status;
    let wide = json!({"mode": "allow", "allow": ["0.0.0.0/0", "[::]/0", "*.bed.test"]});
    assert_eq!(set(wide), 200);
    inside.check(&both[..1]);
    inside.check(&[
        ("tcp 203.0.113.20 80", "refused"),
        ("tls site.bed.test 443 other.bed.test", "refused"),
    ]);
    assert_eq!(set(json!({"mode": "open", "deny": ["203.0.113.10"]})), 200);
    inside.check(&[
        ("tcp 203.0.113.10 80", "refused"),
        ("tls 2001:db8:10::10 443 site.bed.test", "reached"),
    ]);
    // It holds for what runs, too.
    assert_eq!(set(json!("open")), 200);
    inside.check(&both[..2]);
    done(&["account", "set", "small", "--network", "allow:203.0.113.20"]);
    until("the new ceiling to hold", || {
        (inside.probe("tcp 203.0.113.20 80") == "reached").then_some(())
    });
    inside.check(&[("tcp 203.0.113.10 80", "refused"), ("name site.bed.test", "noname")]);
    // The operator's own account has none.
    let own = Session(&serve, serve.session());
    Inside::new(&own, json!("open")).check(&[("tcp 203.0.113.20 80", "reached")]);
    assert_eq!(bed.internet.dns.count("other.bed.test"), 0);
    serve.end();
}
