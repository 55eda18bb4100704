//! Keys that stop working while something runs with them.

use std::time::Duration;

use holm_gateway::mcp::Server;
use serde_json::json;

use crate::client::{assert_matches, run};
use crate::site::{Site, borrowed, command_call, modern, request, with_keys};
use crate::world::reaches;

const EVENTS: (&str, &str) = ("accept", "application/json, text/event-stream");

#[test]
fn case_73_a_revoked_key_is_refused_at_the_next_request_of_its_session() {
    run(async {
        let site = Site::with(with_keys).await;
        let (id, key) = site.key().await;
        let headers = [("x-api-key", key.as_str())];
        let session = site.session_of(&headers, "2025-11-25").await;
        let headers = [("x-api-key", key.as_str()), ("mcp-session-id", session.as_str())];
        assert_eq!(site.post(&headers, request(1, "ping", json!({}))).await.status, 200);
        site.engine.key_revoke(id).await.expect("revoked");
        let (modern_headers, body) = modern(3, "tools/list", json!({}));
        let mut with_key = borrowed(&modern_headers);
        with_key.push(("x-api-key", key.as_str()));
        for reply in [
            site.post(&headers, request(2, "ping", json!({}))).await,
            site.ask("DELETE", "/mcp", &headers, b"").await,
            site.post(&with_key, body).await,
        ] {
            assert_eq!(reply.status, 401, "{reply:?}");
            let error = json!({"code": -32001, "message": "*revoked*"});
            assert_matches(&reply.json(), json!({"error": error}));
            assert!(!String::from_utf8_lossy(&reply.body).contains(&key));
        }
    });
}

#[test]
fn case_73_what_runs_with_a_revoked_key_ends() {
    run(async {
        let site = Site::with(|setup| {
            with_keys(setup);
            setup.server = Server::new().progress_every(Duration::from_millis(5));
        })
        .await;
        let (key_id, key) = site.key().await;
        let (_, other) = site.key().await;
        let credential = ("x-api-key", key.as_str());
        let session = site.session_of(&[credential], "2025-11-25").await;
        let id = ("mcp-session-id", session.as_str());
        // In a session, as JSON and as a stream; for itself; over REST; and a subscription.
        let mut plain = site.running_with(&[credential, id], command_call(1, "hang")).await;
        let mut asks = command_call(2, "hang");
        asks["params"]["_meta"] = json!({"progressToken": 1});
        let mut stream = site.running_with(&[credential, id, EVENTS], asks).await;
        assert_eq!(stream.head().await.map(|head| head.status), Some(200));
        let made = site.rest("POST", "/v1/sandboxes", &key, json!({})).await.json();
        let sandbox = made["id"].as_str().expect("an id").to_owned();
        let arguments = json!({"command": "hang", "sandbox_id": sandbox});
        let params = json!({"name": "run_command", "arguments": arguments});
        let (headers, body) = modern(3, "tools/call", params);
        let mut headers = borrowed(&headers);
        headers.push(credential);
        let mut stateless = site.running_with(&headers, body).await;
        let path = format!("/v1/sandboxes/{sandbox}/exec");
        let hang = json!({"command": "hang"}).to_string();
        let mut rest = site.sent("POST", &path, &[credential], hang.as_bytes()).await;
        reaches(&site.world.running, 4).await;
        let (headers, body) = modern(9, "subscriptions/listen", json!({"notifications": {}}));
        let mut headers = borrowed(&headers);
        headers.push(credential);
        let body = body.to_string();
        let mut listening = site.sent("POST", "/mcp", &headers, body.as_bytes()).await;
        assert_eq!(listening.head().await.map(|head| head.status), Some(200));
        assert!(listening.event().await.is_some(), "acknowledged");
        // Of somebody else, which goes on.
        let theirs = ("x-api-key", other.as_str());
        let their_session = site.session_of(&[theirs], "2025-11-25").await;
        let headers = [theirs, ("mcp-session-id", their_session.as_str())];
        let mut going_on = site.running_with(&headers, command_call(1, "gate")).await;

        site.engine.key_revoke(key_id).await.expect("revoked");
        let told = |id: i64| {
            let error = json!({"error": {"code": "unauthorized", "message": "*revoked*"}});
            json!({"id": id, "result": {"isError": true, "structuredContent": error}})
        };
        assert_matches(&plain.reply().await.json(), told(1));
        assert_matches(&stateless.reply().await.json(), told(3));
        let last = loop {
            let event = stream.event().await.expect("an answer");
            if event["method"].is_null() {
                break event;
            }
        };
        assert_matches(&last, told(2));
        assert_eq!(stream.event().await, None);
        assert_eq!(listening.event().await, None);
        let refused = rest.reply().await;
        assert_eq!(refused.status, 401, "{refused:?}");
        assert_matches(
            &refused.json(),
            json!({"error": {"type": "unauthorized", "message": "*revoked*"}}),
        );
        reaches(&site.world.running, 1).await;
        site.world.gate.send_replace(true);
        assert_matches(
            &going_on.reply().await.json(),
            json!({"id": 1, "result": {"isError": false}}),
        );
    });
}
