//! The service is killed while sandboxes use their networks: nothing is open in between, and
//! afterwards the policy is what it was.

use std::collections::BTreeSet;

use rustix::process::Signal;

use crate::bed::*;
use crate::common::*;
use crate::probe::{Inside, Session};

on_beds!(Root, root: case_55_nothing_is_open_between_two_services, one_that_is_adopted_keeps_its_policy);
on_beds!(Rootless, rootless: case_55_nothing_is_open_between_two_services);

/// Tries both again and again, and writes down what came of it.
const TRY: &str = r#"
import socket
with open('log', 'a', buffering=1) as log:
    for n in range(10**9):
        for to in ('203.0.113.10', '203.0.113.20', '169.254.169.254'):
            try:
                s = socket.create_connection((to, 80), 100)
                s.sendall(b'GET / HTTP/1.0\r\nHost: site.bed.test\r\n\r\n')
                said = 'reached' if s.recv(100) else 'refused'
                s.close()
            except TimeoutError: said = 'silent'
            except OSError: said = 'refused'
            log.write(f'{to} {said}\n')
"#;

/// The log as it is now, read past the service, which may not be there.
fn log(pid: u32) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/root/workspace/log"))
        .expect("the sandbox's log");
    text.lines().map(str::to_owned).collect()
}

/// What is tried from now on: two whole rounds after the one under way.
fn next_rounds(pid: u32) -> BTreeSet<String> {
    let before = log(pid).len();
    until("two more rounds", || (log(pid).len() >= before + 12).then_some(()));
    log(pid)[before + 6..].iter().cloned().collect()
}

fn set(lines: &[&str]) -> BTreeSet<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

fn trier(home: &Home) -> u32 {
    until("the program inside", || {
        let all = std::fs::read_dir("/proc").expect("/proc").flatten();
        let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.find(|pid| command_line(*pid) == "python3 try.py" && is_of(home, *pid))
    })
}

/// Whether the process is in a sandbox of this home: that of another test is below another keeper.
fn is_of(home: &Home, pid: u32) -> bool {
    let instances = home.instances.lock().expect("no panic inside").clone();
    let group = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let uid = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    instances.iter().any(|id| group.contains(id))
        || home
            .own_uid
            .is_some_and(|own| uid.lines().any(|line| line.starts_with(&format!("Uid:\t{own}\t"))))
}

fn case_55_nothing_is_open_between_two_services(home: &Home, bed: &Bed) {
    let keep = ["--on-stop", "keep"];
    let mut serve = home.serve(&keep, &[]);
    let caller = Session(&serve, serve.session());
    let policy = json!({"mode": "allow", "allow": ["203.0.113.10", "169.254.169.254"]});
    let inside = Inside::with(&caller, json!({"network": policy, "timeout_minutes": 10}));
    let id = inside.id.clone();
    inside.write("try.py", TRY);
    inside
        .sh("setsid python3 try.py >errors 2>&1 & while ! [ -s log ]; do sleep 0.01; done")
        .good();
    let pid = trier(home);
    let open = set(&["169.254.169.254 refused", "203.0.113.10 reached", "203.0.113.20 refused"]);
    let shut = set(&["169.254.169.254 refused", "203.0.113.10 refused", "203.0.113.20 refused"]);
    assert_eq!(next_rounds(pid), open);
    for round in 0..2 {
        serve.signal(Signal::KILL);
        serve.wait();
        assert_eq!(next_rounds(pid), shut, "round {round}, nobody is there");
        bed.sent();
        bed.internet.wire.clear();
        let accepted = bed.internet.seen.accepted();
        assert_eq!(next_rounds(pid), shut);
        assert_eq!(bed.sent(), [], "nothing went out");
        assert_eq!(bed.internet.seen.accepted(), accepted);
        serve = home.serve(&keep, &[]);
        until("its network to be there again", || {
            log(pid).last().map(String::as_str).filter(|_| next_rounds(pid) == open).map(drop)
        });
        for flow in bed.sent() {
            assert!([SITE4.into(), DNS4.into(), DNS6.into()].contains(&flow.to.ip()), "{flow:?}");
        }
    }
    let all: BTreeSet<_> = log(pid).into_iter().collect();
    assert!(
        !all.contains("203.0.113.20 reached") && !all.contains("169.254.169.254 reached"),
        "{all:?}"
    );
    assert!(!all.iter().any(|line| line.ends_with("silent")), "{all:?}");
    let session = serve.session();
    serve.call(&session, "destroy_sandbox", json!({"sandbox_id": id})).ok();
    serve.end();
}

fn one_that_is_adopted_keeps_its_policy(home: &Home, _bed: &Bed) {
    let serve = home.serve(&["--on-stop", "keep"], &[]);
    let caller = Session(&serve, serve.session());
    let none = Inside::with(&caller, json!({"network": "none", "timeout_minutes": 10}));
    let some = Inside::with(&caller, json!({"network": "open", "timeout_minutes": 10}));
    let path = format!("/v1/sandboxes/{}/network", some.id);
    let policy = json!({"mode": "allow", "allow": ["site.bed.test:80"]});
    assert_eq!(serve.rest("PUT", &path, &json!({"network": policy})).status, 200);
    some.check(&[("http site.bed.test 80 site.bed.test", "reached")]);
    let spent = some.count("bytes_in");
    assert!(spent > 0);
    let ids = [none.id.clone(), some.id.clone()];
    serve.end();
    home.note_instances();
    let serve = home.serve(&[], &[]);
    let session = serve.session();
    let run = |id: &String, probe: &str| {
        let command = format!("python3 /workspace/probe.py '{probe}'");
        let arguments = json!({"sandbox_id": id, "command": command, "timeout_ms": 600_000});
        serve.call(&session, "run_command", arguments).run().good().to_owned()
    };
    assert_eq!(run(&ids[0], "tcp 203.0.113.10 80"), "refused");
    assert_eq!(run(&ids[1], "http site.bed.test 80 site.bed.test"), "reached");
    assert_eq!(run(&ids[1], "tcp 203.0.113.20 80"), "refused");
    let shown =
        serve.call(&session, "get_sandbox", json!({"sandbox_id": ids[1]})).ok()["traffic"].clone();
    assert!(shown["bytes_in"].as_u64() > Some(spent), "what went through before counts: {shown}");
    serve.end();
}
