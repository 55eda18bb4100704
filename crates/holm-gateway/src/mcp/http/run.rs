//! Runs one call, and answers it as JSON or as a stream of events.

use std::time::Duration;

use bytes::Bytes;
use holm_engine::ErrorKind;
use serde_json::Value;
use tokio::sync::mpsc;

use super::calls::{Over, Ticket};
use super::sessions::Held;
use crate::http::reply::{self, Response};
use crate::http::trace;
use crate::mcp::jsonrpc::{self, Id, RpcError};
use crate::mcp::server::{Call, Subscription};

/// Events that may wait for the client to read.
const EVENTS: usize = 8;

/// What a running call holds on to.
pub struct Hold {
    /// Its place among the running calls.
    pub ticket: Ticket,
    /// Its session, if it has one.
    pub session: Option<Held>,
}

/// Runs a call to its end, or to the end that came from outside: `None` for a cancelled one.
pub async fn outcome(
    call: Call,
    hold: Hold,
    notify: impl Fn(Value),
) -> Option<Result<Value, RpcError>> {
    let Hold { mut ticket, session } = hold;
    let (refusal, name) = (call.refusal(), call.name());
    let work = async {
        tokio::select! {
            biased;
            outcome = call.run(notify) => Some(outcome),
            over = ticket.over() => over.error().map(|error| Ok(refusal.result(error))),
        }
    };
    let outcome = trace::call(name, work, judge).await;
    // Before the answer is on its way: a client may use the id again as soon as it has it.
    drop(ticket);
    drop(session);
    outcome
}

/// How a call went, for its span.
fn judge(outcome: &Option<Result<Value, RpcError>>) -> &'static str {
    match outcome {
        None => "cancelled",
        Some(Err(_)) => ErrorKind::Internal.as_str(),
        Some(Ok(result)) if result["isError"] != true => "ok",
        Some(Ok(result)) => match result["structuredContent"]["error"]["code"].as_str() {
            Some(code) => ErrorKind::ALL
                .into_iter()
                .map(ErrorKind::as_str)
                .find(|kind| *kind == code)
                .unwrap_or("refused"),
            None => "failed",
        },
    }
}

/// Runs a call whose answer is the response. Dropping the future stops the call.
pub async fn as_json(
    id: &Id,
    call: Call,
    hold: Hold,
    respond: fn(&Id, Result<Value, RpcError>) -> Response,
) -> Response {
    match outcome(call, hold, |_| {}).await {
        Some(outcome) => respond(id, outcome),
        None => reply::empty(202),
    }
}

/// Runs a call beside the response, which is a stream of progress and at last the answer. Dropping
/// the response's body stops the call.
pub fn as_events(id: Id, call: Call, hold: Hold) -> Response {
    let (sender, parts) = mpsc::channel::<Bytes>(EVENTS);
    let task = tokio::spawn(trace::carried(async move {
        // Progress is a courtesy: where the client does not read, it is left out.
        let notify = |message| drop(sender.try_send(reply::event(&message)));
        if let Some(outcome) = outcome(call, hold, notify).await {
            // A closed channel means that the client has gone.
            drop(sender.send(reply::event(&jsonrpc::reply(&id, outcome))).await);
        }
    }));
    reply::events(parts, task.abort_handle())
}

/// Answers a subscription: the acknowledgement, then signs of life until one side ends it.
pub fn listen(subscription: Subscription, mut ticket: Ticket, keep_alive: Duration) -> Response {
    let (sender, parts) = mpsc::channel::<Bytes>(EVENTS);
    let task = tokio::spawn(async move {
        drop(sender.send(reply::event(&subscription.acknowledgement())).await);
        let mut ticks = tokio::time::interval(keep_alive);
        ticks.tick().await;
        loop {
            tokio::select! {
                over = ticket.over() => {
                    drop(ticket);
                    if over != Over::Cancelled {
                        drop(sender.send(reply::event(&subscription.end())).await);
                    }
                    return;
                }
                // A full channel is a client that does not read; the connection's bound ends it.
                _ = ticks.tick() => drop(sender.try_send(reply::keep_alive())),
            }
        }
    });
    reply::events(parts, task.abort_handle())
}
