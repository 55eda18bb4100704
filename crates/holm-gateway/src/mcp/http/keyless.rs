//! What a client without a key may do: see what there is. Everything that makes or uses something
//! needs a key.

use serde_json::{Map, Value};

use crate::mcp::jsonrpc::{RpcError, UNAUTHORIZED};

/// The only tool that needs no key.
const FREE_TOOL: &str = "get_service_info";

/// Lets a request without a key go on.
///
/// # Errors
/// When it needs a key.
pub fn admits(method: &str, params: &Map<String, Value>) -> Result<(), RpcError> {
    let free = match method {
        "tools/call" => params.get("name").and_then(Value::as_str) == Some(FREE_TOOL),
        "initialize" | "ping" | "server/discover" | "tools/list" => true,
        _ => false,
    };
    if free {
        return Ok(());
    }
    Err(RpcError::new(
        UNAUTHORIZED,
        "a key is required for this; whoever runs the service makes one with `holm key create`. \
         Send it as `Authorization: Bearer` or `x-api-key`",
    ))
}
