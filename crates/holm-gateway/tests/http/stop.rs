//! The way down: no new work, running calls finish or are told, nothing is left.

use std::time::Duration;

use serde_json::json;

use crate::client::{assert_matches, run};
use crate::site::{Site, borrowed, command_call, modern, request};

const EVENTS: (&str, &str) = ("accept", "application/json, text/event-stream");

#[test]
fn running_calls_finish_and_new_work_is_refused() {
    run(async {
        let mut site = Site::new().await;
        let session = site.session().await;
        let mut running = site.running(&session, 1, "gate").await;
        // A connection that is busy sending its request when the stop comes.
        let mut late = site.wire().await;
        let body = request(2, "ping", json!({})).to_string();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\nmcp-session-id: {session}\r\n\
             content-length: {}\r\nexpect: 100-continue\r\n\r\n",
            body.len()
        );
        late.raw(head.as_bytes()).await;
        assert_eq!(late.head().await.map(|reply| reply.status), Some(100));
        site.stop();
        // The listener is gone as soon as connections are refused.
        while tokio::net::TcpStream::connect(site.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        late.raw(body.as_bytes()).await;
        let refused = late.reply().await;
        assert_eq!(refused.status, 503);
        assert_matches(&refused.json(), json!({"id": 2, "error": {"code": -32000}}));
        site.world.gate.send_replace(true);
        let answer = running.reply().await;
        assert_eq!(answer.header("connection"), Some("close"));
        assert_matches(&answer.json(), json!({"id": 1, "result": {"isError": false}}));
        site.ended().await;
    });
}

#[test]
fn what_does_not_finish_is_told() {
    run(async {
        let mut site =
            Site::with(|setup| setup.limits.stop_grace = Duration::from_millis(50)).await;
        let session = site.session().await;
        let created = site.tool(&session, "create_sandbox", json!({})).await;
        let id = ("mcp-session-id", session.as_str());
        let mut plain = site.running(&session, 1, "hang").await;
        let mut asks = command_call(2, "hang");
        asks["params"]["_meta"] = json!({"progressToken": 1});
        let mut stream = site.running_with(&[id, EVENTS], asks).await;
        let arguments = json!({"command": "hang", "sandbox_id": created["sandbox_id"]});
        let params = json!({"name": "run_command", "arguments": arguments});
        let (headers, body) = modern(3, "tools/call", params);
        let mut stateless = site.running_with(&borrowed(&headers), body).await;
        site.stop();
        let told = |id: i64| {
            let error = json!({"error": {"code": "unavailable"}});
            json!({"id": id, "result": {"isError": true, "structuredContent": error}})
        };
        assert_matches(&plain.reply().await.json(), told(1));
        stream.head().await.expect("a response");
        assert_matches(&stream.event().await.expect("an answer"), told(2));
        assert_matches(&stateless.reply().await.json(), told(3));
        site.ended().await;
    });
}

#[test]
fn idle_connections_do_not_hold_the_stop_up() {
    run(async {
        let mut site = Site::new().await;
        let session = site.session().await;
        site.tool(&session, "create_sandbox", json!({})).await;
        let mut kept = site.wire().await;
        kept.send("GET", "/health", &[], b"").await;
        kept.reply().await;
        let mut fresh = site.wire().await;
        let mut half = site.wire().await;
        half.raw(b"POST /mcp HTTP/1.1\r\n").await;
        site.stop();
        assert!(kept.is_closed().await);
        assert!(fresh.is_closed().await);
        while half.head().await.is_some() {}
        site.ended().await;
    });
}
