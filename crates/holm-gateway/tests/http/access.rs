//! Who may ask, and from where.

use holm_engine::{KeyScope, Rate};
use holm_gateway::http::access::Secret;
use holm_gateway::http::{Access, KeyAccess};
use serde_json::{Value, json};

use crate::client::{assert_matches, run};
use crate::site::{Setup, Site, borrowed, call, modern, request, with_keys};

fn initialize() -> Value {
    request(1, "initialize", json!({}))
}

fn with_token(token: &str) -> impl FnOnce(&mut Setup) {
    let secret = Secret::new(token);
    move |setup| setup.access = Access::Token(secret)
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

/// Also where the key is good, and whatever else the request carries.
#[test]
fn keys_of_accounts_are_refused_where_one_token_counts() {
    run(async {
        let site = Site::with(with_token("replace_me")).await;
        let (_, key) = site.key().await;
        let bearer = format!("Bearer {key}");
        let session =
            site.session_of(&[("authorization", "Bearer replace_me")], "2025-11-25").await;
        for credential in [("x-api-key", key.as_str()), ("authorization", bearer.as_str())] {
            for path in ["/mcp", "/v1/mcp"] {
                let ask = async |headers: &[(&str, &str)], body: Value| {
                    site.ask("POST", path, headers, body.to_string().as_bytes()).await
                };
                let (headers, modern) = modern(1, "tools/list", json!({}));
                let mut headers = borrowed(&headers);
                headers.push(credential);
                for reply in [
                    ask(&[credential], initialize()).await,
                    ask(&[credential, ("mcp-session-id", &session)], initialize()).await,
                    ask(&headers, modern).await,
                    site.ask("DELETE", path, &[credential, ("mcp-session-id", &session)], b"")
                        .await,
                ] {
                    assert_eq!(reply.status, 401, "{reply:?}");
                    assert!(!String::from_utf8_lossy(&reply.body).contains(&key));
                }
            }
            let reply = site.ask("GET", "/v1/usage", &[credential], b"").await;
            assert_eq!(reply.status, 401, "{reply:?}");
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
        let ((_, a), (_, b)) = (site.key().await, site.key().await);
        let session = site.session_of(&[("x-api-key", &a)], "2025-11-25").await;
        let check = async |key: Option<&str>, status: u16| {
            let mut headers = vec![("mcp-session-id", session.as_str())];
            headers.extend(key.map(|key| ("x-api-key", key)));
            let reply = site.post(&headers, request(1, "ping", json!({}))).await;
            assert_eq!(reply.status, status, "{key:?}");
            let unknown = [("mcp-session-id", "never-was"), ("x-api-key", b.as_str())];
            if status == 404 {
                let never = site.post(&unknown, request(1, "ping", json!({}))).await;
                assert_eq!((reply.status, reply.body), (never.status, never.body));
            }
            if status != 200 {
                let reply = site.ask("DELETE", "/mcp", &headers, b"").await;
                assert_eq!(reply.status, status, "{key:?}");
            }
        };
        check(Some(&b), 404).await;
        check(None, 404).await;
        check(Some("wrong"), 401).await;
        check(Some(&a), 200).await;
    });
}

#[test]
fn case_69_sandboxes_of_others_look_like_none() {
    run(async {
        let site = Site::with(with_keys).await;
        let ((_, a), (_, b)) = (site.key().await, site.key().await);
        let ask = async |key: &str, name: &str, arguments: Value| {
            let (headers, body) =
                modern(1, "tools/call", json!({"name": name, "arguments": arguments}));
            let mut headers = borrowed(&headers);
            headers.push(("x-api-key", key));
            let mut reply = site.post(&headers, body).await.json();
            reply["result"]["structuredContent"].take()
        };
        let made = ask(&a, "create_sandbox", json!({})).await;
        let id = made["sandbox_id"].as_str().expect("an id").to_owned();
        let never = "sbx_0123456789abcdef01";
        for (tool, arguments) in [
            ("run_command", json!({"command": "true"})),
            ("run_code", json!({"code": "1"})),
            ("write_file", json!({"path": "a", "content": "b"})),
            ("read_file", json!({"path": "a"})),
            ("list_files", json!({})),
            ("get_sandbox", json!({})),
            ("extend_sandbox", json!({})),
            ("set_network", json!({"network": "none"})),
            ("destroy_sandbox", json!({})),
        ] {
            let on = async |id: &str| {
                let mut arguments = arguments.clone();
                arguments["sandbox_id"] = json!(id);
                ask(&b, tool, arguments).await.to_string().replace(id, "ID")
            };
            let (foreign, unknown) = (on(&id).await, on(never).await);
            assert_eq!(foreign, unknown, "{tool}");
            assert!(foreign.contains("not_found"), "{tool}: {foreign}");
        }
        assert_eq!(ask(&b, "list_sandboxes", json!({})).await["sandboxes"], json!([]));
        assert_eq!(ask(&b, "get_usage", json!({})).await["sandboxes_running"], 0);
        let seen = ask(&a, "get_sandbox", json!({"sandbox_id": id})).await;
        assert_eq!(seen["status"], "running", "{seen}");
    });
}

#[test]
fn a_key_reaches_what_its_scopes_say() {
    run(async {
        let site = Site::with(with_keys).await;
        let (id, reader) = site.key_with(&[KeyScope::Read]).await;
        let headers = [("x-api-key", reader.as_str())];
        let session = site.session_of(&headers, "2025-11-25").await;
        let headers = [headers[0], ("mcp-session-id", session.as_str())];
        let listed = site.post(&headers, call(1, "list_sandboxes", json!({}))).await.json();
        assert_matches(&listed, json!({"result": {"isError": false}}));
        let refused = site.post(&headers, call(2, "create_sandbox", json!({}))).await.json();
        let error = json!({"code": "forbidden", "message": "*sandboxes*"});
        assert_matches(
            &refused,
            json!({"result": {"isError": true, "structuredContent": {"error": error}}}),
        );
        let page = holm_engine::PageQuery::first(9);
        let keys = site.engine.key_list(None, page).await.expect("keys").items;
        let account = keys.iter().find(|key| key.id == id).expect("its key").account_id;
        site.engine.account_set_disabled(account, true).await.expect("disabled");
        assert_eq!(site.post(&headers, call(3, "list_sandboxes", json!({}))).await.status, 403);
    });
}

#[test]
fn without_a_key_one_can_look_around_and_takes_no_session() {
    run(async {
        let site = Site::with(|setup| {
            with_keys(setup);
            setup.sessions.limit = 2;
        })
        .await;
        // More than there are sessions.
        for _ in 0..5 {
            let reply = site.post(&[], initialize()).await;
            assert_eq!((reply.status, reply.header("mcp-session-id")), (200, None));
        }
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(site.post(&[], initialized).await.status, 202);
        let listed = site.post(&[], request(2, "tools/list", json!({}))).await.json();
        assert_eq!(listed["result"]["tools"].as_array().expect("tools").len(), 25);
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
        for (_, key) in [site.key().await, site.key().await] {
            site.session_of(&[("x-api-key", &key)], "2025-11-25").await;
        }
    });
}

#[test]
fn requests_are_limited_for_each_key_and_for_addresses_without_one() {
    run(async {
        // Nothing comes back while the test runs.
        let slow = |burst| Rate { per_second: 1e-6, burst };
        let site = Site::with(|setup| {
            setup.rebuild(|settings| settings.key_rate = slow(3));
            setup.access = Access::Keys(KeyAccess::new(setup.engine.clone(), slow(2)));
        })
        .await;
        let ((_, a), (_, b)) = (site.key().await, site.key().await);
        let ping = || request(1, "ping", json!({}));
        let statuses = async |key: Option<&str>| {
            let headers: Vec<(&str, &str)> =
                key.map(|key| ("x-api-key", key)).into_iter().collect();
            let mut seen = Vec::new();
            for _ in 0..4 {
                let reply = site.post(&headers, ping()).await;
                if reply.status == 429 {
                    assert!(
                        reply.header("retry-after").is_some_and(|wait| wait != "0"),
                        "{reply:?}"
                    );
                    let error = json!({"code": -32000, "message": "*too many requests*"});
                    assert_matches(&reply.json(), json!({"id": null, "error": error}));
                }
                seen.push(reply.status);
            }
            seen
        };
        assert_eq!(statuses(None).await, [200, 200, 429, 429]);
        // Nor do keys that are guessed come through any more.
        assert_eq!(statuses(Some("holm_sk_guessed")).await, [429, 429, 429, 429]);
        // Without a session each ping is refused, and counts.
        assert_eq!(statuses(Some(&a)).await, [400, 400, 400, 429]);
        assert_eq!(statuses(Some(&b)).await, [400, 400, 400, 429]);
        // A key has one rate on every face.
        let refused = site.rest("GET", "/v1/sandboxes", &a, Value::Null).await;
        assert_eq!(refused.status, 429);
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
        let error = json!({"type": "rate_limited", "request_id": "*"});
        assert_matches(&refused.json(), json!({"error": error}));
        assert_eq!(site.ask("GET", "/health", &[], b"").await.status, 200);
    });
}
