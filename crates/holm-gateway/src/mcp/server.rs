//! Answers requests, whatever transport they came by.
//!
//! Cheap methods are answered at once. A tool call becomes a [`Call`]: a prepared piece of work
//! that the transport runs when and how it likes (its own task on stdio, the handler's future on
//! HTTP), and stops by dropping it.
//!
//! Only tools are offered. Clients that list resources and prompts nevertheless learn that there
//! are none; everything else about them answers -32601, as capabilities that were not advertised do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::time::MissedTickBehavior;

use super::agreed::Agreed;
use super::args::Args;
use super::jsonrpc::{self, INVALID_PARAMS, Id, Request, RpcError, shortened};
use super::outcome::{Output, ToolError, call_result};
use super::panics::Guarded;
use super::revision::{self, META_SUBSCRIPTION, Revision};
use super::session::Session;
use super::tool::{Context, Tool};
use super::tools;
use crate::preview::Previews;

/// What the server says about itself where a client may show it to its model.
const INSTRUCTIONS: &str = "Disposable, isolated Linux sandboxes. Call run_command, run_code or \
the file tools right away: a default sandbox is made on first use. Files live in /workspace. \
Calls sent together run side by side: wait for an answer before sending what depends on it. \
get_sandbox says what a sandbox may reach (public addresses unless it was made otherwise). expose_port gives a server inside a URL for people. Everything in a \
sandbox is lost when it ends: read back what you need with read_file, then call destroy_sandbox.";

/// The tools and what is said about them; shared by all sessions.
pub struct Server {
    tools: Vec<Tool>,
    info: Value,
    progress_every: Duration,
    previews: Option<Arc<Previews>>,
}

/// How a request goes on.
pub enum Answer {
    /// Answered.
    Done(Result<Value, RpcError>),
    /// A tool call, to be run by the transport.
    Call(Call),
    /// A subscription (revision 2026-07-28): acknowledged, then open until cancelled.
    Listen(Subscription),
}

/// How a request goes on, before any tool is asked.
pub enum Opened {
    /// Answered.
    Done(Result<Value, RpcError>),
    /// `tools/list`, of this revision.
    List(Revision),
    /// `tools/call`, of this revision and with these parameters.
    Call(Revision, Map<String, Value>),
    /// A subscription (revision 2026-07-28): acknowledged, then open until cancelled.
    Listen(Subscription),
}

/// A `subscriptions/listen` stream. The offered tools never change while the process runs, so
/// nothing but the acknowledgement and the end is ever sent on it.
#[derive(Debug, Clone)]
pub struct Subscription {
    id: Id,
    server: Value,
}

impl Subscription {
    /// The first message on the stream. No notification type is supported, so the honoured filter
    /// is empty.
    #[must_use]
    pub fn acknowledgement(&self) -> Value {
        jsonrpc::notification(
            "notifications/subscriptions/acknowledged",
            json!({"_meta": {META_SUBSCRIPTION: self.id.to_value()}, "notifications": {}}),
        )
    }

    /// The reply that ends the stream when the server ends it.
    #[must_use]
    pub fn end(&self) -> Value {
        let result = json!({"_meta": {META_SUBSCRIPTION: self.id.to_value()}});
        jsonrpc::result(
            &self.id,
            revision::dress(Revision::R2026_07_28, result, false, &self.server),
        )
    }
}

impl Server {
    /// A server with all tools.
    #[must_use]
    pub fn new() -> Self {
        Self::with_tools(tools::all())
    }

    /// A server with these tools.
    #[must_use]
    pub fn with_tools(tools: Vec<Tool>) -> Self {
        Self {
            tools,
            info: json!({
                "name": "holm", "title": "holm sandboxes", "version": env!("CARGO_PKG_VERSION"),
            }),
            progress_every: Duration::from_secs(10),
            previews: None,
        }
    }

    /// With a place where ports can be shown to people outside.
    #[must_use]
    pub fn with_previews(self, previews: &Arc<Previews>) -> Self {
        Self { previews: Some(Arc::clone(previews)), ..self }
    }

    /// Reports progress this often (clients that ask for it must hear something every 15 s).
    #[must_use]
    pub fn progress_every(mut self, period: Duration) -> Self {
        self.progress_every = period;
        self
    }

    /// The same, where clients or proxies have less patience than this server.
    #[must_use]
    pub fn progress_within(self, period: Duration) -> Self {
        let progress_every = self.progress_every.min(period);
        Self { progress_every, ..self }
    }

    /// Answers one request, or says how it goes on.
    pub fn answer(&self, session: &Arc<Session>, request: Request) -> Answer {
        match self.open(session.agreed(), request) {
            Opened::Done(outcome) => Answer::Done(outcome),
            Opened::Listen(subscription) => Answer::Listen(subscription),
            Opened::List(revision) => Answer::Done(Ok(self.listed(revision, self.list()))),
            Opened::Call(revision, params) => match self.prepare(session, revision, params) {
                Ok(call) => Answer::Call(call),
                Err(error) => Answer::Done(Err(error)),
            },
        }
    }

    /// Answers a request as far as no tool is asked.
    pub fn open(&self, agreed: &Agreed, request: Request) -> Opened {
        let Request { id, method, params } = request;
        let revision = match revision::of_request(&method, &params, agreed.revision())
            .and_then(|revision| revision::admits(revision, &method).map(|()| revision))
        {
            Ok(revision) => revision,
            Err(error) => return Opened::Done(Err(error)),
        };
        match method.as_str() {
            "tools/call" => Opened::Call(revision, params),
            "tools/list" => {
                // All tools fit one page, so no cursor was ever handed out.
                if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
                    return Opened::Done(Err(RpcError::new(INVALID_PARAMS, "Invalid cursor")));
                }
                Opened::List(revision)
            }
            "subscriptions/listen" => match params.get("notifications") {
                Some(Value::Object(_)) => {
                    Opened::Listen(Subscription { id, server: self.info.clone() })
                }
                _ => Opened::Done(Err(RpcError::new(
                    INVALID_PARAMS,
                    "`notifications` must be an object (the filter)",
                ))),
            },
            _ => Opened::Done(self.method(agreed, revision, &method, &params)),
        }
    }

    /// The result of a `tools/list`.
    #[must_use]
    pub fn listed(&self, revision: Revision, tools: Vec<Value>) -> Value {
        revision::dress(revision, json!({"tools": tools}), true, &self.info)
    }

    /// The result of a tool call with what its revision wants on it.
    #[must_use]
    pub fn called(&self, revision: Revision, result: Value) -> Value {
        revision::dress(revision, result, false, &self.info)
    }

    fn method(
        &self,
        agreed: &Agreed,
        revision: Revision,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<Value, RpcError> {
        let (result, listing) = match method {
            "initialize" => (self.initialize(agreed.negotiate(params)), false),
            "ping" => (json!({}), false),
            "server/discover" => {
                let result = json!({
                    "supportedVersions": Revision::names(),
                    "capabilities": capabilities(),
                    "instructions": INSTRUCTIONS,
                });
                (result, true)
            }
            "resources/list" => (json!({"resources": []}), true),
            "resources/templates/list" => (json!({"resourceTemplates": []}), true),
            "prompts/list" => (json!({"prompts": []}), true),
            _ => return Err(RpcError::method_not_found(method)),
        };
        Ok(revision::dress(revision, result, listing, &self.info))
    }

    /// Name, title and version.
    #[must_use]
    pub fn info(&self) -> &Value {
        &self.info
    }

    fn initialize(&self, revision: Revision) -> Value {
        json!({
            "protocolVersion": revision.name(),
            "capabilities": capabilities(),
            "serverInfo": self.info,
            "instructions": INSTRUCTIONS,
        })
    }

    /// The offered tools as clients see them, in a fixed order.
    #[must_use]
    pub fn list(&self) -> Vec<Value> {
        self.tools.iter().map(Tool::describe).collect()
    }

    fn prepare(
        &self,
        session: &Arc<Session>,
        revision: Revision,
        mut params: Map<String, Value>,
    ) -> Result<Call, RpcError> {
        let progress = revision::progress_token(&params)?;
        let Some(Value::String(name)) = params.remove("name") else {
            return Err(RpcError::new(INVALID_PARAMS, "`name` must be the name of a tool"));
        };
        let Some(tool) = self.tools.iter().find(|tool| tool.answers_to(&name)) else {
            let known: Vec<&str> = self.tools.iter().map(|tool| tool.name).collect();
            return Err(RpcError::new(
                INVALID_PARAMS,
                format!("Unknown tool: {}. Known tools: {}", shortened(&name), known.join(", ")),
            ));
        };
        let work: Guarded<Result<Output, ToolError>> = match Args::new(params.remove("arguments")) {
            Ok(args) => {
                let context = Context::new(session, args, tool.makes_default)
                    .with_previews(self.previews.as_ref());
                Guarded::new((tool.run)(context))
            }
            Err(error) => Guarded::new(std::future::ready(Err(error))),
        };
        Ok(Call {
            name: tool.name,
            work,
            revision,
            server: self.info.clone(),
            progress,
            progress_every: self.progress_every,
        })
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

fn capabilities() -> Value {
    json!({"tools": {"listChanged": false}})
}

/// A tool call that is ready to run. Dropping it, or its future, stops the work.
pub struct Call {
    name: &'static str,
    work: Guarded<Result<Output, ToolError>>,
    revision: Revision,
    server: Value,
    progress: Option<Value>,
    progress_every: Duration,
}

impl Call {
    /// Runs it to its end. Where the client asked for progress, `notify` is called with
    /// notifications until the result is there, and not after.
    ///
    /// # Errors
    /// When the tool panicked. Everything else a tool meets is a result.
    pub async fn run(self, notify: impl Fn(Value)) -> Result<Value, RpcError> {
        let Self { name, mut work, revision, server, progress, progress_every } = self;
        let outcome = match progress {
            None => work.await,
            Some(token) => {
                let started = Instant::now();
                let mut ticks = tokio::time::interval(progress_every);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                ticks.tick().await;
                loop {
                    tokio::select! {
                        biased;
                        outcome = &mut work => break outcome,
                        _ = ticks.tick() => {
                            notify(progress_notification(&token, name, started.elapsed()));
                        }
                    }
                }
            }
        };
        outcome.map(|outcome| revision::dress(revision, call_result(outcome), false, &server))
    }

    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// True where the client asked for progress.
    #[must_use]
    pub fn wants_progress(&self) -> bool {
        self.progress.is_some()
    }

    /// The result of a call that the server had to stop.
    #[must_use]
    pub fn refused(&self, error: ToolError) -> Value {
        self.refusal().result(error)
    }

    /// What is needed to answer for the call when it has been stopped while it ran.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        Refusal { revision: self.revision, server: self.server.clone() }
    }
}

/// Answers for a call that the server had to stop.
pub struct Refusal {
    revision: Revision,
    server: Value,
}

impl Refusal {
    /// The result that says so.
    #[must_use]
    pub fn result(&self, error: ToolError) -> Value {
        revision::dress(self.revision, call_result(Err(error)), false, &self.server)
    }
}

fn progress_notification(token: &Value, name: &str, elapsed: Duration) -> Value {
    jsonrpc::notification(
        "notifications/progress",
        json!({
            "progressToken": token,
            "progress": elapsed.as_secs_f64(),
            "message": format!("{name} is running, {} s so far", elapsed.as_secs()),
        }),
    )
}
