//! The server card: what this server is, for registries and clients that have not connected yet.
//!
//! Two forms are in use. The one at the well-known address lists the tools and the configuration
//! that registries ask their users for; the newer one, beside the endpoint, only says how to
//! connect.

use hyper::header::HOST;
use hyper::http::request::Parts;
use serde_json::{Value, json};

use crate::mcp::revision::Revision;
use crate::mcp::server::Server;

const DESCRIPTION: &str = "Disposable, isolated Linux sandboxes for AI agents.";

/// The card at `/.well-known/mcp/server-card.json`.
#[must_use]
pub fn well_known(server: &Server, head: &Parts, needs_key: bool) -> Value {
    let required: &[&str] = if needs_key { &["apiKey"] } else { &[] };
    json!({
        "version": "1.0",
        "protocolVersion": "2025-06-18",
        "serverInfo": server.info(),
        "description": DESCRIPTION,
        "transport": {"type": "streamable-http", "endpoint": "/mcp", "url": url(head, "/mcp")},
        "capabilities": {"tools": {"listChanged": false}},
        "authentication": {"required": needs_key, "schemes": ["bearer"]},
        "configSchema": {
            "type": "object",
            "properties": {
                "apiKey": {
                    "type": "string",
                    "title": "API key",
                    "x-from": {"header": "x-api-key"},
                    "x-to": {"header": "x-api-key"},
                },
            },
            "required": required,
        },
        "tools": server.list(),
        "resources": [],
        "prompts": [],
    })
}

/// The card beside an endpoint.
#[must_use]
pub fn of_endpoint(server: &Server, head: &Parts, needs_key: bool) -> Value {
    let endpoint = head.uri.path().trim_end_matches("/server-card");
    let mut remote = json!({
        "type": "streamable-http",
        "url": url(head, endpoint),
        "supportedProtocolVersions": Revision::names(),
    });
    if needs_key {
        remote["headers"] = json!([{
            "name": "Authorization",
            "description": "`Bearer` and a key of this service.",
            "isRequired": true,
            "isSecret": true,
        }]);
    }
    json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": format!("{}/holm", reversed(host(head))),
        "title": server.info()["title"],
        "description": DESCRIPTION,
        "version": server.info()["version"],
        "remotes": [remote],
    })
}

/// The name under which the client knows this server.
fn authority(head: &Parts) -> &str {
    let header = head.headers.get(HOST).and_then(|value| value.to_str().ok());
    let named = head.uri.authority().map(hyper::http::uri::Authority::as_str).or(header);
    named.filter(|name| !name.is_empty()).unwrap_or("localhost")
}

fn url(head: &Parts, path: &str) -> String {
    format!("http://{}{path}", authority(head))
}

fn host(head: &Parts) -> &str {
    let authority = authority(head);
    match authority.rsplit_once(':') {
        Some((host, _)) if !host.contains(':') => host,
        _ => authority,
    }
}

/// A host name as the front part of a card's name: `com.example.www`. Addresses have no such form.
fn reversed(host: &str) -> String {
    let plain =
        host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
    if !plain || host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return "localhost".to_owned();
    }
    let mut labels: Vec<&str> = host.split('.').filter(|label| !label.is_empty()).collect();
    labels.reverse();
    labels.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cards() {
        let check = |host: &str, expected: &str| assert_eq!(reversed(host), expected, "{host}");
        check("www.example.com", "com.example.www");
        check("localhost", "localhost");
        check("127.0.0.1", "localhost");
        check("[::1]", "localhost");
        check("a/b", "localhost");
    }
}
