//! Who may ask, and from where.

use std::sync::Arc;

use holm_gateway::http::access::{Finding, Keys, Secret};
use holm_gateway::http::{Access, Owner};
use serde_json::{Value, json};

use crate::client::{assert_matches, run};
use crate::site::{Setup, Site, borrowed, call, modern, request};

fn initialize() -> Value {
    request(1, "initialize", json!({}))
}

fn with_token(token: &str) -> impl FnOnce(&mut Setup) {
    let secret = Secret::new(token);
    move |setup| setup.access = Access::Token(secret)
}

/// Keys that are their owners' names, with `key-` in front.
struct Names;

impl Keys for Names {
    fn owner<'a>(&'a self, key: &'a str) -> Finding<'a> {
        Box::pin(async move { key.strip_prefix("key-").map(Owner::new) })
    }
}

fn with_keys(setup: &mut Setup) {
    setup.access = Access::Keys(Arc::new(Names));
    setup.sessions.limit = 2;
}

#[test]
fn a_token_is_needed_for_everything_on_the_endpoint() {
    run(async {
        let site = Site::with(with_token("replace_me")).await;
        for (headers, status) in [
            (vec![], 401),
            (vec![("authorization", "Bearer replace_me")], 200),
            (vec![("authorization", "bearer  replace_me ")], 200),
            (vec![("x-api-key", "replace_me")], 200),
            (vec![("authorization", "Bearer replace_m")], 401),
            (vec![("authorization", "Bearer replace_mee")], 401),
            (vec![("authorization", "Bearer ")], 401),
            (vec![("authorization", "Basic replace_me")], 401),
            (vec![("authorization", "Bearer replace_me"), ("x-api-key", "other")], 400),
        ] {
            let reply = site.post(&headers, initialize()).await;
            assert_eq!(reply.status, status, "{headers:?}");
            if status != 200 {
                assert_matches(&reply.json(), json!({"id": null, "error": {"code": -32001}}));
                assert_eq!(reply.header("mcp-session-id"), None);
            }
            assert_eq!(reply.header("www-authenticate").is_some(), status == 401, "{headers:?}");
        }
        for method in ["GET", "DELETE"] {
            assert_eq!(site.ask(method, "/mcp", &[], b"").await.status, 401, "{method}");
        }
        let (headers, body) = modern(1, "server/discover", json!({}));
        assert_eq!(site.post(&borrowed(&headers), body).await.status, 401);
        assert_eq!(site.ask("GET", "/health", &[], b"").await.status, 200);
        let card = site.ask("GET", "/.well-known/mcp/server-card.json", &[], b"").await.json();
        assert_eq!(card["configSchema"]["required"], json!(["apiKey"]));
    });
}

#[test]
fn a_refused_client_that_writes_first_gets_its_answer() {
    run(async {
        let site = Site::with(with_token("replace_me")).await;
        let reply = site.ask("POST", "/mcp", &[], &vec![b' '; 20 << 20]).await;
        assert_eq!(reply.status, 401);
    });
}

#[test]
fn a_blank_token_lets_nobody_in() {
    run(async {
        let site = Site::with(with_token("  ")).await;
        for headers in
            [vec![], vec![("authorization", "Bearer x")], vec![("authorization", "Bearer ")]]
        {
            assert_eq!(site.post(&headers, initialize()).await.status, 401, "{headers:?}");
        }
    });
}

#[test]
fn case_71_keys_in_the_address_are_refused() {
    run(async {
        let site = Site::with(with_token("replace_me")).await;
        for query in ["api_key=replace_me", "a=1&token=replace_me", "APIKEY=replace_me"] {
            let path = format!("/mcp?{query}");
            let body = initialize().to_string();
            let reply = site.ask("POST", &path, &[], body.as_bytes()).await;
            assert_eq!(reply.status, 400, "{query}");
            assert!(!String::from_utf8_lossy(&reply.body).contains("replace_me"));
        }
    });
}

#[test]
fn case_86_foreign_pages_and_names_are_refused_before_anything_else() {
    run(async {
        let site = Site::with(with_token("replace_me")).await;
        let check = async |name: &str, value: &str, status: u16| {
            for (method, path) in
                [("POST", "/mcp"), ("POST", "/v1/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp")]
            {
                let reply = site.ask(method, path, &[(name, value)], b"not even JSON").await;
                assert_eq!(reply.status, status, "{method} {path} {name}: {value}");
                if status == 403 {
                    assert_matches(&reply.json(), json!({"error": "*"}));
                }
            }
        };
        check("origin", "http://evil.example", 403).await;
        check("origin", "null", 403).await;
        check("origin", "http://x.localhost:9000", 403).await;
        check("host", "evil.example", 403).await;
        // Let in, so that the missing token counts.
        check("origin", "", 401).await;
        check("origin", "http://localhost:5173", 401).await;
        check("origin", "https://app.example", 401).await;
        check("host", "127.0.0.1:9000", 401).await;
        check("host", "app.example", 401).await;
        let foreign = [("host", "evil.example")];
        let card = site.ask("GET", "/.well-known/mcp/server-card.json", &foreign, b"").await;
        assert_eq!(card.status, 403);
    });
}

#[test]
fn case_69_a_session_belongs_to_the_key_that_made_it() {
    run(async {
        let site = Site::with(with_keys).await;
        let session = site.session_of(&[("x-api-key", "key-a")], "2025-11-25").await;
        let check = async |key: Option<&str>, status: u16| {
            let mut headers = vec![("mcp-session-id", session.as_str())];
            headers.extend(key.map(|key| ("x-api-key", key)));
            let reply = site.post(&headers, request(1, "ping", json!({}))).await;
            assert_eq!(reply.status, status, "{key:?}");
            let unknown = [("mcp-session-id", "never-was"), ("x-api-key", "key-b")];
            if status == 404 {
                let never = site.post(&unknown, request(1, "ping", json!({}))).await;
                assert_eq!((reply.status, reply.body), (never.status, never.body));
            }
            if status != 200 {
                let reply = site.ask("DELETE", "/mcp", &headers, b"").await;
                assert_eq!(reply.status, status, "{key:?}");
            }
        };
        check(Some("key-b"), 404).await;
        check(None, 404).await;
        check(Some("wrong"), 401).await;
        check(Some("key-a"), 200).await;
    });
}

#[test]
fn without_a_key_one_can_look_around_and_takes_no_session() {
    run(async {
        let site = Site::with(with_keys).await;
        // More than there are sessions.
        for _ in 0..5 {
            let reply = site.post(&[], initialize()).await;
            assert_eq!((reply.status, reply.header("mcp-session-id")), (200, None));
        }
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(site.post(&[], initialized).await.status, 202);
        let listed = site.post(&[], request(2, "tools/list", json!({}))).await.json();
        assert_eq!(listed["result"]["tools"].as_array().expect("tools").len(), 12);
        let info = site.post(&[], call(3, "get_service_info", json!({}))).await.json();
        assert_matches(&info, json!({"id": 3, "result": {"isError": false}}));
        let (headers, body) = modern(4, "server/discover", json!({}));
        assert_eq!(site.post(&borrowed(&headers), body).await.status, 200);
        let (headers, body) = modern(5, "tools/call", json!({"name": "create_sandbox"}));
        for reply in [
            site.post(&[], call(5, "create_sandbox", json!({}))).await,
            site.post(&borrowed(&headers), body).await,
        ] {
            assert_eq!(reply.status, 401, "{reply:?}");
            let error = json!({"code": -32001, "message": "*holm key create*"});
            assert_matches(&reply.json(), json!({"id": 5, "error": error}));
        }
        assert_eq!(*site.world.alive.borrow(), 0);
        for key in ["key-a", "key-b"] {
            site.session_of(&[("x-api-key", key)], "2025-11-25").await;
        }
    });
}
