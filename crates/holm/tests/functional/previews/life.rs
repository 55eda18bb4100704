//! Previews and the life of their sandbox, and of the service.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;

use rustix::process::Signal;

use super::websocket::Socket;
use super::{Bed, Shown, read_until, rest_of};
use crate::common::{GUARD, Home, Value, as_root, as_rootless, json, until};

as_root!(
    case_59_an_open_stream_ends_with_its_sandbox,
    a_body_goes_no_further_than_its_answer,
    what_a_token_has_opened_ends_with_it,
    case_55_exposed_ports_survive_the_service,
    an_ended_sandbox_says_so,
    traffic_extends_the_lease_where_that_was_asked_for,
    an_orderly_stop_does_not_wait_for_streams,
);
as_rootless!(case_55_exposed_ports_survive_the_service);

/// An event stream that has begun, and a WebSocket.
fn streams(shown: &Shown) -> (TcpStream, Socket) {
    let mut stream = shown.open("GET", "/sse", &[]);
    read_until(&mut stream, "data: 1");
    (stream, Socket::open(shown, &[]))
}

fn case_59_an_open_stream_ends_with_its_sandbox(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    let (stream, mut socket) = streams(&shown);
    let waiting = shown.open("POST", "/count", &[("content-length", "10")]);
    // Its program waits for the body, and the visitor for an answer, which says what became of it.
    bed.destroy();
    assert!(!rest_of(stream).ends_with("0\r\n\r\n"), "it breaks off");
    assert!(socket.rest().is_empty());
    let rest = rest_of(waiting);
    assert!(rest.starts_with("HTTP/1.1 410 ") && rest.contains("destroyed"), "{rest}");
    serve.end();
}

fn a_body_goes_no_further_than_its_answer(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    let mut early = shown.open("POST", "/early", &[("transfer-encoding", "chunked")]);
    read_until(&mut early, "early");
    // The visitor could go on sending, uncounted and after the port is closed: so the program's
    // connection ends, though the visitor's body has not.
    assert_eq!(shown.get("/ended").body, "ended");
    drop(early);
    serve.end();
}

/// Reads on until the end, which comes; what goes on and on is none.
fn has_ended(mut stream: &TcpStream, until: jiff::Timestamp) {
    let (mut buffer, start) = (vec![0; 1 << 16], std::time::Instant::now());
    // An error is an end too, unless it is that of the clock.
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(_) => assert!(start.elapsed() < GUARD, "it goes on after its token has ended"),
            Err(error) => {
                let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!is_late, "it stays open after its token has ended");
                break;
            }
        }
    }
    assert!(jiff::Timestamp::now() >= until, "it ended before its token");
}

fn what_a_token_has_opened_ends_with_it(home: &Home) {
    let text = "[previews]\naccess_life = '8s'\n";
    std::fs::write(home.data().join("config.toml"), text).expect("written");
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1", "8081@127.0.0.1"]);
    // What was opened in time; where this machine is too slow for that it is tried again.
    let opened = |path: &str, headers: &[(&str, &str)], status: &str| {
        until("it opens in time", || {
            let shown = bed.expose(&json!({"port": 8080}));
            let mut all = headers.to_vec();
            all.push(("x-holm-preview-token", shown.token()));
            let mut stream = shown.open("GET", path, &all);
            let head = read_until(&mut stream, "\r\n\r\n");
            let ends = shown.answer["token_expires_at"].as_str().expect("a time");
            let ends: jiff::Timestamp = ends.parse().expect("a time");
            head.starts_with(status).then_some((stream, ends))
        })
    };
    let upgrade = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let public = bed.public(8081);
    let (free, mut socket) = streams(&public);
    let (events, events_end) = opened("/sse", &[], "HTTP/1.1 200");
    let (web, web_end) = opened("/ws", &upgrade, "HTTP/1.1 101");
    has_ended(&events, events_end);
    has_ended(&web, web_end);
    // One that waits for an answer is told, and who needed no token goes on.
    let shown = bed.expose(&json!({"port": 8080}));
    let token = [("x-holm-preview-token", shown.token()), ("content-length", "10")];
    let waiting = rest_of(shown.open("POST", "/count", &token));
    assert!(waiting.starts_with("HTTP/1.1 401 "), "{waiting}");
    let mut free = free;
    read_until(&mut free, "data: ");
    socket.send(1, b"on");
    assert_eq!(socket.receive(), (0x81, b"on".to_vec()));
    serve.end();
}

fn case_55_exposed_ports_survive_the_service(home: &Home) {
    let mut serve = home.serve(&["--on-stop", "keep"], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let (private, public) = (bed.expose(&json!({"port": 8080})), bed.public(8081));
    // Others have the same ports, exposed in other ways.
    let second = Bed::new(&serve);
    second.start(&["8080@127.0.0.1"]);
    let (open, third) = (second.public(8080), Bed::new(&serve));
    let closed = third.expose(&json!({"port": 8080, "extend_lease": true}));
    let ids = [&bed, &second, &third].map(|bed| bed.id.clone());
    serve.signal(Signal::KILL);
    serve.wait();
    let serve = home.serve(&[], &[]);
    let listed = ids.map(|id| {
        let path = format!("/v1/sandboxes/{id}/ports");
        let listed = serve.rest("GET", &path, &Value::Null).json()["ports"].clone();
        let ports = listed.as_array().expect("a list").iter();
        let of = |port: &Value| (port["port"].as_u64(), port["public"] == true);
        (ports.map(of).collect::<Vec<_>>(), listed[0]["extend_lease"] == true)
    });
    let private_and_public = vec![(Some(8080), false), (Some(8081), true)];
    assert_eq!(listed[0], (private_and_public, false));
    assert_eq!(listed[1], (vec![(Some(8080), true)], false));
    assert_eq!(listed[2], (vec![(Some(8080), false)], true));
    let at = |shown: &Shown| Shown {
        address: serve.address,
        host: shown.host.clone(),
        answer: shown.answer.clone(),
    };
    let (private, public, open, closed) = (at(&private), at(&public), at(&open), at(&closed));
    assert_eq!((open.get("/").status, closed.get("/").status), (200, 401));
    let foreign = [("x-holm-preview-token", closed.token())];
    assert_eq!(private.ask("GET", "/", &foreign).status, 401, "a token is for its sandbox");
    assert_eq!(closed.ask("GET", "/", &foreign).status, 502, "nothing listens there");
    // What was signed before it still works.
    let token = [("x-holm-preview-token", private.token())];
    assert_eq!(private.ask("GET", "/", &token).status, 200);
    assert_eq!(private.get("/").status, 401);
    assert_eq!(public.get("/").status, 502);
    serve.end();
}

fn an_ended_sandbox_says_so(home: &Home) {
    let serve = home.serve(&["--on-stop", "keep"], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let (shown, private) = (bed.public(8080), bed.expose(&json!({"port": 8081})));
    bed.destroy();
    for shown in [&shown, &private] {
        let gone = shown.get("/");
        assert_eq!(gone.status, 410, "{gone:?}");
        assert!(gone.body.contains("has ended") && gone.body.contains("destroyed"), "{gone:?}");
    }
    let never = Shown { host: shown.host.replacen("8080", "8082", 1), ..shown };
    assert_eq!(never.get("/").status, 404, "it never was exposed");
    for (method, below, body) in [
        ("POST", "/ports", json!({"port": 8080})),
        ("GET", "/ports", Value::Null),
        ("DELETE", "/ports?port=8080", Value::Null),
    ] {
        let answer = bed.ask(method, below, &body);
        assert_eq!(answer.status, 410, "{method} {answer:?}");
        assert_eq!(answer.json()["error"]["ended_reason"], "destroyed", "{answer:?}");
    }
    serve.end();
}

fn traffic_extends_the_lease_where_that_was_asked_for(home: &Home) {
    let text = "[sandboxes]\nlifetime_min = '1s'\n";
    std::fs::write(home.data().join("config.toml"), text).expect("written");
    let serve = home.serve(&[], &[]);
    let bed = Bed::with(&serve, &json!({"timeout_seconds": 60}));
    bed.start(&["8080@127.0.0.1", "8081@127.0.0.1"]);
    let (plain, shown) = (
        bed.public(8081),
        bed.expose(&json!({"port": 8080, "public": true, "extend_lease": true})),
    );
    let expiry = || bed.ask("GET", "", &Value::Null).json()["expires_at"].clone();
    let first = expiry();
    assert_eq!(plain.get("/").status, 200);
    let second = expiry();
    assert_eq!(first, second, "traffic of this port extends nothing");
    until("it is extended", || {
        assert_eq!(shown.get("/").status, 200);
        (expiry() != second).then_some(())
    });
    serve.end();
}

fn an_orderly_stop_does_not_wait_for_streams(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    let (stream, mut socket) = streams(&shown);
    let busy: TcpStream = serve.send(
        "POST",
        &format!("/v1/sandboxes/{}/exec", bed.id),
        &[("content-type", "application/json")],
        r#"{"command": "touch up; sleep 5"}"#,
    );
    until("it runs", || {
        let list = bed.ask("GET", "/files/list?path=/workspace", &Value::Null);
        list.body.contains("up").then_some(())
    });
    serve.signal(Signal::TERM);
    // They have ended while a call that may finish still runs.
    assert!(!rest_of(stream).ends_with("0\r\n\r\n"));
    assert!(socket.rest().is_empty());
    let mut busy = busy;
    let mut answer = String::new();
    busy.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut serve = serve;
    assert_eq!(serve.wait().code(), Some(0));
}
