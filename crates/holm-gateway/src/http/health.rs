//! `/health` and `/ready`, for whatever watches the service. They say nothing that needs a
//! credential and are open to every name and page. The one says that this process answers, the
//! other whether it can take work, for which it asks the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holm_engine::Engine;
use hyper::body::Incoming;
use hyper::{Method, Request};
use serde_json::json;

use super::face::{Answering, Face};
use super::reply::{self, Response};

/// The two of them.
#[derive(Debug)]
pub struct Health {
    engine: Engine,
    stopping: AtomicBool,
}

impl Health {
    /// Of this engine.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self { engine, stopping: AtomicBool::new(false) }
    }

    async fn readiness(&self) -> Response {
        let stopping = || self.stopping.load(Ordering::SeqCst);
        let ready = !stopping() && self.engine.ready().await;
        // The stop may have been asked for meanwhile.
        let (status, word) = match (stopping(), ready) {
            (true, _) => (503, "stopping"),
            (false, false) => (503, "database_unavailable"),
            (false, true) => (200, "ready"),
        };
        reply::json(status, &json!({"status": word}))
    }
}

impl Face for Health {
    fn name(&self) -> &'static str {
        "health"
    }

    fn serves(&self, path: &str) -> bool {
        matches!(path, "/health" | "/ready")
    }

    fn is_traced(&self) -> bool {
        false
    }

    fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answering {
        let response = if !matches!(*request.method(), Method::GET | Method::HEAD) {
            reply::with(reply::text(405, "method not allowed\n"), "allow", "GET, HEAD")
        } else if request.uri().path() == "/health" {
            // The protocol that `initialize` falls back to here.
            reply::json(200, &json!({"status": "ok", "protocol": "2025-06-18"}))
        } else {
            return Box::pin(async move { self.readiness().await });
        };
        Box::pin(std::future::ready(response))
    }

    fn refuse(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    fn finish(&self) {}
}
