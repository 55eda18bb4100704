//! JSON-RPC 2.0 envelopes as MCP narrows them: ids are strings or integers, never null; `params`
//! is an object; every message is told apart by its shape alone.
//!
//! Nothing here knows a method or a transport.

use serde_json::{Map, Value, json};

/// The text was no JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON, but no request.
pub const INVALID_REQUEST: i64 = -32600;
/// No such method here.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The method exists, its parameters do not fit (also: unknown tool).
pub const INVALID_PARAMS: i64 = -32602;
/// The server's own fault.
pub const INTERNAL_ERROR: i64 = -32603;
/// The server cannot take it now (over HTTP: all sessions are in use, or it is going down).
pub const BUSY: i64 = -32000;
/// No credential, or one that is not valid.
pub const UNAUTHORIZED: i64 = -32001;
/// A header says something else than the body (revision 2026-07-28).
pub const HEADER_MISMATCH: i64 = -32020;
/// The protocol version of this request is not spoken here (revision 2026-07-28).
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;

/// The id of a request. `1` and `"1"` are different ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Id {
    /// An integer that fits 64 bits; others are refused, since no reply could repeat them exactly.
    Integer(i128),
    /// A string.
    Text(String),
}

impl Id {
    /// The id in `value`, if it is one.
    #[must_use]
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Number(number) => number
                .as_i64()
                .map(i128::from)
                .or_else(|| number.as_u64().map(i128::from))
                .map(Self::Integer),
            _ => None,
        }
    }

    /// The id as it goes onto the wire.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Integer(number) => i64::try_from(*number)
                .map(Value::from)
                .or_else(|_| u64::try_from(*number).map(Value::from))
                .unwrap_or(Value::Null),
        }
    }
}

/// A JSON-RPC error: a fault of the protocol, never of a tool's work.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// One of the constants above.
    pub code: i64,
    /// One sentence for the client.
    pub message: String,
    /// What a client can act on, if anything.
    pub data: Option<Value>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// No such method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("Method not found: {}", shortened(method)))
    }

    fn to_value(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }
}

/// A request: it gets exactly one reply, or none after it was cancelled.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its id.
    pub id: Id,
    /// The method.
    pub method: String,
    /// The parameters; absent and null count as empty.
    pub params: Map<String, Value>,
}

/// One message of a client, judged by its envelope.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Wants a reply.
    Request(Request),
    /// Never gets one.
    Notification {
        /// The method.
        method: String,
        /// The parameters; empty where they were missing or no object.
        params: Map<String, Value>,
    },
    /// An answer to a request that this server never made. Dropped: answering it could start an
    /// endless exchange of errors.
    Response,
    /// A broken envelope.
    Invalid {
        /// The id, where it could be read.
        id: Option<Id>,
        /// What is wrong.
        error: RpcError,
    },
}

/// What one text (a line, or an HTTP body) holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Text {
    /// One message.
    One(Message),
    /// A JSON array. Only revision 2025-03-26 knows these; the caller decides.
    Batch(Vec<Value>),
}

/// Parses one text. Broken JSON, broken UTF-8 and nesting over 127 levels are parse errors.
#[must_use]
pub fn parse(text: &[u8]) -> Text {
    match serde_json::from_slice::<Value>(text) {
        Ok(Value::Array(items)) => Text::Batch(items),
        Ok(value) => Text::One(classify(value)),
        Err(error) => Text::One(Message::Invalid {
            id: None,
            error: RpcError::new(PARSE_ERROR, format!("Parse error: {error}")),
        }),
    }
}

/// Judges one message by its envelope.
#[must_use]
pub fn classify(value: Value) -> Message {
    let invalid = |id: Option<Id>, code, message: &str| Message::Invalid {
        id,
        error: RpcError::new(code, message),
    };
    let Value::Object(mut object) = value else {
        return invalid(None, INVALID_REQUEST, "Invalid request: a message is a JSON object");
    };
    let id = object.get("id").map(Id::from_value);
    let readable = id.clone().flatten();
    if !object.contains_key("method")
        && (object.contains_key("result") || object.contains_key("error"))
    {
        return Message::Response;
    }
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid(readable, INVALID_REQUEST, "Invalid request: `jsonrpc` must be \"2.0\"");
    }
    let Some(Value::String(method)) = object.remove("method") else {
        return invalid(readable, INVALID_REQUEST, "Invalid request: `method` must be a string");
    };
    let params = object.remove("params");
    let id = match id {
        None => {
            let params = match params {
                Some(Value::Object(params)) => params,
                _ => Map::new(),
            };
            return Message::Notification { method, params };
        }
        Some(None) => {
            let text = "Invalid request: `id` must be a string or an integer, and not null";
            return invalid(None, INVALID_REQUEST, text);
        }
        Some(Some(id)) => id,
    };
    match params {
        None | Some(Value::Null) => Message::Request(Request { id, method, params: Map::new() }),
        Some(Value::Object(params)) => Message::Request(Request { id, method, params }),
        // JSON-RPC knows positional parameters, so the envelope is sound; no MCP method takes them.
        Some(Value::Array(_)) => {
            invalid(Some(id), INVALID_PARAMS, "Invalid params: `params` must be an object")
        }
        Some(_) => {
            invalid(Some(id), INVALID_REQUEST, "Invalid request: `params` must be an object")
        }
    }
}

/// A reply with a result.
#[must_use]
pub fn result(id: &Id, result: Value) -> Value {
    reply_object(id.to_value(), "result", result)
}

/// A reply with an error. Without an id the reply says null, as JSON-RPC wants it.
#[must_use]
pub fn error(id: Option<&Id>, error: &RpcError) -> Value {
    reply_object(id.map_or(Value::Null, Id::to_value), "error", error.to_value())
}

fn reply_object(id: Value, kind: &str, content: Value) -> Value {
    let mut reply = json!({"jsonrpc": "2.0"});
    reply["id"] = id;
    // Moved: `json!` would copy it, and results may be long.
    reply[kind] = content;
    reply
}

/// A reply of either kind.
#[must_use]
pub fn reply(id: &Id, outcome: Result<Value, RpcError>) -> Value {
    match outcome {
        Ok(value) => result(id, value),
        Err(failure) => error(Some(id), &failure),
    }
}

/// A notification.
#[must_use]
pub fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A client's text cut to a length that is safe to repeat in an error.
#[must_use]
pub fn shortened(text: &str) -> String {
    const LIMIT: usize = 80;
    if text.chars().nth(LIMIT).is_none() {
        return text.to_owned();
    }
    text.chars().take(LIMIT).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an envelope is judged to be, in short.
    fn verdict(text: &[u8]) -> String {
        let one = |message: Message| match message {
            Message::Request(request) => {
                format!("request {} {}", request.id.to_value(), request.method)
            }
            Message::Notification { method, .. } => format!("notification {method}"),
            Message::Response => "response".to_owned(),
            Message::Invalid { id, error } => {
                format!("{} {}", error.code, id.map_or(Value::Null, |id| id.to_value()))
            }
        };
        match parse(text) {
            Text::One(message) => one(message),
            Text::Batch(items) => format!("batch {}", items.len()),
        }
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(verdict(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn envelopes() {
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping");
        check(r#"{"jsonrpc":"2.0","id":"1","method":"ping","params":null}"#, r#"request "1" ping"#);
        check(r#"{"jsonrpc":"2.0","id":-7,"method":"ping","params":{}}"#, "request -7 ping");
        check(
            r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}"#,
            "request 18446744073709551615 ping",
        );
        check(r#"{"jsonrpc":"2.0","method":"x","params":"y"}"#, "notification x");
        check(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#, "response");
        check(r#"{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"x"}}"#, "response");
        check("[]", "batch 0");
        check("[1,{}]", "batch 2");
    }

    #[test]
    fn case_79_broken_envelopes_are_invalid_requests() {
        check("{}", "-32600 null");
        check("7", "-32600 null");
        check(r#""text""#, "-32600 null");
        check(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "-32600 1");
        check(r#"{"id":1,"method":"ping"}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","id":1}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":36893488147419103232,"method":"ping"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"text"}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, "-32602 1");
    }

    #[test]
    fn case_78_what_is_no_json_is_a_parse_error() {
        check("not json", "-32700 null");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping""#, "-32700 null");
        check(r#"{"jsonrpc":"2.0","id":"\ud800","method":"ping"}"#, "-32700 null");
        check(&"[".repeat(100_000), "-32700 null");
        check(&format!("{}1{}", r#"{"a":"#.repeat(5000), "}".repeat(5000)), "-32700 null");
        assert_eq!(verdict(b"\xff"), "-32700 null");
        assert_eq!(
            verdict(b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"x\"}"),
            "-32700 null"
        );
    }

    #[test]
    fn long_texts_are_cut_in_errors() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"é".repeat(500)).chars().count(), 81);
    }
}
