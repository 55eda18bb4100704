//! The endpoint: paths, methods, bodies, and the way down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use holm_engine::{Engine, Room};
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Request};
use serde_json::json;

use super::calls::{Calls, Over};
use super::sessions::{SessionRules, Sessions};
use super::{answer, card, legacy, modern};
use crate::http::body::{BodyError, Intake};
use crate::http::face::{Answering, Face};
use crate::http::reply::{self, Response};
use crate::http::trace;
use crate::http::{Caller, Door, Limits};
use crate::mcp::jsonrpc::{self, BUSY, INVALID_REQUEST, Message, RpcError, Text};
use crate::mcp::panics::Guarded;
use crate::mcp::server::Server;

const WELL_KNOWN_CARD: &str = "/.well-known/mcp/server-card.json";
const ENDPOINTS: [&str; 2] = ["/mcp", "/v1/mcp"];
const ENDPOINT_CARDS: [&str; 2] = ["/mcp/server-card", "/v1/mcp/server-card"];
const ROUTES: [&[&str]; 3] = [&ENDPOINTS, &ENDPOINT_CARDS, &[WELL_KNOWN_CARD]];
/// Methods of the endpoint.
const ALLOW: &str = "POST, DELETE";
/// Calls without a session that may run at once, and subscriptions that may be open.
const MAX_CALLS: usize = 512;
/// See [`HttpOptions::keep_alive`].
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What the endpoint is made of.
pub struct HttpOptions {
    /// The engine. Whoever's handle this is: calls are made for the caller of each request.
    pub engine: Engine,
    /// The tools.
    pub server: Arc<Server>,
    /// Template of sandboxes whose creator names none; the engine's default where absent.
    pub default_template: Option<String>,
    /// Who may ask.
    pub door: Arc<Door>,
    /// The bounds of bodies.
    pub limits: Limits,
    /// How long sessions last.
    pub sessions: SessionRules,
    /// How often a stream without news says that it lives. [`KEEP_ALIVE`] suits clients and proxies.
    pub keep_alive: Duration,
}

/// MCP on `/mcp` and `/v1/mcp`.
pub struct McpFace {
    pub(super) engine: Engine,
    pub(super) server: Arc<Server>,
    pub(super) default_template: Option<String>,
    pub(super) sessions: Sessions,
    /// Running calls without a session.
    pub(super) calls: Arc<Calls>,
    /// Open subscriptions.
    pub(super) streams: Arc<Calls>,
    pub(super) keep_alive: Duration,
    door: Arc<Door>,
    intake: Intake,
    stopping: AtomicBool,
}

impl McpFace {
    /// The endpoint, and the task that ends its idle sessions. Needs a tokio runtime.
    #[must_use]
    pub fn start(options: HttpOptions) -> Arc<Self> {
        let HttpOptions { engine, server, default_template, door, limits, sessions, keep_alive } =
            options;
        let face = Arc::new(Self {
            sessions: Sessions::new(engine.clone(), default_template.clone(), sessions),
            engine,
            server,
            default_template,
            calls: Calls::new(MAX_CALLS),
            streams: Calls::new(MAX_CALLS),
            keep_alive,
            door,
            intake: Intake::new(&limits),
            stopping: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&face);
        let mut ticks = tokio::time::interval(face.sessions.sweep_every());
        tokio::spawn(async move {
            loop {
                ticks.tick().await;
                let Some(face) = weak.upgrade() else { return };
                face.sessions.sweep();
            }
        });
        face
    }

    /// How many sessions there are.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.count()
    }

    /// Ends all sessions, not their sandboxes. For the end, when no request runs any more.
    pub async fn close(&self) {
        self.sessions.close().await;
    }

    async fn respond(&self, request: Request<Incoming>) -> Response {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        if let Some(route) = ROUTES.into_iter().flatten().find(|route| **route == path) {
            trace::route(route);
        }
        if path == WELL_KNOWN_CARD || ENDPOINT_CARDS.contains(&path) {
            return self.card(&head);
        }
        let caller = match self.door.enter(&head).await {
            Ok(caller) => caller,
            Err(why) => {
                self.intake.discard(&head, body).await;
                return answer::stopped(why);
            }
        };
        match head.method {
            Method::POST => match self.body(&caller, &head, body).await {
                Ok(body) => self.post(&caller, &head, body).await,
                Err(error) => refused_body(error),
            },
            Method::DELETE => legacy::delete(self, &caller, &head.headers).await,
            _ => {
                let error = json!({"error": "method not allowed; there is no stream to GET here"});
                reply::with(reply::json(405, &error), "allow", ALLOW)
            }
        }
    }

    /// What needs no key is short: who has none takes no room from those who have one.
    async fn body(
        &self,
        caller: &Caller,
        head: &Parts,
        body: Incoming,
    ) -> Result<Bytes, BodyError> {
        match caller {
            Caller::Keyless => self.intake.take_small(head, body).await,
            Caller::Known(_) => self.intake.of(caller).take(head, body).await,
        }
    }

    async fn post(&self, caller: &Caller, head: &Parts, body: Bytes) -> Response {
        let text = jsonrpc::parse(body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&body));
        drop(body);
        if self.stopping.load(Ordering::SeqCst) {
            return match &text {
                Text::One(Message::Request(request)) => answer::going_down(Some(&request.id)),
                _ => answer::going_down(None),
            };
        }
        match text {
            Text::Batch(items) => legacy::answer_all(self, caller, &head.headers, items).await,
            Text::One(Message::Invalid { id, error }) => answer::error(400, id.as_ref(), &error),
            Text::One(Message::Request(request)) if modern::is_for(&head.headers, &request) => {
                modern::answer(self, caller, &head.headers, request).await
            }
            Text::One(message) if modern::is_message_for(&head.headers, &message) => {
                reply::empty(202)
            }
            Text::One(message) => legacy::answer(self, caller, &head.headers, message).await,
        }
    }

    fn card(&self, head: &Parts) -> Response {
        if let Err(why) = self.door.enter_public(head) {
            return answer::stopped(why);
        }
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return reply::with(reply::text(405, "method not allowed\n"), "allow", "GET, HEAD");
        }
        let card = match head.uri.path() {
            WELL_KNOWN_CARD => card::well_known(&self.server, head, self.door.needs_key()),
            _ => card::of_endpoint(&self.server, head, self.door.needs_key()),
        };
        reply::json(200, &card)
    }
}

fn refused_body(error: BodyError) -> Response {
    let code = if error == BodyError::Crowded { BUSY } else { INVALID_REQUEST };
    let message = match error {
        BodyError::Crowded => error.to_string(),
        _ => format!("Invalid request: {error}"),
    };
    let response = answer::error(error.status(), None, &RpcError::new(code, message));
    match error {
        // What is left of the body would be taken for the next request.
        BodyError::TooLong(_) | BodyError::Slow => reply::with(response, "connection", "close"),
        _ => response,
    }
}

impl Face for McpFace {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn serves(&self, path: &str) -> bool {
        ROUTES.into_iter().flatten().any(|route| *route == path)
    }

    fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answering {
        let answering = Guarded::new(async move {
            let (mut response, room) = Room::around(self.respond(request)).await;
            response.body_mut().tie(room);
            response
        });
        Box::pin(
            async move { answering.await.unwrap_or_else(|error| answer::error(500, None, &error)) },
        )
    }

    fn refuse(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.streams.end(Over::Server);
    }

    fn finish(&self) {
        self.calls.end(Over::Server);
        self.sessions.stop_calls();
    }
}
