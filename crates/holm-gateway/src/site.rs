//! The service over HTTP: all faces on one server.

use std::sync::Arc;
use std::time::Duration;

use holm_engine::Engine;
use tokio::net::TcpListener;

use crate::http::face::Face;
use crate::http::health::Health;
use crate::http::metrics::{MetricsFace, Requests};
use crate::http::trace::Collect;
use crate::http::{self, Door, Limits};
use crate::mcp::http::KEEP_ALIVE;
use crate::mcp::http::sessions::SessionRules;
use crate::mcp::{HttpOptions, McpFace, Server};
use crate::rest::{RestFace, RestOptions};

/// What the service is made of.
pub struct SiteOptions {
    /// The engine. Whoever's handle this is: calls are made for the caller of each request.
    pub engine: Engine,
    /// Who may ask.
    pub door: Arc<Door>,
    /// The bounds.
    pub limits: Limits,
    /// The tools.
    pub server: Server,
    /// Template of sandboxes whose creator names none; the engine's default where absent.
    pub default_template: Option<String>,
    /// How long MCP sessions last.
    pub sessions: SessionRules,
    /// How often a stream without news says that it lives.
    pub keep_alive: Duration,
    /// Who collects spans, if anybody does.
    pub traces: Option<Arc<dyn Collect>>,
}

impl SiteOptions {
    /// The usual ones.
    #[must_use]
    pub fn new(engine: Engine, door: Door) -> Self {
        Self {
            engine,
            door: Arc::new(door),
            limits: Limits::default(),
            server: Server::new(),
            default_template: None,
            sessions: SessionRules::default(),
            keep_alive: KEEP_ALIVE,
            traces: None,
        }
    }
}

/// The service, ready to serve.
pub struct Site {
    mcp: Arc<McpFace>,
    options: http::Options,
}

impl Site {
    /// Makes the faces. Needs a tokio runtime.
    #[must_use]
    pub fn new(options: SiteOptions) -> Self {
        let SiteOptions { engine, door, limits, server, default_template, .. } = options;
        let SiteOptions { sessions, keep_alive, traces, .. } = options;
        let rest = RestFace::new(RestOptions {
            default_template: default_template.clone(),
            keep_alive,
            ..RestOptions::new(engine.clone(), Arc::clone(&door), limits.clone())
        });
        let mcp = McpFace::start(HttpOptions {
            engine: engine.clone(),
            server: Arc::new(server),
            default_template,
            door: Arc::clone(&door),
            limits: limits.clone(),
            sessions,
            keep_alive,
        });
        let health = Arc::new(Health::new(engine.clone()));
        let requests = Arc::<Requests>::default();
        let counted = Arc::clone(&mcp);
        let metrics = MetricsFace::new(
            engine,
            door,
            Arc::clone(&requests),
            Box::new(move || counted.session_count()),
            traces.clone(),
        );
        let faces: Vec<Arc<dyn Face>> = vec![health, Arc::clone(&mcp) as _, rest, metrics];
        Self { mcp, options: http::Options { faces, limits, requests, traces } }
    }

    /// Serves until `shutdown` resolves and everything has come to its end; then ends all MCP
    /// sessions, not their sandboxes.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        http::serve(listener, self.options, shutdown).await;
        self.mcp.close().await;
    }
}
