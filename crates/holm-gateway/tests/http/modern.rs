//! Requests that stand for themselves: no session, no default sandbox, headers that agree.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{assert_matches, run};
use crate::site::{Headers, Site, borrowed, modern, request};
use crate::world::reaches;

async fn ask(site: &Site, method: &str, params: Value) -> crate::wire::Reply {
    let (headers, body) = modern(1, method, params);
    site.post(&borrowed(&headers), body).await
}

async fn tool(site: &Site, name: &str, arguments: Value) -> Value {
    let reply = ask(site, "tools/call", json!({"name": name, "arguments": arguments})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("mcp-session-id"), None);
    reply.json()["result"].take()
}

#[test]
fn discovery_and_lists() {
    run(async {
        let site = Site::new().await;
        let found = ask(&site, "server/discover", json!({})).await;
        assert_eq!(found.status, 200);
        let server = json!({"io.modelcontextprotocol/serverInfo": {"name": "holm"}});
        assert_matches(
            &found.json()["result"],
            json!({
                "supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
                "resultType": "complete", "cacheScope": "public", "_meta": server,
            }),
        );
        let listed = ask(&site, "tools/list", json!({})).await.json();
        assert_eq!(listed["result"]["tools"].as_array().expect("tools").len(), 25);
        assert_eq!(listed["result"]["resultType"], "complete");
    });
}

#[test]
fn errors_show_in_the_status() {
    run(async {
        let site = Site::new().await;
        let check = async |method: &str, params: Value, status: u16, code: i64| {
            let reply = ask(&site, method, params).await;
            assert_eq!(reply.status, status, "{method} {reply:?}");
            assert_matches(&reply.json(), json!({"id": 1, "error": {"code": code}}));
        };
        check("nothing", json!({}), 404, -32601).await;
        check("ping", json!({}), 404, -32601).await;
        check("initialize", json!({}), 404, -32601).await;
        check("resources/read", json!({"uri": "x"}), 400, -32020).await;
        check("tools/call", json!({"name": "nothing"}), 400, -32602).await;
        check("subscriptions/listen", json!({}), 400, -32602).await;
    });
}

#[test]
fn what_a_request_must_say_about_itself() {
    run(async {
        let site = Site::new().await;
        const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
        let check = async |change: fn(&mut Headers, &mut Value), code: i64| {
            let (mut headers, mut body) = modern(1, "tools/list", json!({}));
            change(&mut headers, &mut body);
            let reply = site.post(&borrowed(&headers), body).await;
            assert_eq!(reply.status, 400, "{reply:?}");
            assert_matches(&reply.json(), json!({"id": 1, "error": {"code": code}}));
        };
        check(|_, body| body["params"] = json!({}), -32602).await;
        check(|_, body| body["params"]["_meta"] = json!({VERSION: "2026-07-28"}), -32602).await;
        check(
            |headers, body| {
                headers[0].1 = "2099-01-01".to_owned();
                body["params"]["_meta"][VERSION] = json!("2099-01-01");
            },
            -32022,
        )
        .await;
        check(|_, body| body["params"]["_meta"][VERSION] = json!("2099-01-01"), -32020).await;
        check(|headers, _| headers[0].1 = "2025-11-25".to_owned(), -32020).await;
        check(|headers, _| drop(headers.remove(0)), -32020).await;
        check(|headers, _| headers[1].1 = "TOOLS/LIST".to_owned(), -32020).await;
        check(|headers, _| drop(headers.remove(1)), -32020).await;
    });
}

#[test]
fn sandboxes_are_named_in_every_call_and_outlive_it() {
    run(async {
        let site = Site::new().await;
        let created = tool(&site, "create_sandbox", json!({})).await;
        let id = created["structuredContent"]["sandbox_id"].clone();
        let ran = tool(&site, "run_command", json!({"command": "echo on", "sandbox_id": id})).await;
        assert_matches(
            &ran,
            json!({"resultType": "complete", "structuredContent": {"stdout": "on\n"}}),
        );
        for (name, arguments) in [
            ("run_command", json!({"command": "echo on"})),
            ("write_file", json!({"path": "a", "content": "b"})),
            ("read_file", json!({"path": "a"})),
            ("list_files", json!({})),
            ("get_sandbox", json!({})),
            ("extend_sandbox", json!({"additional_minutes": 5})),
            ("set_network", json!({"network": "none"})),
            ("destroy_sandbox", json!({})),
        ] {
            let refused = tool(&site, name, arguments).await;
            let error =
                json!({"error": {"code": "sandbox_required", "suggestion": "*create_sandbox*"}});
            assert_matches(&refused, json!({"isError": true, "structuredContent": error}));
        }
        assert_eq!(*site.world.alive.borrow(), 1);
        tool(&site, "destroy_sandbox", json!({"sandbox_id": id})).await;
        assert_eq!(*site.world.alive.borrow(), 0);
    });
}

#[test]
fn run_code_without_a_sandbox_gets_one_for_the_call() {
    run(async {
        let site = Site::new().await;
        let ran = tool(&site, "run_code", json!({"code": "print(1)"})).await;
        assert_matches(
            &ran,
            json!({"isError": false, "structuredContent": {"stdout": "print(1)"}}),
        );
        reaches(&site.world.alive, 0).await;
        // Also when nobody waits for the end.
        let code = json!({"name": "run_code", "arguments": {"code": "hang", "language": "bash"}});
        let (headers, body) = modern(2, "tools/call", code);
        site.world.may_create.send_replace(false);
        let wire =
            site.sent("POST", "/mcp", &borrowed(&headers), body.to_string().as_bytes()).await;
        reaches(&site.world.creating, 1).await;
        drop(wire);
        reaches(&site.world.creating, 0).await;
        assert_eq!(*site.world.alive.borrow(), 0);
    });
}

#[test]
fn case_84_a_session_header_means_nothing() {
    run(async {
        let site = Site::new().await;
        let (mut headers, body) = modern(1, "tools/list", json!({}));
        headers.push(("mcp-session-id".to_owned(), "never-was".to_owned()));
        let reply = site.post(&borrowed(&headers), body).await;
        assert_eq!((reply.status, reply.header("mcp-session-id")), (200, None));
        let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}});
        assert_eq!(site.post(&[("mcp-protocol-version", "2026-07-28")], body).await.status, 202);
    });
}

#[test]
fn both_eras_are_served_side_by_side() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        let created = site.tool(&session, "create_sandbox", json!({})).await;
        let arguments = json!({"command": "echo on", "sandbox_id": created["sandbox_id"]});
        let ran = tool(&site, "run_command", arguments).await;
        assert_eq!(ran["structuredContent"]["stdout"], "on\n");
        let reply = site.post(&[("mcp-session-id", &session)], request(2, "ping", json!({}))).await;
        assert_eq!(reply.status, 200);
    });
}

#[test]
fn case_87_a_silent_stream_says_that_it_lives() {
    run(async {
        let site = Site::with(|setup| setup.keep_alive = Duration::from_millis(5)).await;
        let (headers, body) = modern(9, "subscriptions/listen", json!({"notifications": {}}));
        let mut wire =
            site.sent("POST", "/mcp", &borrowed(&headers), body.to_string().as_bytes()).await;
        wire.head().await.expect("a response");
        wire.event().await.expect("the acknowledgement");
        assert_eq!(wire.comment().await, wire.comment().await);
    });
}

#[test]
fn a_subscription_is_acknowledged_and_ended_by_the_stop() {
    run(async {
        let mut site = Site::new().await;
        let params = json!({"notifications": {"toolsListChanged": true}});
        let (headers, body) = modern(9, "subscriptions/listen", params);
        let mut wire =
            site.sent("POST", "/mcp", &borrowed(&headers), body.to_string().as_bytes()).await;
        let head = wire.head().await.expect("a response");
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        let subscription = json!({"io.modelcontextprotocol/subscriptionId": 9});
        let first = wire.event().await.expect("an event");
        assert_matches(
            &first,
            json!({
                "method": "notifications/subscriptions/acknowledged",
                "params": {"_meta": subscription, "notifications": {}},
            }),
        );
        // It does not hold the stop up: the grace is for work.
        site.stop();
        let last = wire.event().await.expect("an end");
        assert_matches(&last, json!({"id": 9, "result": {"_meta": subscription}}));
        assert_eq!(wire.event().await, None);
        site.ended().await;
    });
}
