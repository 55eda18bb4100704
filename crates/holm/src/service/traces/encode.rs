//! Spans as OTLP has them in JSON.

use holm_gateway::http::trace::{Span, What};
use serde_json::{Value, json};

/// `SPAN_KIND_INTERNAL`, `SPAN_KIND_SERVER`, `STATUS_CODE_ERROR`.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const ERROR: u8 = 2;

/// What all spans are of.
pub(super) fn resource(service: &str, node: &str) -> Value {
    json!({"attributes": [
        text("service.name", service),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", node),
    ]})
}

/// The body of a request to the collector.
pub(super) fn spans(resource: &Value, spans: &[Span]) -> Value {
    let spans: Vec<Value> = spans.iter().map(one).collect();
    let scope = json!({"name": "holm", "version": env!("CARGO_PKG_VERSION")});
    json!({"resourceSpans": [{
        "resource": resource,
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]})
}

fn one(span: &Span) -> Value {
    let mut attributes = vec![text("holm.outcome", span.outcome)];
    attributes.extend(span.sandbox.map(|id| text("holm.sandbox.id", &id.to_string())));
    let (name, kind, is_error) = match &span.what {
        What::Request { method, route, status, request_id } => {
            attributes.push(text("http.request.method", method));
            attributes.push(text("holm.request.id", request_id));
            attributes.extend(route.map(|route| text("http.route", route)));
            attributes.extend(status.map(|status| {
                json!({"key": "http.response.status_code", "value": {"intValue": status.to_string()}})
            }));
            let name = route.map_or((*method).to_owned(), |route| format!("{method} {route}"));
            // What a client does wrong is no error of a server.
            (name, SERVER, status.is_some_and(|status| status >= 500))
        }
        What::Call(tool) => {
            attributes.push(text("mcp.method.name", "tools/call"));
            attributes.push(text("gen_ai.tool.name", tool));
            let is_error = !matches!(span.outcome, "ok" | "failed" | "gone" | "cancelled");
            (format!("tools/call {tool}"), INTERNAL, is_error)
        }
    };
    let mut shown = json!({
        "traceId": hex(&span.trace_id),
        "spanId": hex(&span.id),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": span.began.to_string(),
        "endTimeUnixNano": span.ended.max(span.began).to_string(),
    });
    if is_error {
        attributes.push(text("error.type", span.outcome));
        shown["status"] = json!({"code": ERROR});
    }
    if let Some(parent) = &span.parent {
        shown["parentSpanId"] = hex(parent).into();
    }
    shown["attributes"] = attributes.into();
    shown
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_as_the_standard_writes_it() {
        let span = Span {
            trace_id: [0xab; 16],
            id: [1; 8],
            parent: Some([2; 8]),
            began: 1_700_000_000_000_000_001,
            ended: 1_700_000_000_000_000_009,
            what: What::Request {
                method: "POST",
                route: Some("/v1/sandboxes"),
                status: Some(503),
                request_id: "req_1".into(),
            },
            sandbox: None,
            outcome: "capacity",
        };
        let body = spans(&resource("holm", "n"), &[span]);
        assert_eq!(
            body["resourceSpans"][0]["scopeSpans"][0]["spans"][0],
            json!({
                "traceId": "abababababababababababababababab",
                "spanId": "0101010101010101",
                "parentSpanId": "0202020202020202",
                "name": "POST /v1/sandboxes",
                "kind": 2,
                "startTimeUnixNano": "1700000000000000001",
                "endTimeUnixNano": "1700000000000000009",
                "status": {"code": 2},
                "attributes": [
                    {"key": "holm.outcome", "value": {"stringValue": "capacity"}},
                    {"key": "http.request.method", "value": {"stringValue": "POST"}},
                    {"key": "holm.request.id", "value": {"stringValue": "req_1"}},
                    {"key": "http.route", "value": {"stringValue": "/v1/sandboxes"}},
                    {"key": "http.response.status_code", "value": {"intValue": "503"}},
                    {"key": "error.type", "value": {"stringValue": "capacity"}},
                ],
            })
        );
        assert_eq!(
            body["resourceSpans"][0]["resource"]["attributes"][2]["value"]["stringValue"],
            "n"
        );
    }
}
