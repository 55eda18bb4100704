//! JSON arrays of messages, which one revision has.

use serde_json::Value;

use super::jsonrpc::{self, INVALID_REQUEST, Message, RpcError};
use super::revision::Revision;

/// Messages in one at most.
const MOST: usize = 100;

/// Judges one of `count` messages.
///
/// # Errors
/// Where there is no such revision, or it is empty or too long.
pub fn judge(revision: Option<Revision>, count: usize) -> Result<(), RpcError> {
    let problem = match count {
        _ if revision != Some(Revision::R2025_03_26) => {
            "batches belong to revision 2025-03-26 only; send one message at a time".to_owned()
        }
        0 => "the batch is empty".to_owned(),
        1..=MOST => return Ok(()),
        _ => format!("a batch may hold {MOST} messages, this one has {count}"),
    };
    Err(RpcError::new(INVALID_REQUEST, format!("Invalid request: {problem}")))
}

/// One message of it.
#[must_use]
pub fn classify(item: Value) -> Message {
    match jsonrpc::classify(item) {
        Message::Request(request) if request.method == "initialize" => {
            let text = "Invalid request: `initialize` must not be part of a batch";
            let error = RpcError::new(INVALID_REQUEST, text);
            Message::Invalid { id: Some(request.id), error }
        }
        message => message,
    }
}
