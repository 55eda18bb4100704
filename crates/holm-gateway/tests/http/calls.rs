//! Calls side by side: progress, cancellation, clients that go away, panics.

use std::sync::Arc;
use std::time::Duration;

use holm_gateway::mcp::Server;
use serde_json::{Value, json};

use crate::client::{assert_matches, run};
use crate::site::{Setup, Site, borrowed, broken_tool, call, command_call, modern, request};
use crate::world::reaches;

const EVENTS: (&str, &str) = ("accept", "application/json, text/event-stream");

fn frequent_progress(setup: &mut Setup) {
    setup.server = Server::new().progress_every(Duration::from_millis(5));
}

fn with_token(mut call: Value, token: Value) -> Value {
    call["params"]["_meta"] = json!({"progressToken": token});
    call
}

async fn cancel(site: &Site, session: &str, id: Value) {
    let params = json!({"requestId": id});
    let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let reply = site.post(&[("mcp-session-id", session)], body).await;
    assert_eq!(reply.status, 202);
}

#[test]
fn case_81_others_are_answered_while_a_call_runs() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        let mut wire = site.running(&session, 1, "gate").await;
        let headers = [("mcp-session-id", session.as_str())];
        for method in ["ping", "tools/list"] {
            assert_eq!(site.post(&headers, request(2, method, json!({}))).await.status, 200);
        }
        let answer = site.tool(&session, "run_command", json!({"command": "echo two"})).await;
        assert_eq!(answer["stdout"], "two\n");
        site.world.gate.send_replace(true);
        assert_matches(&wire.reply().await.json(), json!({"id": 1, "result": {"isError": false}}));
    });
}

#[test]
fn case_87_progress_comes_to_those_who_ask_and_read_events() {
    run(async {
        let site = Site::with(frequent_progress).await;
        let session = site.session().await;
        let headers = [("mcp-session-id", session.as_str()), EVENTS];
        let body = with_token(command_call(1, "gate"), json!("t"));
        let mut wire = site.running_with(&headers, body).await;
        let head = wire.head().await.expect("a response");
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        assert_eq!(head.header("x-accel-buffering"), Some("no"));
        assert_eq!(head.header("mcp-session-id"), Some(session.as_str()));
        let mut last = 0.0;
        for _ in 0..3 {
            let event = wire.event().await.expect("an event");
            let expected =
                json!({"method": "notifications/progress", "params": {"progressToken": "t"}});
            assert_matches(&event, expected);
            let progress = event["params"]["progress"].as_f64().expect("a number");
            assert!(progress > last, "{progress} after {last}");
            last = progress;
        }
        site.world.gate.send_replace(true);
        let answer = loop {
            let event = wire.event().await.expect("an answer");
            if event["method"].is_null() {
                break event;
            }
        };
        assert_matches(&answer, json!({"id": 1, "result": {"isError": false}}));
        assert_eq!(wire.event().await, None, "nothing after the answer");
    });
}

#[test]
fn case_87_nobody_else_gets_a_stream() {
    run(async {
        let site = Site::with(frequent_progress).await;
        let session = site.session().await;
        let id = ("mcp-session-id", session.as_str());
        let asks = with_token(command_call(1, "echo on"), json!(7));
        for (headers, body) in [
            (vec![id, EVENTS], command_call(1, "echo on")),
            (vec![id], asks.clone()),
            (vec![id, ("accept", "*/*")], asks.clone()),
            (vec![id, ("accept", "application/json")], asks),
        ] {
            let reply = site.post(&headers, body).await;
            assert_eq!(reply.header("content-type"), Some("application/json"), "{headers:?}");
            assert_matches(&reply.json(), json!({"id": 1, "result": {"isError": false}}));
        }
    });
}

#[test]
fn case_82_cancelling_stops_the_work_and_frees_the_id() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        let mut wire = site.running(&session, 1, "hang").await;
        cancel(&site, &session, json!(1)).await;
        reaches(&site.world.running, 0).await;
        let reply = wire.reply().await;
        assert_eq!((reply.status, reply.body.len()), (202, 0), "nothing is said about it");
        for id in [json!(1), json!("1"), json!(77), json!(null), json!({})] {
            cancel(&site, &session, id).await;
        }
        let reply = site.post(&[("mcp-session-id", &session)], command_call(1, "echo on")).await;
        assert_matches(&reply.json(), json!({"id": 1, "result": {"isError": false}}));
    });
}

#[test]
fn case_82_a_cancelled_stream_ends_without_an_answer() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        let headers = [("mcp-session-id", session.as_str()), EVENTS];
        let mut wire =
            site.running_with(&headers, with_token(command_call(1, "hang"), json!(1))).await;
        cancel(&site, &session, json!(1)).await;
        reaches(&site.world.running, 0).await;
        wire.head().await.expect("a response");
        assert_eq!(wire.event().await, None);
    });
}

#[test]
fn only_the_own_session_can_cancel() {
    run(async {
        let site = Site::new().await;
        let (one, two) = (site.session().await, site.session().await);
        let mut first = site.running(&one, 1, "gate").await;
        let mut second = site.running(&two, 1, "hang").await;
        cancel(&site, &two, json!(1)).await;
        second.reply().await;
        site.world.gate.send_replace(true);
        assert_matches(&first.reply().await.json(), json!({"id": 1, "result": {"isError": false}}));
    });
}

#[test]
fn closing_the_connection_stops_the_work() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        let id = ("mcp-session-id", session.as_str());
        let call = json!({"name": "run_command", "arguments": {"command": "hang"}});
        let created = site.tool(&session, "create_sandbox", json!({})).await;
        let mut stateless = call.clone();
        stateless["arguments"]["sandbox_id"] = created["sandbox_id"].clone();
        let (headers, stateless) = modern(1, "tools/call", stateless);
        for (headers, body) in [
            (vec![id], command_call(1, "hang")),
            (vec![id, EVENTS], with_token(command_call(1, "hang"), json!(1))),
            (borrowed(&headers), stateless),
        ] {
            let wire = site.running_with(&headers, body).await;
            drop(wire);
            reaches(&site.world.running, 0).await;
        }
        assert_eq!(*site.world.alive.borrow(), 1, "the sandbox stays");
    });
}

#[test]
fn case_58_a_create_whose_caller_went_away_leaves_nothing() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        site.world.may_create.send_replace(false);
        let headers = [("mcp-session-id", session.as_str())];
        let body = call(1, "create_sandbox", json!({})).to_string();
        let wire = site.sent("POST", "/mcp", &headers, body.as_bytes()).await;
        reaches(&site.world.creating, 1).await;
        drop(wire);
        reaches(&site.world.creating, 0).await;
        site.world.may_create.send_replace(true);
        let listed = site.tool(&session, "list_sandboxes", json!({})).await;
        assert_eq!(listed, json!({"sandboxes": []}));
    });
}

#[test]
fn case_79_an_id_in_flight_is_not_taken_twice() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        let mut wire = site.running(&session, 1, "gate").await;
        let headers = [("mcp-session-id", session.as_str())];
        let reply = site.post(&headers, command_call(1, "echo on")).await;
        assert_eq!(reply.status, 400);
        assert_matches(&reply.json(), json!({"id": null, "error": {"code": -32600}}));
        let reply = site.post(&headers, command_call("1", "echo on")).await;
        assert_matches(&reply.json(), json!({"id": "1", "result": {"isError": false}}));
        site.world.gate.send_replace(true);
        wire.reply().await;
    });
}

#[test]
fn case_91_a_panic_costs_its_own_call_only() {
    run(async {
        let site = Site::with(|setup| {
            setup.server =
                Server::with_tools(vec![broken_tool()]).progress_every(Duration::from_secs(1));
        })
        .await;
        let session = site.session().await;
        let headers = [("mcp-session-id", session.as_str()), EVENTS];
        let reply = site.post(&headers, call(1, "broken", json!({}))).await;
        assert_matches(&reply.json(), json!({"id": 1, "error": {"code": -32603}}));
        let body = with_token(call(2, "broken", json!({})), json!(1)).to_string();
        let mut wire = site.sent("POST", "/mcp", &headers, body.as_bytes()).await;
        wire.head().await.expect("a response");
        let event = wire.event().await.expect("an answer");
        assert_matches(&event, json!({"id": 2, "error": {"code": -32603}}));
        assert_eq!(site.post(&headers, request(3, "ping", json!({}))).await.status, 200);
    });
}

#[test]
fn case_81_twenty_calls_at_once_share_one_creation() {
    run(async {
        let site = Arc::new(Site::new().await);
        let session = site.session().await;
        let calls: Vec<_> = (0..20)
            .map(|id| {
                let (site, session) = (Arc::clone(&site), session.clone());
                tokio::spawn(async move {
                    let command = format!("bytes {}", 200_000 + id);
                    let reply = site
                        .post(&[("mcp-session-id", &session)], command_call(id, &command))
                        .await;
                    let bytes = json!({"stdout_bytes": 200_000 + id});
                    assert_matches(
                        &reply.json(),
                        json!({"id": id, "result": {"structuredContent": bytes}}),
                    );
                })
            })
            .collect();
        for call in calls {
            call.await.expect("no panic");
        }
        assert_eq!(*site.world.alive.borrow(), 1);
    });
}
