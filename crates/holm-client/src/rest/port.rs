//! Exposed ports of a sandbox.

use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Failure, Rest};
use crate::client::{Repeat, Request};

/// An exposed port.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ExposedPort {
    /// Its number.
    pub port: u16,
    /// Its address.
    pub url: String,
    /// Whether everybody may look.
    pub public: bool,
    /// Whether traffic extends the sandbox's lease.
    pub extend_lease: bool,
    /// Since when (RFC 3339).
    pub created_at: String,
    /// Of a private one that was just asked for: an address that opens it once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Until when that works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_expires_at: Option<String>,
    /// The same for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Until when that works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_expires_at: Option<String>,
}

/// A port that is not exposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct Unexposed {
    /// Its number.
    pub port: u16,
    /// Whether it was not exposed before either.
    pub already_unexposed: bool,
}

#[derive(Deserialize)]
struct List {
    ports: Vec<ExposedPort>,
}

impl Rest {
    /// Exposes one; once more is as good, and gives another link.
    ///
    /// # Errors
    /// When it may not be done.
    pub async fn port_expose(
        &self,
        sandbox: &str,
        port: u16,
        public: bool,
        extend_lease: bool,
    ) -> Result<ExposedPort, Failure> {
        let body = json!({"port": port, "public": public, "extend_lease": extend_lease});
        self.post(&path(sandbox), &body, Repeat::Always).await
    }

    /// All of them by number, without links and tokens.
    ///
    /// # Errors
    /// When they may not be seen.
    pub async fn port_list(&self, sandbox: &str) -> Result<Vec<ExposedPort>, Failure> {
        let list: List = self.get(path(sandbox)).await?;
        Ok(list.ports)
    }

    /// Ends the exposure of one.
    ///
    /// # Errors
    /// When it may not be done.
    pub async fn port_unexpose(&self, sandbox: &str, port: u16) -> Result<Unexposed, Failure> {
        let path = format!("{}?port={port}", path(sandbox));
        self.ask(Request::new(Method::DELETE, path)).await
    }
}

/// `sandbox` is an id as the service writes it.
fn path(sandbox: &str) -> String {
    format!("/v1/sandboxes/{sandbox}/ports")
}
