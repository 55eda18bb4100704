//! Spans: what is told of a request and of a call, and what is not.

use std::sync::Arc;

use holm_gateway::http::trace::{Collect, Counts, Span, What};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::client::run;
use crate::site::{Site, borrowed, call, command_call, modern};
use crate::world::HANG;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
/// In commands, files and names of this test; in no span.
const MARKER: &str = "x-marker-x";

struct Kept(watch::Sender<Vec<Span>>);

impl Collect for Kept {
    fn take(&self, span: Span) {
        self.0.send_modify(|spans| spans.push(span));
    }

    fn counts(&self) -> Counts {
        Counts { sent: 7, dropped: 2 }
    }
}

impl Kept {
    /// Waits for so many spans and takes them.
    async fn take(&self, count: usize) -> Vec<Span> {
        let mut spans = self.0.subscribe();
        let enough = spans.wait_for(|spans| spans.len() >= count);
        drop(timeout(HANG, enough).await.expect("spans in time").expect("a sender"));
        let spans = self.0.send_replace(Vec::new());
        assert_eq!(spans.len(), count, "{spans:?}");
        assert!(!format!("{spans:?}").contains(MARKER), "{spans:?}");
        spans
    }

    async fn one(&self) -> Span {
        self.take(1).await.remove(0)
    }
}

async fn traced() -> (Site, Arc<Kept>) {
    let kept = Arc::new(Kept(watch::Sender::new(Vec::new())));
    let traces = Arc::clone(&kept);
    let site = Site::with(|setup| setup.traces = Some(traces)).await;
    (site, kept)
}

/// Method, route, status.
fn request(span: &Span) -> (&str, Option<&str>, Option<u16>) {
    match &span.what {
        What::Request { method, route, status, .. } => (method, *route, *status),
        What::Call(tool) => panic!("a call of {tool}"),
    }
}

#[test]
fn a_request_of_rest_is_a_span() {
    run(async {
        let (site, kept) = traced().await;
        let made = site.rest("POST", "/v1/sandboxes", "", json!({"name": MARKER})).await.json();
        let id = made["id"].as_str().expect("an id").to_owned();
        let span = kept.one().await;
        assert_eq!(request(&span), ("POST", Some("/v1/sandboxes"), Some(201)));
        assert_eq!(span.sandbox.map(|id| id.to_string()), Some(id.clone()));
        assert_eq!((span.outcome, span.parent), ("ok", None));
        assert!(span.ended >= span.began);
        let path = format!("/v1/sandboxes/{id}/exec");
        let command = json!({"command": format!("echo {MARKER}")});
        site.rest("POST", &path, "", command).await;
        let span = kept.one().await;
        assert_eq!(request(&span).1, Some("/v1/sandboxes/{sandbox_id}/exec"));
        assert_eq!(span.sandbox.map(|id| id.to_string()), Some(id.clone()));
        let check = async |path: &str, expected: (Option<&str>, u16, &str)| {
            assert_eq!(site.rest("GET", path, "", Value::Null).await.status, expected.1);
            let span = kept.one().await;
            assert_eq!((request(&span).1, span.outcome), (expected.0, expected.2), "{path}");
        };
        let one = Some("/v1/sandboxes/{sandbox_id}");
        check("/v1/sandboxes/sbx_0123456789abcdef01", (one, 404, "not_found")).await;
        check(&format!("/v1/sandboxes/{MARKER}"), (one, 400, "invalid_request")).await;
        check(&format!("/v1/{MARKER}?x={MARKER}"), (None, 404, "not_found")).await;
        // What only watches is not told of; what became of spans is.
        assert_eq!(site.ask("GET", "/health", &[], b"").await.status, 200);
        let metrics = site.ask("GET", "/metrics", &[], b"").await;
        let metrics = String::from_utf8(metrics.body.to_vec()).expect("text");
        assert!(metrics.contains("holm_trace_spans_total{result=\"dropped\"} 2\n"), "{metrics}");
        assert!(kept.0.borrow().is_empty(), "{:?}", kept.0.borrow());
    });
}

#[test]
fn a_client_names_the_trace_or_wants_none() {
    run(async {
        let (site, kept) = traced().await;
        let ask = async |flags: &str| {
            let parent = format!("00-{TRACE}-b7ad6b7169203331-{flags}");
            site.ask("GET", "/v1/sandboxes", &[("traceparent", parent.as_str())], b"").await
        };
        ask("00").await;
        ask("01").await;
        let span = kept.one().await;
        assert_eq!(format!("{:032x}", u128::from_be_bytes(span.trace_id)), TRACE);
        assert_eq!(span.parent, Some([0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]));
    });
}

#[test]
fn a_call_is_a_span_within_that_of_its_request() {
    run(async {
        let (site, kept) = traced().await;
        let session = site.session().await;
        assert_eq!(request(&kept.one().await).1, Some("/mcp"));
        let events = ("accept", "application/json, text/event-stream");
        let headers = [("mcp-session-id", session.as_str()), events];
        let mut body = command_call(1, &format!("fail {MARKER}"));
        for token in [Value::Null, json!(MARKER)] {
            if !token.is_null() {
                body["params"]["_meta"] = json!({"progressToken": token});
            }
            assert_eq!(site.post(&headers, &body).await.status, 200);
            let spans = kept.take(2).await;
            let [call, around] = &spans[..] else { panic!("{spans:?}") };
            assert_eq!((&call.what, call.outcome), (&What::Call("run_command"), "failed"));
            assert_eq!((around.outcome, call.parent), ("ok", Some(around.id)));
            assert_eq!(around.trace_id, call.trace_id);
            assert!(call.sandbox.is_some() && call.sandbox == around.sandbox, "{spans:?}");
        }
        let wrong = json!({"sandbox_id": "sbx_0123456789abcdef01", "path": MARKER});
        site.post(&headers, call(2, "read_file", wrong)).await;
        assert_eq!(kept.take(2).await[0].outcome, "not_found");
        let (headers, body) = modern(3, "tools/call", json!({"name": "create_sandbox"}));
        site.post(&borrowed(&headers), body).await;
        let spans = kept.take(2).await;
        assert_eq!((&spans[0].what, spans[0].outcome), (&What::Call("create_sandbox"), "ok"));
        assert!(spans[0].sandbox.is_some(), "{spans:?}");
    });
}

#[test]
fn each_call_of_a_batch_is_a_span_and_a_client_that_has_gone_too() {
    run(async {
        let (site, kept) = traced().await;
        let session = site.session_of(&[], "2025-03-26").await;
        kept.one().await;
        let headers = [("mcp-session-id", session.as_str())];
        let two = json!([call(1, "list_sandboxes", json!({})), call(2, "get_usage", json!({}))]);
        assert_eq!(site.post(&headers, two).await.status, 200);
        let spans = kept.take(3).await;
        let mut tools: Vec<&What> = spans[..2].iter().map(|span| &span.what).collect();
        tools.sort_by_key(|what| format!("{what:?}"));
        assert_eq!(tools, [&What::Call("get_usage"), &What::Call("list_sandboxes")]);
        assert!(spans[..2].iter().all(|call| call.parent == Some(spans[2].id)), "{spans:?}");
        let wire = site.running(&session, 3, "hang").await;
        drop(wire);
        let spans = kept.take(2).await;
        assert_eq!([spans[0].outcome, spans[1].outcome], ["gone", "gone"], "{spans:?}");
    });
}
