//! Requests of sessions (revisions up to 2025-11-25).

use std::sync::Arc;

use holm_engine::Room;
use hyper::HeaderMap;
use serde_json::Value;
use tokio::task::JoinSet;

use super::calls::{Over, Refused};
use super::face::McpFace;
use super::headers::{self, SESSION, VERSION};
use super::run::{self, Hold};
use super::sessions::{Held, NotOpened};
use super::{answer, keyless, modern};
use crate::http::Caller;
use crate::http::reply::{self, Response};
use crate::http::trace;
use crate::mcp::batch;
use crate::mcp::jsonrpc::{
    self, BUSY, INTERNAL_ERROR, INVALID_REQUEST, Id, Message, Request, RpcError,
};
use crate::mcp::panics::guarded;
use crate::mcp::revision::{self, Revision};
use crate::mcp::server::{Answer, Call, Server};
use crate::mcp::session::Session;

/// Answers one message.
pub async fn answer(
    face: &McpFace,
    caller: &Caller,
    headers: &HeaderMap,
    message: Message,
) -> Response {
    let id = match &message {
        Message::Request(request) => Some(request.id.clone()),
        _ => None,
    };
    let is_initialize = matches!(&message, Message::Request(r) if r.method == "initialize");
    if !is_initialize && let Err(error) = known_version(headers) {
        return answer::error(400, id.as_ref(), &error);
    }
    let held = match session(face, caller, headers, id.as_ref()) {
        Ok(Some(held)) => held,
        Ok(None) => match (caller, message) {
            (Caller::Keyless, message) => return without_session(face, caller, message).await,
            (Caller::Known(owner), Message::Request(request)) if is_initialize => {
                return begin(face, owner, request);
            }
            _ => return no_session(id.as_ref()),
        },
        Err(response) => return *response,
    };
    let session_id = held.id.clone();
    let response = match message {
        Message::Request(request) => in_session(face, held, request, headers).await,
        message => {
            take(&held, &message);
            reply::empty(202)
        }
    };
    reply::with(response, SESSION, &session_id)
}

/// Answers a JSON array of messages: one array of replies, or nothing where none wants one.
pub async fn answer_all(
    face: &McpFace,
    caller: &Caller,
    headers: &HeaderMap,
    items: Vec<Value>,
) -> Response {
    let held = match session(face, caller, headers, None) {
        Ok(held) => held,
        Err(response) => return *response,
    };
    let revision = held.as_ref().map(|held| held.session.revision());
    let held = match (batch::judge(revision, items.len()), held) {
        (Ok(()), Some(held)) => held,
        (Ok(()), None) => return no_session(None),
        (Err(error), _) => return answer::error(400, None, &error),
    };
    let session_id = held.id.clone();
    // Dropped with this future, and its tasks with it.
    let mut running = JoinSet::new();
    let (mut replies, mut rooms) = (Vec::new(), Vec::new());
    for item in items {
        match batch::classify(item) {
            Message::Request(request) => match begin_request(&face.server, &held, request) {
                Begun::Done(id, outcome) => replies.push(jsonrpc::reply(&id, outcome)),
                Begun::NoUsableId(error) => replies.push(jsonrpc::error(None, &error)),
                Begun::Call(id, call, hold) => {
                    running.spawn(trace::carried(async move {
                        let outcome = Room::around(run::outcome(call, hold, |_| {}));
                        let (outcome, room) = outcome.await;
                        (outcome.map(|outcome| jsonrpc::reply(&id, outcome)), room)
                    }));
                }
            },
            Message::Invalid { id, error } => replies.push(jsonrpc::error(id.as_ref(), &error)),
            message => take(&held, &message),
        }
    }
    while let Some(ended) = running.join_next().await {
        let Ok((reply, room)) = ended else { continue };
        replies.extend(reply);
        rooms.push(room.hand_on());
    }
    let response = match replies.is_empty() {
        true => reply::empty(202),
        false => reply::json(200, &Value::Array(replies)),
    };
    reply::with(response, SESSION, &session_id)
}

/// DELETE: ends a session and destroys its sandboxes.
pub async fn delete(face: &McpFace, caller: &Caller, headers: &HeaderMap) -> Response {
    let Some(id) = headers::value(headers, SESSION) else {
        return reply::json(400, &serde_json::json!({"error": "Mcp-Session-Id is missing"}));
    };
    match caller {
        Caller::Known(owner) if face.sessions.end(id, owner).await => {
            reply::json(200, &serde_json::json!({"status": "session_terminated"}))
        }
        _ => reply::json(404, &serde_json::json!({"error": "no such session"})),
    }
}

fn known_version(headers: &HeaderMap) -> Result<(), RpcError> {
    match headers::value(headers, VERSION) {
        Some(name) if Revision::named(name).is_none() => Err(revision::unsupported(name)),
        _ => Ok(()),
    }
}

/// The session that the headers name; nothing where they name none.
fn session(
    face: &McpFace,
    caller: &Caller,
    headers: &HeaderMap,
    id: Option<&Id>,
) -> Result<Option<Held>, Box<Response>> {
    let Some(named) = headers::value(headers, SESSION) else { return Ok(None) };
    let held = match caller {
        Caller::Known(owner) => face.sessions.hold(named, owner),
        Caller::Keyless => None,
    };
    match held {
        Some(held) => Ok(Some(held)),
        None => {
            // The same for one that never was, one that is over, and one of somebody else.
            let text = "Invalid request: no such session; begin a new one with initialize";
            let error = RpcError::new(INVALID_REQUEST, text);
            Err(Box::new(answer::error(404, id, &error)))
        }
    }
}

fn no_session(id: Option<&Id>) -> Response {
    let text = "Invalid request: Mcp-Session-Id is missing; begin a session with initialize";
    answer::error(400, id, &RpcError::new(INVALID_REQUEST, text))
}

/// `initialize` without a session begins one.
fn begin(face: &McpFace, owner: &holm_engine::Caller, request: Request) -> Response {
    let id = request.id.clone();
    let held = match face.sessions.open(owner.clone()) {
        Ok(held) => held,
        Err(error @ (NotOpened::Full(_) | NotOpened::Share(_))) => {
            let text = format!("{error}; end one with DELETE, or try again later");
            return answer::error(503, Some(&id), &RpcError::new(BUSY, text));
        }
        Err(error @ NotOpened::NoId) => {
            let error = RpcError::new(INTERNAL_ERROR, error.to_string());
            return answer::error(500, Some(&id), &error);
        }
    };
    let response = match guarded(|| face.server.answer(&held.session, request)) {
        Ok(Answer::Done(outcome)) => answer::legacy(&id, outcome),
        Ok(_) => no_session(Some(&id)),
        Err(error) => answer::error(500, Some(&id), &error),
    };
    reply::with(response, SESSION, &held.id)
}

/// A message of a client without a key: it gets no session, so each stands for itself.
async fn without_session(face: &McpFace, caller: &Caller, message: Message) -> Response {
    let Message::Request(request) = message else { return reply::empty(202) };
    let id = request.id.clone();
    if let Err(error) = keyless::admits(&request.method, &request.params) {
        return answer::error(401, Some(&id), &error);
    }
    let fallback = Revision::R2025_06_18;
    let engine = caller.engine(&face.engine);
    let session = Session::new(engine.clone(), face.default_template.clone(), fallback);
    match guarded(|| face.server.answer(&Arc::new(session), request)) {
        Ok(Answer::Done(outcome)) => answer::legacy(&id, outcome),
        Ok(Answer::Call(call)) => match face.calls.enter(None) {
            Ok(ticket) => {
                let key = engine.key_end();
                let hold = Hold { ticket, session: None, key };
                run::as_json(&id, call, hold, answer::legacy).await
            }
            Err(_) => answer::going_down(Some(&id)),
        },
        Ok(Answer::Listen(_)) => no_session(Some(&id)),
        Err(error) => answer::error(500, Some(&id), &error),
    }
}

/// A message that gets no reply.
fn take(held: &Held, message: &Message) {
    if let Message::Notification { method, params } = message
        && method == "notifications/cancelled"
    {
        held.calls.cancel(params);
    }
}

/// How a request of a session goes on.
enum Begun {
    Done(Id, Result<Value, RpcError>),
    NoUsableId(RpcError),
    Call(Id, Call, Hold),
}

fn begin_request(server: &Server, held: &Held, request: Request) -> Begun {
    let id = request.id.clone();
    let answer = guarded(|| server.answer(&held.session, request));
    let call = match answer.unwrap_or_else(|error| Answer::Done(Err(error))) {
        Answer::Done(outcome) => return Begun::Done(id, outcome),
        // Belongs to requests that stand for themselves, which are not answered here.
        Answer::Listen(_) => {
            let error = RpcError::method_not_found("subscriptions/listen");
            return Begun::Done(id, Err(error));
        }
        Answer::Call(call) => call,
    };
    match held.calls.enter(Some(id.clone())) {
        Ok(ticket) => {
            let key = held.session.engine().key_end();
            Begun::Call(id, call, Hold { ticket, session: Some(held.clone()), key })
        }
        Err(Refused::Full(limit)) => {
            let result = call.refused(modern::busy(limit));
            Begun::Done(id, Ok(result))
        }
        Err(Refused::Over(over)) => {
            let error = over.error().or_else(|| Over::Session.error());
            Begun::Done(id, Ok(error.map(|error| call.refused(error)).unwrap_or_default()))
        }
        // A reply under this id would be taken for that of the call that still runs.
        Err(Refused::IdInUse) => Begun::NoUsableId(RpcError::new(
            INVALID_REQUEST,
            format!("Invalid request: id {} is in use by an unfinished request", id.to_value()),
        )),
    }
}

async fn in_session(face: &McpFace, held: Held, request: Request, headers: &HeaderMap) -> Response {
    let begun = begin_request(&face.server, &held, request);
    drop(held);
    match begun {
        Begun::Done(id, outcome) => answer::legacy(&id, outcome),
        Begun::NoUsableId(error) => answer::error(400, None, &error),
        Begun::Call(id, call, hold) => {
            run::answer(id, call, hold, headers, face.keep_alive, answer::legacy).await
        }
    }
}
