//! A running command as server-sent events: `stdout`, `stderr`, and at last `exit` or `error`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holm_engine::{ExecEvent, ExecStream, SandboxId};
use hyper::HeaderMap;
use hyper::header::ACCEPT;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at};

use super::exec::CommandEnd;
use super::failure::Failure;
use super::over::Over;
use super::text::sandbox_id_schema;
use crate::http::reply::{self, Response};
use crate::http::trace;

/// Events that may wait for the client to read.
const EVENTS: usize = 4;

/// Data of the events `stdout` and `stderr`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExecText {
    /// What was written, in whole characters.
    pub text: String,
}

/// Data of the event `exit`, the last one.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExecExit {
    /// Where it ran.
    #[schemars(schema_with = "sandbox_id_schema")]
    pub sandbox_id: SandboxId,
    /// How.
    #[serde(flatten)]
    pub end: CommandEnd,
}

/// Whether a request asks for events: in its body, else by what it accepts.
#[must_use]
pub fn wanted(headers: &HeaderMap, stream: Option<bool>) -> bool {
    stream.unwrap_or_else(|| {
        let accepts = |kind: &str| {
            headers.get_all(ACCEPT).iter().any(|value| {
                let kinds = value.to_str().unwrap_or_default().to_ascii_lowercase();
                kinds.split(',').any(|one| one.split(';').next().map(str::trim) == Some(kind))
            })
        };
        accepts("text/event-stream") && !accepts("application/json")
    })
}

fn told(id: SandboxId, event_of: ExecEvent) -> Bytes {
    match event_of {
        ExecEvent::Stdout(text) => reply::event("stdout", &ExecText { text }),
        ExecEvent::Stderr(text) => reply::event("stderr", &ExecText { text }),
        ExecEvent::Exit(result) => {
            reply::event("exit", &ExecExit { sandbox_id: id, end: (*result).into() })
        }
    }
}

/// Sends what happens until the command has ended, or its client has gone.
async fn follow(
    id: SandboxId,
    stream: &mut ExecStream,
    sender: &mpsc::Sender<Bytes>,
    pause: Duration,
) -> Option<Failure> {
    let mut ticks = interval_at(Instant::now() + pause, pause);
    loop {
        let next = tokio::select! {
            biased;
            next = stream.next() => next,
            _ = ticks.tick() => {
                // A full channel is a client that does not read; the connection's bound ends it.
                drop(sender.try_send(reply::keep_alive()));
                continue;
            }
        };
        let bytes = match next {
            Ok(None) => return None,
            Ok(Some(event)) => told(id, event),
            Err(error) => return Some(error.into()),
        };
        if sender.send(bytes).await.is_err() {
            return None;
        }
        ticks.reset();
    }
}

/// The response that tells of a command, with a sign of life in each `pause` without news. Dropping
/// its body ends the command.
#[must_use]
pub fn response(
    id: SandboxId,
    mut stream: ExecStream,
    request_id: Arc<str>,
    pause: Duration,
    mut over: Over,
) -> Response {
    let (sender, parts) = mpsc::channel::<Bytes>(EVENTS);
    let task = tokio::spawn(trace::carried(async move {
        let failure = tokio::select! {
            biased;
            failure = follow(id, &mut stream, &sender, pause) => failure,
            failure = over.failure() => Some(failure),
        };
        // The command ends with the stream, before anybody has to read that it did.
        drop(stream);
        if let Some(failure) = failure {
            drop(sender.send(reply::event("error", &failure.body(&request_id))).await);
        }
    }));
    reply::events(parts, task.abort_handle())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_sent_to_those_who_ask_for_them() {
        let check = |accept: &[&'static str], stream: Option<bool>, want: bool| {
            let mut headers = HeaderMap::new();
            for value in accept {
                headers.append(ACCEPT, value.parse().expect("a value"));
            }
            assert_eq!(wanted(&headers, stream), want, "{accept:?} {stream:?}");
        };
        check(&[], None, false);
        check(&["*/*"], None, false);
        check(&["text/event-stream"], None, true);
        check(&["Text/Event-Stream; q=0.9, */*"], None, true);
        check(&["application/json, text/event-stream"], None, false);
        check(&["application/json", "text/event-stream"], None, false);
        check(&["text/event-stream"], Some(false), false);
        check(&["application/json"], Some(true), true);
    }
}
