//! JSON-RPC messages as HTTP responses.

use serde_json::{Value, json};

use crate::http::access::{self, Refused};
use crate::http::door::Stopped;
use crate::http::reply::{self, Response};
use crate::mcp::jsonrpc::{
    self, BUSY, HEADER_MISMATCH, INVALID_REQUEST, Id, METHOD_NOT_FOUND, PARSE_ERROR, RpcError,
    UNAUTHORIZED, UNSUPPORTED_PROTOCOL_VERSION,
};

/// What a 401 tells about the way to authenticate.
const CHALLENGE: &str = "Bearer realm=\"holm\"";

/// An error with this status.
#[must_use]
pub fn error(status: u16, id: Option<&Id>, error: &RpcError) -> Response {
    let response = reply::json(status, &jsonrpc::error(id, error));
    if status == 401 { reply::with(response, "www-authenticate", CHALLENGE) } else { response }
}

/// A request that got no further than the door.
#[must_use]
pub fn stopped(why: Stopped) -> Response {
    let status = why.status();
    match why {
        Stopped::ForeignHost | Stopped::ForeignOrigin => {
            reply::json(status, &json!({"error": why.to_string()}))
        }
        Stopped::Credential(Refused::Unknown) => {
            error(status, None, &RpcError::new(BUSY, why.to_string()))
        }
        Stopped::Credential(Refused::TooMany(wait)) => {
            let response = error(status, None, &RpcError::new(BUSY, why.to_string()));
            reply::with(response, "retry-after", &access::seconds(wait).to_string())
        }
        Stopped::Credential(_) => {
            error(status, None, &RpcError::new(UNAUTHORIZED, why.to_string()))
        }
    }
}

/// The server goes down.
#[must_use]
pub fn going_down(id: Option<&Id>) -> Response {
    error(503, id, &RpcError::new(BUSY, "the service is going down; try again later"))
}

/// The reply to a request of a session: errors of the envelope show in the status, others do not.
#[must_use]
pub fn legacy(id: &Id, outcome: Result<Value, RpcError>) -> Response {
    let status = match &outcome {
        Err(error) if matches!(error.code, PARSE_ERROR | INVALID_REQUEST) => 400,
        _ => 200,
    };
    reply::json(status, &jsonrpc::reply(id, outcome))
}

/// The reply to a request that stands for itself.
#[must_use]
pub fn modern(id: &Id, outcome: Result<Value, RpcError>) -> Response {
    let status = match &outcome {
        Ok(_) => 200,
        Err(error) => match error.code {
            METHOD_NOT_FOUND => 404,
            PARSE_ERROR | INVALID_REQUEST | HEADER_MISMATCH | UNSUPPORTED_PROTOCOL_VERSION => 400,
            jsonrpc::INVALID_PARAMS => 400,
            _ => 200,
        },
    };
    reply::json(status, &jsonrpc::reply(id, outcome))
}
