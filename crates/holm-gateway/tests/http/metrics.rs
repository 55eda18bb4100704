//! `/metrics`: what it shows, and to whom.

use holm_engine::KeyScope;
use serde_json::json;

use crate::client::run;
use crate::site::{Site, with_keys};

async fn shown(site: &Site, headers: &[(&str, &str)]) -> (u16, String) {
    let reply = site.ask("GET", "/metrics", headers, b"").await;
    (reply.status, String::from_utf8(reply.body.to_vec()).expect("text"))
}

#[test]
fn what_happened_is_counted_and_names_nobody() {
    run(async {
        let site = Site::with(with_keys).await;
        let (id, key) = site.key().await;
        let headers = [("x-api-key", key.as_str())];
        let session = site.session_of(&headers, "2025-11-25").await;
        let headers = [headers[0], ("mcp-session-id", session.as_str())];
        for body in [
            crate::site::call(1, "run_command", json!({"command": "echo"})),
            crate::site::call(2, "create_sandbox", json!({"template": "nowhere"})),
        ] {
            assert_eq!(site.post(&headers, body).await.status, 200);
        }
        assert_eq!(site.ask("GET", "/nowhere", &[], b"").await.status, 404);
        let (status, text) = shown(&site, &[]).await;
        assert_eq!(status, 200, "{text}");
        for line in [
            "holm_sandboxes{state=\"running\"} 1",
            "holm_sandbox_create_seconds_count 1",
            "holm_sandbox_create_failures_total{kind=\"template_unknown\"} 1",
            "holm_command_seconds_count 1",
            "holm_command_seconds_bucket{le=\"+Inf\"} 1",
            "holm_http_requests_total{face=\"mcp\",status=\"200\"} 3",
            "holm_http_requests_total{face=\"none\",status=\"404\"} 1",
            "holm_mcp_sessions 1",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in {text}");
        }
        assert!(text.contains("process_resident_memory_bytes "), "{text}");
        for secret in [key.as_str(), &key[..14], session.as_str(), &id.to_string(), "sbx_", "acc_"]
        {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    });
}

#[test]
fn others_than_this_machine_need_a_key_that_may_administer() {
    run(async {
        let site = Site::with(with_keys).await;
        let (_, tenant) = site.key().await;
        let (_, admin) = site.key_with(&[KeyScope::Admin]).await;
        let proxied = ("x-forwarded-for", "192.0.2.1");
        let check = async |key: Option<&str>, status: u16| {
            let mut headers = vec![proxied];
            headers.extend(key.map(|key| ("x-api-key", key)));
            assert_eq!(shown(&site, &headers).await.0, status, "{key:?}");
        };
        check(None, 403).await;
        check(Some(&tenant), 403).await;
        check(Some("wrong"), 401).await;
        check(Some(&admin), 200).await;
        assert_eq!(shown(&site, &[("origin", "http://evil.example")]).await.0, 403);
        assert_eq!(shown(&site, &[("host", "evil.example")]).await.0, 403);
        assert_eq!(site.ask("POST", "/metrics", &[], b"").await.status, 405);
    });
}

#[test]
fn every_answer_names_its_request() {
    run(async {
        let site = Site::new().await;
        let mut seen = std::collections::BTreeSet::new();
        for path in ["/health", "/mcp", "/v1/sandboxes", "/nowhere", "/metrics"] {
            let reply = site.ask("GET", path, &[], b"").await;
            let id = reply.header("x-request-id").expect(path).to_owned();
            assert!(id.starts_with("req_") && seen.insert(id), "{path}");
        }
        let failed =
            site.rest("GET", "/v1/sandboxes/sbx_0123456789abcdef01", "", json!(null)).await;
        let id = failed.json()["error"]["request_id"].clone();
        assert_eq!(failed.header("x-request-id"), id.as_str());
    });
}
