//! `/health` and `/ready`, for whatever watches the service. They say nothing that needs a
//! credential and are open to every name and page.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::body::Incoming;
use hyper::{Method, Request};
use serde_json::json;

use super::face::{Answering, Face};
use super::reply;

/// The two of them.
#[derive(Debug, Default)]
pub struct Health {
    stopping: AtomicBool,
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
        } else if self.stopping.load(Ordering::SeqCst) {
            reply::json(503, &json!({"status": "stopping"}))
        } else {
            reply::json(200, &json!({"status": "ready"}))
        };
        Box::pin(std::future::ready(response))
    }

    fn refuse(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    fn finish(&self) {}
}
