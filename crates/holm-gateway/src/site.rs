//! The service over HTTP: all faces on one server.

use std::sync::Arc;
use std::time::Duration;

use holm_engine::Engine;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::http::face::{Face, HostFace};
use crate::http::health::Health;
use crate::http::metrics::{MetricsFace, Requests};
use crate::http::tls::Tls;
use crate::http::trace::Collect;
use crate::http::{self, Door, Limits};
use crate::mcp::http::KEEP_ALIVE;
use crate::mcp::http::sessions::SessionRules;
use crate::mcp::{HttpOptions, McpFace, Server};
use crate::preview::listener::{self, Elsewhere};
use crate::preview::site::{Base, Where};
use crate::preview::{PreviewOptions, Previews};
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
    /// What runs in sandboxes, shown to people outside.
    pub previews: Arc<Previews>,
    /// TLS, where the service speaks it itself.
    pub tls: Option<Arc<Tls>>,
    /// The same of previews at a listener of their own.
    pub apart_tls: Option<Arc<Tls>>,
    /// Who collects spans, if anybody does.
    pub traces: Option<Arc<dyn Collect>>,
}

impl SiteOptions {
    /// The usual ones.
    #[must_use]
    pub fn new(engine: Engine, door: Door) -> Self {
        let previews = PreviewOptions::local(Where::At(Base::plain(80)));
        Self {
            previews: Previews::new(engine.clone(), previews),
            engine,
            door: Arc::new(door),
            limits: Limits::default(),
            server: Server::new(),
            default_template: None,
            sessions: SessionRules::default(),
            keep_alive: KEEP_ALIVE,
            tls: None,
            apart_tls: None,
            traces: None,
        }
    }
}

/// The service, ready to serve.
pub struct Site {
    mcp: Arc<McpFace>,
    options: http::Options,
    previews: Arc<Previews>,
    apart_tls: Option<Arc<Tls>>,
}

impl Site {
    /// Makes the faces. Needs a tokio runtime.
    #[must_use]
    pub fn new(options: SiteOptions) -> Self {
        let SiteOptions { engine, door, limits, server, default_template, .. } = options;
        let SiteOptions { sessions, keep_alive, traces, previews, tls, apart_tls, .. } = options;
        let rest = RestFace::new(RestOptions {
            default_template: default_template.clone(),
            keep_alive,
            previews: Arc::clone(&previews),
            ..RestOptions::new(engine.clone(), Arc::clone(&door), limits.clone())
        });
        let mcp = McpFace::start(HttpOptions {
            engine: engine.clone(),
            server: Arc::new(server.with_previews(&previews)),
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
        let hosts = Some(Arc::clone(&previews) as Arc<dyn HostFace>);
        Self {
            mcp,
            options: http::Options { faces, hosts, tls, limits, requests, traces },
            previews,
            apart_tls,
        }
    }

    /// Serves until `shutdown` resolves and everything has come to its end; then ends all MCP
    /// sessions, not their sandboxes.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        http::serve(listener, self.options, shutdown).await;
        self.mcp.close().await;
    }

    /// The same with previews at `other` only.
    pub async fn serve_apart(
        mut self,
        listener: TcpListener,
        other: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) {
        self.options.hosts = Some(Arc::new(Elsewhere(Arc::clone(&self.previews))));
        let options =
            listener::options(self.previews, self.options.limits.clone(), self.apart_tls.take());
        let (stop, stopped) = watch::channel(());
        let stopped = || {
            let mut stopped = stopped.clone();
            async move {
                // An error means the same: whoever could say it has gone.
                let _ = stopped.changed().await;
            }
        };
        let told = async {
            shutdown.await;
            stop.send_replace(());
        };
        tokio::join!(
            told,
            http::serve(listener, self.options, stopped()),
            http::serve(other, options, stopped()),
        );
        self.mcp.close().await;
    }
}
