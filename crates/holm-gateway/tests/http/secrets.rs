//! Keys and values of secrets in what a server writes down: nothing of one is in its log, at the level
//! that says most, nor in any answer, whatever becomes of the request.

use std::io::Write;
use std::sync::{Arc, Mutex};

use holm_engine::{PageQuery, Sealer};
use holm_gateway::mcp::Server;
use serde_json::{Value, json};

use crate::client::run;
use crate::site::{Site, borrowed, broken_tool, call, modern, request, with_keys};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic inside").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Everything that is logged by this thread until the guard goes.
fn logged() -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}

/// Somebody swaps name and value, or puts the value where something else belongs.
#[test]
fn a_value_in_a_wrong_place_is_repeated_nowhere() {
    const VALUE: &str = "sk-4711-x-marker-x";
    const NUMBER: u64 = 471_147_114_711;
    let (log, _logging) = logged();
    run(async {
        let site = Site::with(|setup| {
            setup.rebuild(|settings| {
                settings.sealer = Some(Sealer::new(&[[1; 32]]).expect("a sealer"));
            });
            with_keys(setup);
        })
        .await;
        let (_, key) = site.key().await;
        let hosts = json!(["api.example.com"]);
        let put = async |path: &str, body: Value| site.rest("PUT", path, &key, body).await;
        let right = "/v1/secrets/TOKEN";
        let mut replies = Vec::new();
        for path in [
            format!("/v1/secrets/{VALUE}"),
            format!("/v1/secrets/{VALUE}/more"),
            format!("/v1/secret/{VALUE}"),
            format!("/v1/secrets/{NUMBER}"),
        ] {
            replies.push(put(&path, json!({"value": "TOKEN", "hosts": hosts})).await);
            replies.push(site.rest("DELETE", &path, &key, Value::Null).await);
        }
        let mut named = json!({"value": "a", "hosts": hosts});
        named[VALUE] = json!(1);
        for body in [
            json!({"value": NUMBER, "hosts": hosts}),
            json!({"value": [VALUE], "hosts": hosts}),
            json!({"value": {VALUE: VALUE}, "hosts": hosts}),
            json!({"value": "a", "hosts": VALUE}),
            json!({"value": "a", "hosts": [NUMBER]}),
            json!({"value": "a", "hosts": hosts, "allow_plaintext": VALUE}),
            named,
        ] {
            replies.push(put(right, body).await);
        }
        let create = json!({"secrets": [VALUE]});
        replies.push(site.rest("POST", "/v1/sandboxes", &key, create).await);
        for reply in &replies {
            assert!(reply.status >= 400, "{reply:?}");
        }
        let wrong = put(right, json!({"value": NUMBER, "hosts": hosts})).await;
        let text = String::from_utf8_lossy(&wrong.body);
        assert!(text.contains("`value`: expected a string"), "{text}");
        let missing = put(right, json!({"hosts": hosts})).await;
        let text = String::from_utf8_lossy(&missing.body);
        assert!(text.contains("missing field `value`"), "{text}");
        let good = put(right, json!({"value": VALUE, "hosts": hosts})).await;
        assert_eq!(good.status, 200, "{good:?}");
        replies.extend([wrong, missing, good]);
        let audited = async || site.engine.audit_list(None, PageQuery::first(100)).await;
        let mut events = audited().await.expect("events").items;
        while !events.iter().any(|event| event.target.as_deref() == Some("TOKEN")) {
            tokio::task::yield_now().await;
            events = audited().await.expect("events").items;
        }
        let texts = replies.iter().map(|reply| String::from_utf8_lossy(&reply.body).into_owned());
        let log = String::from_utf8_lossy(&log.0.lock().expect("no panic inside")).into_owned();
        assert!(log.contains("a request failed"), "{log}");
        for text in texts.chain([log, format!("{events:?}")]) {
            for part in [VALUE, &NUMBER.to_string()] {
                assert!(!text.contains(part), "{text}");
            }
        }
    });
}

#[test]
fn case_71_no_key_is_in_the_log_or_an_answer_whatever_happens() {
    let (log, _logging) = logged();
    run(async {
        let site = Site::with(|setup| {
            with_keys(setup);
            setup.server = Server::with_tools(vec![broken_tool()]);
        })
        .await;
        let (id, key) = site.key().await;
        let secret = &key[holm_engine::KeyText::PREFIX.len()..];
        let credential = ("x-api-key", key.as_str());
        let bearer = format!("Bearer {key}");
        let session = site.session_of(&[credential], "2025-11-25").await;
        let in_session = [credential, ("mcp-session-id", session.as_str())];
        let (headers, stateless) = modern(4, "tools/call", json!({"name": "broken"}));
        let mut with_key = borrowed(&headers);
        with_key.push(credential);
        let half = format!("{key}0");
        let mut replies = vec![
            // A panic, in a session and without one.
            site.post(&in_session, call(1, "broken", json!({}))).await,
            site.post(&with_key, stateless).await,
            // Bad requests with a good key.
            site.ask("POST", "/mcp", &in_session, b"not json").await,
            site.post(&in_session, json!({})).await,
            site.post(&in_session, call(2, "nothing", json!({}))).await,
            site.post(&[credential, ("mcp-protocol-version", "1")], request(3, "ping", json!({})))
                .await,
            site.rest("POST", "/v1/sandboxes", &key, json!({"size": "gigantic"})).await,
            site.rest("POST", "/v1/nothing", &key, Value::Null).await,
            site.rest("PATCH", "/v1/usage", &key, Value::Null).await,
            // Keys that are none, two at once, and in places where none belongs.
            site.rest("GET", "/v1/usage", &half, Value::Null).await,
            site.ask("GET", "/v1/usage", &[credential, ("authorization", "Bearer x")], b"").await,
            site.ask("GET", "/v1/usage", &[("authorization", &key)], b"").await,
            site.ask("GET", "/v1/usage", &[("authorization", &bearer[..40])], b"").await,
        ];
        for path in ["/mcp", "/v1/mcp", "/v1/usage", "/v1/sandboxes", "/metrics", "/ready", "/x"] {
            for query in [format!("api_key={key}"), format!("a=1&b={key}"), format!("key={secret}")]
            {
                let reply = site.ask("GET", &format!("{path}?{query}"), &[credential], b"").await;
                let public = matches!(path, "/ready" | "/x");
                assert!(public || reply.status == 400, "{path}: {reply:?}");
                replies.push(reply);
            }
        }
        site.engine.key_revoke(id).await.expect("revoked");
        replies.push(site.post(&in_session, request(5, "ping", json!({}))).await);
        for reply in replies {
            let text = format!("{:?} {}", reply.headers, String::from_utf8_lossy(&reply.body));
            assert!(!text.contains(secret), "{text}");
        }
        let log = String::from_utf8_lossy(&log.0.lock().expect("no panic inside")).into_owned();
        // That it says something at all, and nothing of the key.
        for part in ["answered", "API key refused", "revoked"] {
            assert!(log.contains(part), "no {part:?} in the log: {log}");
        }
        assert!(!log.contains(secret), "the key is in the log");
        assert!(!log.contains(&secret[8..40]), "a part of the key is in the log");
    });
}
