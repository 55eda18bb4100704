//! MCP over HTTP, and REST beside it: calls side by side, calls that are cancelled.

use std::net::TcpStream;
use std::time::Duration;

use crate::common::{
    Client, Home, Value, as_root, as_rootless, at_once, fresh_id, json, receive, until,
};

as_root!(
    case_58_cancelled_creates_leave_nothing_over_http,
    case_60_destroying_twice_over_http,
    case_81_others_are_answered_while_calls_run_on_both_faces,
);
as_rootless!(case_81_others_are_answered_while_calls_run_on_both_faces);

fn listed(client: &Client, session: &str) -> Vec<String> {
    let listed = client.call(session, "list_sandboxes", json!({}));
    let rows = listed.ok()["sandboxes"].as_array().expect("a list").clone();
    rows.iter().map(|row| row["sandbox_id"].as_str().expect("an id").to_owned()).collect()
}

fn cancel(client: &Client, session: &str, id: u64) {
    let params = json!({"requestId": id});
    let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    assert_eq!(client.post(&[("mcp-session-id", session)], &body).status, 202);
}

/// Waits for an answer, for so long.
fn waits(stream: &TcpStream, patience: Duration) -> bool {
    stream.set_read_timeout(Some(patience)).expect("a time");
    let came = matches!(stream.peek(&mut [0]), Ok(1));
    stream.set_read_timeout(Some(crate::common::GUARD)).expect("a time");
    came
}

fn case_58_cancelled_creates_leave_nothing_over_http(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sessions: Vec<String> = (0..4).map(|_| serve.session()).collect();
    let answered: usize = at_once(4, |n| {
        let session = &sessions[n];
        let mut answered = 0;
        for n in 0..50 {
            let id = fresh_id();
            let stream = serve.start_with(session, id, "create_sandbox", json!({}));
            waits(&stream, Duration::from_millis([10, 50, 200][n % 3]));
            cancel(&serve, session, id);
            let answer = receive(stream);
            if answer.status == 202 {
                assert_eq!(answer.body, "", "nothing is said about what was cancelled");
                continue;
            }
            let made = answer.tool().ok()["sandbox_id"].clone();
            serve.call(session, "destroy_sandbox", json!({"sandbox_id": made})).ok();
            answered += 1;
        }
        answered
    })
    .into_iter()
    .sum();
    println!("{answered} of 200 were answered in time");
    let session = &sessions[0];
    until("nothing is listed", || listed(&serve, session).is_empty().then_some(()));
    until("nothing is on the host", || home.recorded().is_empty().then_some(()));
    // All of the quota is free again.
    let create = |_| serve.call(session, "create_sandbox", json!({}));
    assert!(at_once(20, create).iter().all(|made| !made.is_error()));
    assert_eq!(create(0).code(), "quota_exceeded");
    serve.end();
}

fn case_60_destroying_twice_over_http(home: &Home) {
    let serve = home.serve(&[], &[]);
    let session = serve.session();
    let made = serve.call(&session, "create_sandbox", json!({}));
    let id = made.ok()["sandbox_id"].clone();
    let replies = at_once(20, |n| {
        let tool = if n % 2 == 0 { "destroy_sandbox" } else { "kill_sandbox" };
        serve.call(&session, tool, json!({"sandbox_id": id}))
    });
    let mut done = 0;
    for reply in replies {
        match reply.is_error() {
            true => assert_eq!(reply.code(), "sandbox_gone", "{}", reply.text()),
            false => done += usize::from(reply.data()["status"] == "deleted"),
        }
    }
    assert!(done >= 1, "nobody destroyed it");
    assert!(home.recorded().is_empty() && listed(&serve, &session).is_empty());
    for unknown in ["sbx_0123456789abcdef01", "nonsense", "../../etc", ""] {
        let reply = serve.call(&session, "destroy_sandbox", json!({"sandbox_id": unknown}));
        let code = reply.code();
        assert!(code == "not_found" || code == "invalid_argument", "{unknown:?}: {code}");
    }
    serve.end();
}

fn case_81_others_are_answered_while_calls_run_on_both_faces(home: &Home) {
    let serve = home.serve(&[], &[]);
    let session = serve.session();
    let made = serve.call(&session, "create_sandbox", json!({}));
    let id = made.ok()["sandbox_id"].as_str().expect("an id").to_owned();
    let exec = format!("/v1/sandboxes/{id}/exec");
    let wait = "touch up; until test -e go; do sleep 0.02; done; echo done";
    let long = json!({"command": wait, "timeout_ms": 600_000, "sandbox_id": id});
    let mut over_rest = long.clone();
    over_rest.as_object_mut().expect("an object").remove("sandbox_id");
    let kind = [("content-type", "application/json")];
    // Ten on each face, in one sandbox and one session, all held.
    let called: Vec<_> =
        (0..10).map(|_| serve.start(&session, "run_command", long.clone())).collect();
    let asked: Vec<_> =
        (0..10).map(|_| serve.send("POST", &exec, &kind, &over_rest.to_string())).collect();
    until("they run", || {
        let read = serve.call(&session, "read_file", json!({"path": "up", "sandbox_id": id}));
        (!read.is_error()).then_some(())
    });
    // All of these are answered before any of those can be.
    for method in ["ping", "tools/list"] {
        let body = json!({"jsonrpc": "2.0", "id": fresh_id(), "method": method});
        let answer = serve.post(&[("mcp-session-id", &session)], &body);
        assert!(answer.json()["result"].is_object(), "{method}: {answer:?}");
    }
    for path in ["/health", "/v1/service-info", "/v1/usage", "/v1/sandboxes"] {
        assert_eq!(serve.ask("GET", path, &[], "").status, 200, "{path}");
    }
    at_once(20, |n| {
        let command = json!({"command": format!("echo {n}"), "sandbox_id": id});
        let said = match n % 2 {
            0 => serve.call(&session, "run_command", command).run().stdout,
            _ => {
                let command = json!({"command": format!("echo {n}")});
                let ran: Value = serve.rest("POST", &exec, &command).json();
                ran["stdout"].as_str().expect("text").to_owned()
            }
        };
        assert_eq!(said, format!("{n}\n"), "results are never mixed");
    });
    for stream in called.iter().chain(&asked) {
        assert!(!waits(stream, Duration::from_millis(1)), "one was answered before its end");
    }
    serve
        .call(&session, "run_command", json!({"command": "touch go", "sandbox_id": id}))
        .run()
        .good();
    for stream in called {
        assert_eq!(receive(stream).tool().run().good(), "done");
    }
    for stream in asked {
        assert_eq!(receive(stream).json()["stdout"], "done\n");
    }
    serve.end();
}
