//! Runs one call, and answers it as JSON or as a stream of events.

use std::time::Duration;

use bytes::Bytes;
use holm_engine::{Error, ErrorKind, KeyEnd, Room};
use hyper::HeaderMap;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::calls::{Over, Ticket};
use super::headers;
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
    /// The key that it was called with.
    pub key: KeyEnd,
}

/// Runs a call to its end, or to the end that came from outside: `None` for a cancelled one.
pub async fn outcome(
    call: Call,
    hold: Hold,
    notify: impl Fn(Value),
) -> Option<Result<Value, RpcError>> {
    let Hold { mut ticket, session, mut key } = hold;
    let (refusal, name) = (call.refusal(), call.name());
    let work = async {
        tokio::select! {
            biased;
            outcome = call.run(notify) => Some(outcome),
            over = ticket.over() => over.error().map(|error| Ok(refusal.result(error))),
            refused = key.refused() => Some(Ok(refusal.result(Error::from(refused).into()))),
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

/// Runs a call and answers in the form that suits it and its client.
pub async fn answer(
    id: Id,
    call: Call,
    hold: Hold,
    headers: &HeaderMap,
    keep_alive: Duration,
    respond: fn(&Id, Result<Value, RpcError>) -> Response,
) -> Response {
    match (headers::reads_events(headers), call.wants_progress()) {
        (true, true) => as_events(id, call, hold),
        (true, false) => as_json_or_events(id, call, hold, keep_alive, respond).await,
        (false, _) => as_json(&id, call, hold, respond).await,
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
fn as_events(id: Id, call: Call, hold: Hold) -> Response {
    let (sender, parts) = mpsc::channel::<Bytes>(EVENTS);
    let task = tokio::spawn(trace::carried(async move {
        // Progress is a courtesy: where the client does not read, it is left out.
        let notify = |message| drop(sender.try_send(reply::event("message", &message)));
        let (outcome, room) = Room::around(outcome(call, hold, notify)).await;
        if let Some(outcome) = outcome {
            let event = room.tie(reply::event("message", &jsonrpc::reply(&id, outcome)));
            // A closed channel means that the client has gone.
            drop(sender.send(event).await);
        }
    }));
    reply::events(parts, task.abort_handle())
}

/// Runs a call for a client that reads events too: what is over soon is a plain answer, what lasts
/// becomes a stream that says that it lives, or a proxy on the way would take the silence for an end.
async fn as_json_or_events(
    id: Id,
    call: Call,
    hold: Hold,
    keep_alive: Duration,
    respond: fn(&Id, Result<Value, RpcError>) -> Response,
) -> Response {
    let mut running = Box::pin(Room::around(outcome(call, hold, |_| {})));
    match timeout(keep_alive, &mut running).await {
        Ok((outcome, room)) => {
            let _kept = room.hand_on();
            return outcome.map_or_else(|| reply::empty(202), |outcome| respond(&id, outcome));
        }
        Err(_it_lasts) => {}
    }
    let (sender, parts) = mpsc::channel::<Bytes>(EVENTS);
    let task = tokio::spawn(trace::carried(async move {
        let mut ticks = tokio::time::interval(keep_alive);
        loop {
            tokio::select! {
                biased;
                (outcome, room) = &mut running => {
                    if let Some(outcome) = outcome {
                        let event = reply::event("message", &jsonrpc::reply(&id, outcome));
                        drop(sender.send(room.tie(event)).await);
                    }
                    return;
                }
                // A full channel is a client that does not read; the connection's bound ends it.
                _ = ticks.tick() => drop(sender.try_send(reply::keep_alive())),
            }
        }
    }));
    reply::events(parts, task.abort_handle())
}

/// Answers a subscription: the acknowledgement, then signs of life until one side ends it.
pub fn listen(subscription: Subscription, hold: Hold, keep_alive: Duration) -> Response {
    let Hold { mut ticket, mut key, .. } = hold;
    let (sender, parts) = mpsc::channel::<Bytes>(EVENTS);
    let task = tokio::spawn(async move {
        drop(sender.send(reply::event("message", &subscription.acknowledgement())).await);
        let mut ticks = tokio::time::interval(keep_alive);
        ticks.tick().await;
        loop {
            tokio::select! {
                over = ticket.over() => {
                    drop(ticket);
                    if over != Over::Cancelled {
                        drop(sender.send(reply::event("message", &subscription.end())).await);
                    }
                    return;
                }
                // The next request says why.
                _ = key.refused() => return,
                // A full channel is a client that does not read; the connection's bound ends it.
                _ = ticks.tick() => drop(sender.try_send(reply::keep_alive())),
            }
        }
    });
    reply::events(parts, task.abort_handle())
}
