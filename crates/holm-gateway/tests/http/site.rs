//! A server in a world of its own, and short words for talking to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use holm_engine::{Engine, EngineSettings, KeyId, KeyScope, NewAccount, NewKey, Rate};
use holm_gateway::http::origin::Origins;
use holm_gateway::http::trace::Collect;
use holm_gateway::http::{Access, Door, KeyAccess, Limits};
use holm_gateway::mcp::http::KEEP_ALIVE;
use holm_gateway::mcp::http::sessions::SessionRules;
use holm_gateway::mcp::tool::{Hints, Tool};
use holm_gateway::mcp::{Server, schema};
use holm_gateway::site::SiteOptions;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::wire::{Reply, Wire};
use crate::world::{HANG, World, reaches};

/// What a test may choose.
pub struct Setup {
    world: Arc<World>,
    pub engine: Engine,
    pub access: Access,
    pub limits: Limits,
    pub sessions: SessionRules,
    pub server: Server,
    pub keep_alive: Duration,
    pub traces: Option<Arc<dyn Collect>>,
}

impl Setup {
    /// Another engine with these settings, for what is set after this.
    pub fn rebuild(&mut self, change: impl FnOnce(&mut EngineSettings)) {
        self.engine = self.world.engine(change);
    }
}

/// Keys of accounts decide who is let in.
pub fn with_keys(setup: &mut Setup) {
    setup.access = Access::Keys(KeyAccess::new(setup.engine.clone(), Rate::UNLIMITED));
}

/// A running server.
pub struct Site {
    pub world: Arc<World>,
    pub address: SocketAddr,
    /// Its operator's.
    pub engine: Engine,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Site {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Setup)) -> Self {
        let (world, engine) = World::new();
        let mut setup = Setup {
            world: Arc::clone(&world),
            engine,
            access: Access::Open,
            limits: Limits::default(),
            sessions: SessionRules::default(),
            server: Server::new(),
            keep_alive: KEEP_ALIVE,
            traces: None,
        };
        change(&mut setup);
        let engine = setup.engine;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let origins = Origins::new(address, vec!["https://app.example".to_owned()]);
        let site = holm_gateway::site::Site::new(SiteOptions {
            limits: setup.limits,
            sessions: setup.sessions,
            server: setup.server,
            keep_alive: setup.keep_alive,
            traces: setup.traces,
            ..SiteOptions::new(engine.clone(), Door::new(origins, setup.access))
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let operator = engine.clone();
        let serving = tokio::spawn(async move {
            let stopped = async {
                // A dropped sender is no signal.
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            site.serve(listener, stopped).await;
            engine.shutdown().await;
        });
        Self { world, address, engine: operator, stop: Some(stop), serving }
    }

    /// A key of a new account.
    pub async fn key(&self) -> (KeyId, String) {
        self.key_with(&[KeyScope::Read, KeyScope::Sandboxes]).await
    }

    /// The same with these scopes.
    pub async fn key_with(&self, scopes: &[KeyScope]) -> (KeyId, String) {
        let request = NewAccount { name: "a".to_owned(), ..NewAccount::default() };
        let account = self.engine.account_create(request).await.expect("an account");
        let scopes = scopes.iter().copied().collect();
        let wanted = NewKey { scopes, ..NewKey::new(account.id, "k") };
        let made = self.engine.key_create(wanted).await.expect("a key");
        (made.key.id, made.text.reveal().to_owned())
    }

    pub async fn wire(&self) -> Wire {
        Wire::to(self.address).await
    }

    /// One request on a connection of its own.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        self.sent(method, path, headers, body).await.reply().await
    }

    /// One request, and the connection on which its answer comes.
    pub async fn sent(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Wire {
        let mut wire = self.wire().await;
        wire.send(method, path, headers, body).await;
        wire
    }

    /// A request of REST with a JSON body, or none.
    pub async fn rest(&self, method: &str, path: &str, key: &str, body: Value) -> Reply {
        let mut headers = vec![("content-type", "application/json")];
        if !key.is_empty() {
            headers.push(("x-api-key", key));
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.ask(method, path, &headers, body.as_bytes()).await
    }

    pub async fn post(&self, headers: &[(&str, &str)], body: impl ToString) -> Reply {
        self.ask("POST", "/mcp", headers, body.to_string().as_bytes()).await
    }

    /// A new session's id.
    pub async fn session(&self) -> String {
        self.session_of(&[], "2025-11-25").await
    }

    pub async fn session_of(&self, headers: &[(&str, &str)], revision: &str) -> String {
        let body = request(1, "initialize", json!({"protocolVersion": revision}));
        let reply = self.post(headers, body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.json()["result"]["protocolVersion"], revision);
        reply.header("mcp-session-id").expect("a session").to_owned()
    }

    /// A tool call in a session; its structured content.
    pub async fn tool(&self, session: &str, name: &str, arguments: Value) -> Value {
        let reply = self.post(&[("mcp-session-id", session)], call(7, name, arguments)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["result"]["structuredContent"].take()
    }

    /// Sends a command that does not end by itself (`gate`, `hang`) and waits until it runs.
    pub async fn running(&self, session: &str, id: i64, command: &str) -> Wire {
        self.running_with(&[("mcp-session-id", session)], command_call(id, command)).await
    }

    pub async fn running_with(&self, headers: &[(&str, &str)], body: Value) -> Wire {
        let others = *self.world.running.borrow();
        let wire = self.sent("POST", "/mcp", headers, body.to_string().as_bytes()).await;
        reaches(&self.world.running, others + 1).await;
        wire
    }

    /// Asks the server to stop.
    pub fn stop(&mut self) {
        self.stop.take().expect("one signal").send(()).expect("serving");
    }

    /// Waits until it has; nothing runs and nothing lives then.
    pub async fn ended(self) {
        timeout(HANG, self.serving).await.expect("an end in time").expect("no panic");
        assert_eq!((*self.world.running.borrow(), *self.world.alive.borrow()), (0, 0));
    }
}

pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

pub fn call(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

/// A tool whose handler panics.
pub fn broken_tool() -> Tool {
    Tool {
        name: "broken",
        hidden_names: &[],
        title: "Broken",
        description: "Panics.",
        hints: Hints::Reads,
        input: schema::input(&[], &[]),
        output: schema::output(&[], &[]),
        makes_default: false,
        run: |_| Box::pin(async { panic!("wanted by a test") }),
    }
}

pub fn command_call(id: impl Into<Value>, command: &str) -> Value {
    call(id, "run_command", json!({"command": command}))
}

/// Headers of a request.
pub type Headers = Vec<(String, String)>;

/// A request of the stateless revision, with what it needs in body and headers.
pub fn modern(id: i64, method: &str, mut params: Value) -> (Headers, Value) {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut headers = vec![
        ("mcp-protocol-version".to_owned(), "2026-07-28".to_owned()),
        ("mcp-method".to_owned(), method.to_owned()),
    ];
    if let Some(name) = params["name"].as_str() {
        headers.push(("mcp-name".to_owned(), name.to_owned()));
    }
    (headers, request(id, method, params))
}

/// Headers as [`Site::post`] takes them.
pub fn borrowed(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}
