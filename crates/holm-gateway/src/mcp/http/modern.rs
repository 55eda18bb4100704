//! Requests that stand for themselves (revision 2026-07-28): no session, no default sandbox.

use std::sync::Arc;

use hyper::HeaderMap;
use serde_json::Value;

use super::calls::{Refused, Ticket};
use super::face::McpFace;
use super::run::{self, Hold};
use super::{answer, headers, keyless};
use crate::http::Caller;
use crate::http::reply::Response;
use crate::mcp::jsonrpc::{INTERNAL_ERROR, Id, Message, Request, RpcError};
use crate::mcp::outcome::ToolError;
use crate::mcp::panics::guarded;
use crate::mcp::revision::{self, Revision};
use crate::mcp::server::Answer;
use crate::mcp::session::Session;

/// True for requests that are to be answered here.
#[must_use]
pub fn is_for(headers: &HeaderMap, request: &Request) -> bool {
    let by_header = headers::value(headers, headers::VERSION) == Some(Revision::R2026_07_28.name());
    revision::names_its_own(&request.method, &request.params)
        || (by_header && request.method != "initialize")
}

/// True for messages without a reply that belong to no session: nothing is left to do with them.
#[must_use]
pub fn is_message_for(headers: &HeaderMap, message: &Message) -> bool {
    let modern = Revision::R2026_07_28.name();
    !matches!(message, Message::Request(_))
        && headers::value(headers, headers::VERSION) == Some(modern)
        && headers::value(headers, headers::SESSION).is_none()
}

/// Answers one.
pub async fn answer(
    face: &McpFace,
    caller: &Caller,
    headers: &HeaderMap,
    request: Request,
) -> Response {
    let id = request.id.clone();
    if let Err(error) = judge(headers, &request) {
        return answer::modern(&id, Err(error));
    }
    if *caller == Caller::Keyless
        && let Err(error) = keyless::admits(&request.method, &request.params)
    {
        return answer::error(401, Some(&id), &error);
    }
    let engine = caller.engine(&face.engine);
    let key = engine.key_end();
    let session = Session::stateless(engine, face.default_template.clone());
    let answer = guarded(|| face.server.answer(&Arc::new(session), request));
    match answer.unwrap_or_else(|error| Answer::Done(Err(error))) {
        Answer::Done(outcome) => answer::modern(&id, outcome),
        Answer::Listen(subscription) => match face.streams.enter(None) {
            Ok(ticket) => {
                run::listen(subscription, Hold { ticket, session: None, key }, face.keep_alive)
            }
            Err(refused) => not_taken(&id, refused),
        },
        Answer::Call(call) => {
            let ticket: Ticket = match face.calls.enter(None) {
                Ok(ticket) => ticket,
                Err(Refused::Full(limit)) => {
                    return answer::modern(&id, Ok(call.refused(busy(limit))));
                }
                Err(refused) => return not_taken(&id, refused),
            };
            let hold = Hold { ticket, session: None, key };
            run::answer(id, call, hold, headers, face.keep_alive, answer::modern).await
        }
    }
}

fn judge(headers: &HeaderMap, request: &Request) -> Result<(), RpcError> {
    let Request { method, params, .. } = request;
    // First: which of the two versions is spoken here matters only when they are the same.
    headers::agree_on_version(headers, params)?;
    // Where only the header says so, `_meta` is missing: that is what the error must be about.
    let names_its_own = revision::names_its_own(method, params);
    let method_or_any = if names_its_own { method } else { "server/discover" };
    revision::of_request(method_or_any, params, Revision::R2026_07_28)?;
    headers::agree(headers, method, params)
}

/// A call that finds all places taken.
#[must_use]
pub fn busy(limit: usize) -> ToolError {
    ToolError::new("capacity", format!("{limit} calls are running already"))
        .suggest("Wait until one of them has ended, or cancel one, then call again.")
}

fn not_taken(id: &Id, refused: Refused) -> Response {
    match refused {
        Refused::Over(_) => answer::going_down(Some(id)),
        Refused::Full(limit) => {
            let error: Result<Value, _> = Err(RpcError::new(INTERNAL_ERROR, busy(limit).message));
            answer::modern(id, error)
        }
        // Never for requests without a session.
        Refused::IdInUse => answer::modern(id, Err(RpcError::new(INTERNAL_ERROR, "id in use"))),
    }
}
