//! Paths, methods, envelopes, and the calls that the documentation prints.

use serde_json::{Value, json};

use crate::client::{assert_matches, run};
use crate::site::{Site, call, request};

/// Status and body of a request that needs nothing.
async fn check(site: &Site, method: &str, path: &str, status: u16, body: Value) {
    let reply = site.ask(method, path, &[], b"").await;
    assert_eq!(reply.status, status, "{method} {path}: {reply:?}");
    if !body.is_null() {
        assert_matches(&reply.json(), body);
    }
}

#[test]
fn paths_and_methods() {
    run(async {
        let site = Site::new().await;
        let healthy = json!({"status": "ok", "protocol": "2025-06-18"});
        check(&site, "GET", "/health", 200, healthy).await;
        check(&site, "GET", "/ready", 200, json!({"status": "ready"})).await;
        check(&site, "POST", "/health", 405, json!(null)).await;
        check(&site, "GET", "/mcp", 405, json!({"error": "*"})).await;
        check(&site, "GET", "/v1/mcp", 405, json!({"error": "*"})).await;
        check(&site, "PUT", "/mcp", 405, json!({"error": "*"})).await;
        check(&site, "OPTIONS", "/mcp", 405, json!({"error": "*"})).await;
        check(&site, "GET", "/", 404, json!(null)).await;
        check(&site, "POST", "/mcp/", 404, json!(null)).await;
        check(&site, "GET", "/v2/sandboxes", 404, json!(null)).await;
        for path in [
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-protected-resource/mcp",
            "/.well-known/oauth-authorization-server",
            "/.well-known/openid-configuration",
        ] {
            let reply = site.ask("GET", path, &[], b"").await;
            assert_eq!(reply.status, 404, "{path}");
            assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
        }
        let reply = site.ask("GET", "/mcp", &[], b"").await;
        assert_eq!(reply.header("allow"), Some("POST, DELETE"));
    });
}

#[test]
fn the_cards_say_what_is_here() {
    run(async {
        let site = Site::new().await;
        let host = [("host", "localhost:9000")];
        let card = site.ask("GET", "/.well-known/mcp/server-card.json", &host, b"").await.json();
        assert_matches(
            &card,
            json!({
                "serverInfo": {"name": "holm"},
                "transport": {"type": "streamable-http", "url": "http://localhost:9000/mcp"},
                "authentication": {"required": false},
                "configSchema": {
                    "properties": {"apiKey": {
                        "x-from": {"header": "x-api-key"}, "x-to": {"header": "x-api-key"},
                    }},
                    "required": [],
                },
            }),
        );
        assert_eq!(card["tools"].as_array().expect("tools").len(), 25);
        for (path, url) in
            [("/mcp", "http://localhost:9000/mcp"), ("/v1/mcp", "http://localhost:9000/v1/mcp")]
        {
            let card = site.ask("GET", &format!("{path}/server-card"), &host, b"").await.json();
            let remote = json!({"type": "streamable-http", "url": url});
            assert_matches(&card, json!({"name": "localhost/holm", "remotes": [remote]}));
        }
    });
}

#[test]
fn the_documented_calls_without_an_accept_header() {
    run(async {
        let site = Site::new().await;
        let headers =
            [("authorization", "Bearer replace_me"), ("content-type", "application/json")];
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        let reply = site.post(&headers, body).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
        assert_matches(
            &reply.json(),
            json!({"id": 1, "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}}),
        );
        let session = reply.header("mcp-session-id").expect("a session").to_owned();
        assert_eq!(session.len(), 36);
        let with_session = [headers[0], headers[1], ("Mcp-Session-Id", session.as_str())];
        let body = call(2, "run_code", json!({"code": "print(1+1)"}));
        let reply = site.post(&with_session, body).await;
        assert_eq!(reply.header("mcp-session-id"), Some(session.as_str()));
        assert_matches(&reply.json(), json!({"id": 2, "result": {"isError": false}}));
        assert_eq!(*site.world.alive.borrow(), 1);
        let reply = site.ask("DELETE", "/mcp", &with_session, b"").await;
        assert_eq!((reply.status, reply.json()), (200, json!({"status": "session_terminated"})));
        assert_eq!(*site.world.alive.borrow(), 0);
    });
}

#[test]
fn notifications_and_stray_responses_get_202() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        for body in [
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "method": "notifications/unknown", "params": {"a": 1}}),
            json!({"jsonrpc": "2.0", "id": 9, "result": {}}),
            json!({"jsonrpc": "2.0", "id": 9, "error": {"code": 1, "message": "x"}}),
        ] {
            let reply = site.post(&[("mcp-session-id", &session)], body).await;
            assert_eq!((reply.status, reply.body.len()), (202, 0), "{reply:?}");
            assert_eq!(reply.header("mcp-session-id"), Some(session.as_str()));
        }
    });
}

#[test]
fn case_78_and_79_broken_envelopes_are_400() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        let check = async |body: &[u8], code: i64, id: Value| {
            let headers = [("mcp-session-id", session.as_str())];
            let reply = site.ask("POST", "/mcp", &headers, body).await;
            assert_eq!(reply.status, 400, "{reply:?}");
            let expected = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code}});
            assert_matches(&reply.json(), expected);
        };
        check(b"not json", -32700, json!(null)).await;
        check(b"", -32700, json!(null)).await;
        check(b"\xff", -32700, json!(null)).await;
        check(&vec![b' '; 1 << 20], -32700, json!(null)).await;
        check("[".repeat(100_000).as_bytes(), -32700, json!(null)).await;
        check(b"{}", -32600, json!(null)).await;
        check(b"7", -32600, json!(null)).await;
        check(br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, json!(null)).await;
        check(br#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, -32600, json!(null)).await;
        check(br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, json!(null)).await;
        check(br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600, json!(1)).await;
        check(br#"{"jsonrpc":"2.0","id":1,"method":[]}"#, -32600, json!(1)).await;
        check(br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#, -32600, json!(1)).await;
        check(b"[]", -32600, json!(null)).await;
        check(br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, json!(null)).await;
        let headers = [("mcp-session-id", session.as_str())];
        let body = b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}";
        let reply = site.ask("POST", "/mcp", &headers, body).await;
        assert_eq!(
            (reply.status, reply.json()),
            (200, json!({"jsonrpc": "2.0", "id": 1, "result": {}}))
        );
    });
}

#[test]
fn case_80_unknown_tools_and_methods_are_errors_and_bad_arguments_are_results() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        let check = async |body: Value, expected: Value| {
            let reply = site.post(&[("mcp-session-id", session.as_str())], body).await;
            assert_eq!(reply.status, 200, "{reply:?}");
            assert_matches(&reply.json(), expected);
        };
        check(call(1, "nothing", json!({})), json!({"id": 1, "error": {"code": -32602}})).await;
        check(request(1, "nothing", json!({})), json!({"id": 1, "error": {"code": -32601}})).await;
        check(request(1, "tools/call", json!({})), json!({"id": 1, "error": {"code": -32602}}))
            .await;
        check(call(1, "run_command", json!({})), json!({"id": 1, "result": {"isError": true}}))
            .await;
        check(call(1, "run_command", json!([1])), json!({"id": 1, "result": {"isError": true}}))
            .await;
        check(request(1, "resources/read", json!({})), json!({"error": {"code": -32601}})).await;
        check(request(1, "prompts/list", json!({})), json!({"result": {"prompts": []}})).await;
    });
}

#[test]
fn batches_belong_to_one_revision() {
    run(async {
        let site = Site::new().await;
        let session = site.session_of(&[], "2025-03-26").await;
        let headers = [("mcp-session-id", session.as_str())];
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let body = json!([
            request(1, "ping", json!({})),
            initialized,
            call(2, "run_command", json!({"command": "echo two"})),
            7,
            request(3, "initialize", json!({})),
        ]);
        let reply = site.post(&headers, body).await;
        assert_eq!(reply.header("mcp-session-id"), Some(session.as_str()));
        let mut replies = reply.json();
        replies.as_array_mut().expect("an array").sort_by_key(|reply| reply["id"].as_i64());
        assert_matches(
            &replies,
            json!([
                {"id": null, "error": {"code": -32600}},
                {"id": 1, "result": {}},
                {"id": 2, "result": {"structuredContent": {"stdout": "two\n"}}},
                {"id": 3, "error": {"code": -32600}},
            ]),
        );
        let reply = site.post(&headers, json!([initialized, initialized])).await;
        assert_eq!((reply.status, reply.body.len()), (202, 0));
        let many: Vec<Value> = (0..101).map(|id| request(id, "ping", json!({}))).collect();
        for body in [json!([]), Value::Array(many)] {
            let reply = site.post(&headers, body).await;
            assert_eq!(reply.status, 400, "{reply:?}");
        }
        // Without a session no revision was agreed on.
        assert_eq!(site.post(&[], json!([request(1, "ping", json!({}))])).await.status, 400);
    });
}
