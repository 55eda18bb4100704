//! The headers that the protocol brings along.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::HeaderMap;
use hyper::header::ACCEPT;
use serde_json::{Map, Value};

use crate::mcp::jsonrpc::{HEADER_MISMATCH, RpcError, shortened};
use crate::mcp::revision;

/// The session of a request.
pub const SESSION: &str = "mcp-session-id";
/// The revision of a request.
pub const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// A header's value without blanks around it. One that is no text is there, and nothing known.
#[must_use]
pub fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?").trim())
}

/// True for a client that reads event streams, by its own word.
#[must_use]
pub fn reads_events(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|accept| {
        accept.split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let refused = parts.any(|part| matches!(part, "q=0" | "q=0.0"));
            kind.eq_ignore_ascii_case("text/event-stream") && !refused
        })
    })
}

/// Compares what the headers of a modern request say with its body, so that whoever routes by
/// headers and whoever acts by the body mean the same.
///
/// # Errors
/// -32020 where they differ, or one is missing.
pub fn agree(
    headers: &HeaderMap,
    method: &str,
    params: &Map<String, Value>,
) -> Result<(), RpcError> {
    agree_on_version(headers, params)?;
    same(headers, "Mcp-Method", METHOD, method)?;
    let named = match method {
        "tools/call" | "prompts/get" => params.get("name"),
        "resources/read" => params.get("uri"),
        _ => None,
    };
    match named.and_then(Value::as_str) {
        Some(named) => same(headers, "Mcp-Name", NAME, named),
        None => Ok(()),
    }
}

/// The part of [`agree`] that is about the version, where the body names one.
///
/// # Errors
/// As [`agree`].
pub fn agree_on_version(headers: &HeaderMap, params: &Map<String, Value>) -> Result<(), RpcError> {
    match revision::named_version(params) {
        Some(version) => same(headers, "MCP-Protocol-Version", VERSION, version),
        None => Ok(()),
    }
}

fn same(headers: &HeaderMap, shown: &str, name: &str, expected: &str) -> Result<(), RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else {
        let text =
            format!("Header mismatch: {shown} is missing; the body says `{}`", shortened(expected));
        return Err(RpcError::new(HEADER_MISMATCH, text));
    };
    let given = first.to_str().unwrap_or("?").trim();
    if values.next().is_none() && (given == expected || decoded(given).as_deref() == Some(expected))
    {
        return Ok(());
    }
    Err(RpcError::new(
        HEADER_MISMATCH,
        format!(
            "Header mismatch: {shown} is `{}`, but the body says `{}`",
            shortened(given),
            shortened(expected)
        ),
    ))
}

/// The text in `=?base64?…?=`, the form of names that no header can hold.
fn decoded(value: &str) -> Option<String> {
    let inner = value.strip_prefix("=?base64?")?.strip_suffix("?=")?;
    String::from_utf8(BASE64.decode(inner).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            (name, HeaderValue::from_str(value).expect("a value"))
        };
        let mut map = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            map.append(name, value);
        }
        map
    }

    #[test]
    fn only_clients_that_say_so_read_events() {
        let check = |accept: &[&str], expected: bool| {
            let pairs: Vec<_> = accept.iter().map(|value| ("accept", *value)).collect();
            assert_eq!(reads_events(&headers(&pairs)), expected, "{accept:?}");
        };
        check(&[], false);
        check(&["*/*"], false);
        check(&["application/json"], false);
        check(&["application/json, text/event-stream"], true);
        check(&["application/json", "Text/Event-Stream;q=0.5"], true);
        check(&["text/event-stream;q=0, application/json"], false);
    }

    #[test]
    fn headers_and_body_say_the_same() {
        let params = json!({
            "name": "é", "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"},
        });
        let Value::Object(params) = params else { unreachable!() };
        let check = |pairs: &[(&str, &str)], expected: bool| {
            let got = agree(&headers(pairs), "tools/call", &params);
            assert_eq!(got.is_ok(), expected, "{pairs:?} {got:?}");
        };
        let version = (VERSION, "2026-07-28");
        check(&[version, (METHOD, "tools/call"), (NAME, "=?base64?w6k=?=")], true);
        check(&[version, (METHOD, " tools/call "), (NAME, "=?base64?w6k=?=")], true);
        check(&[version, (METHOD, "tools/call"), (NAME, "=?base64?w6k?=")], false);
        check(&[version, (METHOD, "tools/call"), (NAME, "e")], false);
        check(&[version, (METHOD, "tools/call")], false);
        check(&[version, (METHOD, "TOOLS/CALL"), (NAME, "=?base64?w6k=?=")], false);
        check(&[(METHOD, "tools/call"), (NAME, "=?base64?w6k=?=")], false);
        check(&[version, version, (METHOD, "tools/call"), (NAME, "=?base64?w6k=?=")], false);
    }
}
