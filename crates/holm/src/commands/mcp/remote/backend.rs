//! Answers a client on stdio by the tools of a service.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holm_client::mcp::{Call, Endpoint};
use holm_gateway::mcp::Server;
use holm_gateway::mcp::agreed::Agreed;
use holm_gateway::mcp::backend::{Backend, Begun, Boxed, Notify, Work};
use holm_gateway::mcp::jsonrpc::{self, Request, RpcError};
use holm_gateway::mcp::outcome::{ToolError, call_result};
use holm_gateway::mcp::panics::Guarded;
use holm_gateway::mcp::revision::{self, Revision};
use holm_gateway::mcp::server::Opened;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::failure::{self, Names};

/// How long a call waits at most until the one before it was taken. Only a service that cannot be
/// reached, or something that holds its answers back, takes so long.
const ORDER: Duration = Duration::from_secs(10);
/// How long the end of the session may take.
const CLOSE: Duration = Duration::from_secs(10);
/// What the protocol's own keys in `_meta` begin with: they are about this connection.
const OWN: &str = "io.modelcontextprotocol/";

/// One client, served by a service.
pub struct Remote {
    shared: Arc<Shared>,
    agreed: Agreed,
    /// What `create_sandbox` gets where it says nothing.
    defaults: Vec<(&'static str, Value)>,
    /// Tools that use a sandbox, and take the default where none is named.
    in_sandboxes: HashSet<String>,
    /// Resolves when the last call was taken.
    last: Mutex<Option<oneshot::Receiver<()>>>,
}

struct Shared {
    endpoint: Arc<Endpoint>,
    server: Server,
    names: Names,
}

impl Remote {
    /// A client of `endpoint`. `defaults` are arguments that `create_sandbox` gets where it has none
    /// of that name.
    pub fn new(
        endpoint: Arc<Endpoint>,
        key_variable: &'static str,
        url_variable: &'static str,
        defaults: Vec<(&'static str, Value)>,
    ) -> Arc<Self> {
        let server = Server::new();
        let takes_sandbox =
            |tool: &&Value| tool["inputSchema"]["properties"]["sandbox_id"].is_object();
        let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
        let mut in_sandboxes: HashSet<String> =
            server.list().iter().filter(takes_sandbox).map(name).collect();
        in_sandboxes.insert("kill_sandbox".to_owned());
        let names = Names { key: key_variable, url: url_variable };
        Arc::new(Self {
            shared: Arc::new(Shared { endpoint, server, names }),
            agreed: Agreed::new(Revision::R2024_11_05),
            defaults,
            in_sandboxes,
            last: Mutex::default(),
        })
    }

    /// What goes to the service.
    fn call(&self, mut params: Map<String, Value>) -> Prepared {
        let arguments = params.get("arguments").and_then(Value::as_object);
        let tool = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let names_one =
            arguments.and_then(|all| all.get("sandbox_id")).is_some_and(|id| !id.is_null());
        let uses_default = self.in_sandboxes.contains(tool) && !names_one;
        if tool == "create_sandbox" && !self.defaults.is_empty() {
            let mut arguments = arguments.cloned().unwrap_or_default();
            for (name, value) in &self.defaults {
                arguments.entry(*name).or_insert_with(|| value.clone());
            }
            params.insert("arguments".to_owned(), arguments.into());
        }
        let token = params.get_mut("_meta").and_then(Value::as_object_mut).and_then(|meta| {
            meta.retain(|key, _| !key.starts_with(OWN));
            meta.remove("progressToken")
        });
        let (taken, is_taken) = oneshot::channel();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.replace(is_taken);
        Prepared { call: Call { params, uses_default, taken }, before, token }
    }
}

struct Prepared {
    call: Call,
    /// Resolves when the call before was taken.
    before: Option<oneshot::Receiver<()>>,
    /// Where the client hears of progress.
    token: Option<Value>,
}

impl Backend for Remote {
    fn answer(&self, request: Request) -> Begun {
        let shared = Arc::clone(&self.shared);
        match shared.server.open(&self.agreed, request) {
            Opened::Done(outcome) => Begun::Done(outcome),
            Opened::Listen(subscription) => Begun::Listen(subscription),
            Opened::List(revision) => Begun::Work(Box::new(Listing { shared, revision })),
            Opened::Call(revision, params) => match revision::progress_token(&params) {
                Ok(_) => {
                    Begun::Work(Box::new(Calling { shared, revision, prepared: self.call(params) }))
                }
                Err(error) => Begun::Done(Err(error)),
            },
        }
    }

    fn revision(&self) -> Revision {
        self.agreed.revision()
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(async {
            if timeout(CLOSE, self.shared.endpoint.close()).await.is_err() {
                tracing::warn!("the service did not end the session in time");
            }
        })
    }
}

/// A `tools/list`.
struct Listing {
    shared: Arc<Shared>,
    revision: Revision,
}

impl Work for Listing {
    fn run(self: Box<Self>, _: Notify) -> Boxed<'static, Result<Value, RpcError>> {
        let Self { shared, revision } = *self;
        Box::pin(async move {
            let tools = match shared.endpoint.tools().await {
                Ok(tools) => tools,
                // Clients ask once. Without tools they would never find out that it is back.
                Err(failure) => {
                    let error = failure::explain(failure, &shared.names);
                    let error = error.map_or_else(|error| error.to_string(), |e| e.to_string());
                    tracing::warn!(
                        error,
                        "the service does not list its tools; these are holm's own"
                    );
                    shared.server.list()
                }
            };
            Ok(shared.server.listed(revision, tools))
        })
    }

    fn refused(&self, error: ToolError) -> Result<Value, RpcError> {
        Err(RpcError::new(jsonrpc::INVALID_REQUEST, error.message))
    }
}

/// A `tools/call`.
struct Calling {
    shared: Arc<Shared>,
    revision: Revision,
    prepared: Prepared,
}

impl Work for Calling {
    fn run(self: Box<Self>, notify: Notify) -> Boxed<'static, Result<Value, RpcError>> {
        let Self { shared, revision, prepared } = *self;
        let Prepared { call, before, token } = prepared;
        let work = Guarded::new(async move {
            if let Some(before) = before {
                // An error means the same: the call before is over.
                let _taken = timeout(ORDER, before).await;
            }
            let progress = move |mut params: Map<String, Value>| {
                if let Some(token) = &token {
                    params.insert("progressToken".to_owned(), token.clone());
                    notify(jsonrpc::notification("notifications/progress", params.into()));
                }
            };
            let outcome = shared.endpoint.call(call, &progress).await;
            let result = match outcome {
                Ok(result) => result,
                Err(failure) => call_result(Err(failure::explain(failure, &shared.names)?)),
            };
            Ok(shared.server.called(revision, result))
        });
        Box::pin(async move { work.await? })
    }

    fn refused(&self, error: ToolError) -> Result<Value, RpcError> {
        Ok(self.shared.server.called(self.revision, call_result(Err(error))))
    }
}
