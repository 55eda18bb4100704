//! What an answer of the endpoint says.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind};
use crate::response::Response;
use crate::retry;
use crate::sse::Events;

/// Bytes of one message at most. The largest are files that are read: 16 MiB, in two forms.
const MESSAGE: usize = 128 << 20;
/// Bytes of an answer that is no result.
const REFUSAL: usize = 64 << 10;
/// Characters of a service's text that are shown.
const SHOWN: usize = 400;
/// The longest pause within an answer that has begun. The service says something every 10 s.
const SILENCE: Duration = Duration::from_secs(90);

/// A request that got no result.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// A JSON-RPC error.
    Rpc {
        /// Its code.
        code: i64,
        /// Its text.
        message: String,
        /// What came with it.
        data: Option<Value>,
    },
    /// An answer that is none of MCP, or that it refuses everything for now.
    Refused {
        /// The status.
        status: u16,
        /// What it says, cut; may be empty.
        message: String,
        /// When to come again, if it says so.
        retry_after: Option<Duration>,
    },
    /// No whole answer.
    Http(Error),
    /// The session is over, and with it the default sandbox that this call was for. Nothing was
    /// done; the next call has a new session.
    DefaultLost,
    /// The session was closed from this side.
    Closed,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Http(error)
    }
}

/// Reads the answer to request `id`; `progress` hears what comes before it.
pub(super) async fn read(
    mut response: Response,
    id: u64,
    progress: &(dyn Fn(Map<String, Value>) + Send + Sync),
) -> Result<Value, Failure> {
    if response.status != 200 {
        return Err(refusal(response).await);
    }
    if !response.is_events() {
        let body = response.bytes(MESSAGE, SILENCE).await?;
        let message = serde_json::from_slice(&body).map_err(|_| no_message())?;
        return outcome(message);
    }
    let mut events = Events::new(MESSAGE);
    // Something that stands before the service may hold the stream back until its end: only one
    // that has begun to flow must go on.
    let mut silence = None;
    loop {
        let too_long = |_| Error::new(ErrorKind::TooLong, "the service's answer is too long");
        while let Some(data) = events.take().map_err(too_long)? {
            let mut message: Value = serde_json::from_slice(&data).map_err(|_| no_message())?;
            if message.get("method").is_none() && message["id"] == id {
                // Read to its end, so that the connection can be used again.
                if tokio::time::timeout(Duration::from_millis(200), response.chunk(None))
                    .await
                    .is_err()
                {
                    tracing::debug!("the stream goes on after its answer");
                }
                return outcome(message);
            }
            if message["method"] == "notifications/progress"
                && let Value::Object(params) = message["params"].take()
            {
                progress(params);
            }
        }
        match response.chunk(silence).await? {
            Some(chunk) => events.push(&chunk),
            None => {
                let text = "the service ended the stream without an answer";
                return Err(Error::new(ErrorKind::Broken, text).into());
            }
        }
        silence = Some(SILENCE);
    }
}

fn no_message() -> Failure {
    Error::new(ErrorKind::Protocol, "the service answers something that is not MCP").into()
}

fn outcome(mut message: Value) -> Result<Value, Failure> {
    if let Some(result) = message.get_mut("result") {
        return Ok(result.take());
    }
    Err(rpc(&mut message).unwrap_or_else(no_message))
}

fn rpc(message: &mut Value) -> Option<Failure> {
    let error = message.get_mut("error")?;
    Some(Failure::Rpc {
        code: error["code"].as_i64()?,
        message: shown(error["message"].as_str()?),
        data: error.get_mut("data").map(Value::take),
    })
}

/// An answer with another status than 200.
pub(super) async fn refusal(mut response: Response) -> Failure {
    let status = response.status;
    let retry_after = retry::after(&response.headers);
    let body = match response.bytes(REFUSAL, SILENCE).await {
        Ok(body) => body,
        // What it wanted to say is lost; that it refuses is not.
        Err(_) => bytes::Bytes::new(),
    };
    let mut message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = ["message", "error", "title"].iter().find_map(|name| message[*name].as_str());
    let text = message["error"]["message"].as_str().or(text).map(shown).unwrap_or_default();
    // Errors of the envelope are meant for whoever wrote it; the others are about the service.
    match rpc(&mut message) {
        Some(error) if matches!(status, 400 | 404) => error,
        _ => Failure::Refused { status, message: text, retry_after },
    }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
