//! Connections to programs go straight to them, not through the guest, and leave nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use rustix::process::{Pid, Signal, kill_process};

use super::{Bed, Shown};
use crate::common::{Home, Serve, as_root, as_rootless, json, pids, until};

as_root!(
    previews_go_on_while_the_guest_stands_still,
    visits_of_sandboxes_that_come_and_go_leave_nothing_open,
);
as_rootless!(previews_go_on_while_the_guest_stands_still);

/// Open files of the service.
fn files(serve: &Serve) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", serve.pid())).expect("the service runs").count()
}

/// PID 1 of a sandbox, as this host knows it.
fn guest(bed: &Bed<'_>) -> Pid {
    let ran = bed.ask("POST", "/exec", &json!({"command": "readlink /proc/self/ns/net"})).json();
    let network = ran["stdout"].as_str().expect("a name").trim().to_owned();
    let is_it = |pid: &u32| {
        let its = std::fs::read_link(format!("/proc/{pid}/ns/net"));
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        its.is_ok_and(|its| its.to_str() == Some(&network)) && ids.ends_with("\t1")
    };
    let pid = pids().into_iter().find(is_it).expect("it runs");
    Pid::from_raw(pid.cast_signed()).expect("a process id")
}

/// Asks in a way that has the program close the connection, so that each has one of its own.
fn visit(shown: &Shown) {
    let raw = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let answer = shown.get(&format!("/hostile?{}", URL_SAFE.encode(raw)));
    assert_eq!((answer.status, &*answer.body), (200, "ok"), "{answer:?}");
}

/// Sockets that are kept for one sandbox.
const KEPT: usize = 24;

fn previews_go_on_while_the_guest_stands_still(home: &Home) {
    let mut serve = home.serve(&["--on-stop", "keep"], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1", "8081@::1", "8082@0.0.0.0"]);
    let shown = [8080, 8081, 8082].map(|port| bed.public(port));
    let guest = guest(&bed);
    let check = |serve: &Serve, shown: &[Shown]| {
        let before = files(serve);
        visit(&shown[0]);
        until("there are sockets", || (files(serve) >= before + KEPT).then_some(()));
        kill_process(guest, Signal::STOP).expect("it runs");
        for _ in 0..3 {
            shown.iter().for_each(visit);
        }
        kill_process(guest, Signal::CONT).expect("it runs");
    };
    check(&serve, &shown);
    let id = bed.id.clone();
    serve.signal(Signal::KILL);
    serve.wait();
    // The next service has a way of its own.
    let serve = home.serve(&[], &[]);
    let shown = shown.map(|shown| Shown { address: serve.address, ..shown });
    check(&serve, &shown);
    let gone = serve.rest("DELETE", &format!("/v1/sandboxes/{id}"), &json!(null));
    assert_eq!(gone.status, 200, "{gone:?}");
    serve.end();
}

fn visits_of_sandboxes_that_come_and_go_leave_nothing_open(home: &Home) {
    let serve = home.serve(&[], &[]);
    let round = || {
        let beds = [(); 3].map(|()| Bed::new(&serve));
        for bed in &beds {
            bed.start(&["8080@127.0.0.1"]);
            let shown = bed.public(8080);
            visit(&shown);
            assert_eq!(bed.public(8081).get("/").status, 502);
            visit(&shown);
            assert_eq!(shown.get("/").status, 200);
        }
        beds.iter().for_each(Bed::destroy);
    };
    // Whatever is only opened once is open then.
    round();
    let before = files(&serve);
    for _ in 0..5 {
        round();
    }
    until("all is closed", || (files(&serve) <= before).then_some(()));
    serve.end();
}
