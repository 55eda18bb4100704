//! Ports of a sandbox: letting people outside see what a server in it serves.

use holm_engine::{ErrorKind, KeyScope, Port, PortOptions, SandboxId};
use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::{Json, NoQuery, Nothing, Object};
use super::number::Whole;
use super::output::Answer;
use super::text::time_schema;
use crate::show::time;

const PATH: &str = "/v1/sandboxes/{sandbox_id}/ports";

/// What to expose.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortExpose {
    /// The port that the server listens on, now or later.
    pub port: Whole<1, 65535>,
    /// Let everybody who has the address look, without a token (default: false).
    #[serde(default)]
    pub public: Option<bool>,
    /// Let traffic extend the sandbox's lease, up to its limit (default: false).
    #[serde(default)]
    pub extend_lease: Option<bool>,
}

impl Object for PortExpose {}

/// Which port.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortQuery {
    /// The port.
    pub port: Whole<1, 65535>,
}

/// An exposed port.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExposedPort {
    /// Its number.
    pub port: u16,
    /// Its address, which stays the same.
    pub url: String,
    /// Whether everybody may look.
    pub public: bool,
    /// Whether traffic extends the sandbox's lease.
    pub extend_lease: bool,
    /// Since when it is exposed.
    #[schemars(schema_with = "time_schema")]
    pub created_at: String,
    /// For a private one that was just asked for: an address that opens it once, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Until when that works.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time_schema")]
    pub link_expires_at: Option<String>,
    /// For a private one that was just asked for: what programs send in `x-holm-preview-token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Until when that works.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time_schema")]
    pub token_expires_at: Option<String>,
}

/// The exposed ports of a sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PortList {
    /// By number.
    pub ports: Vec<ExposedPort>,
}

/// A port that is not exposed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PortUnexposed {
    /// Its number.
    pub port: u16,
    /// True when it was not exposed before this request either.
    pub already_unexposed: bool,
}

impl ExposedPort {
    fn new(port: &Port, url: String) -> Self {
        Self {
            port: port.port,
            url,
            public: port.public,
            extend_lease: port.extend_lease,
            created_at: time(port.created_at),
            link: None,
            link_expires_at: None,
            token: None,
            token_expires_at: None,
        }
    }
}

/// The endpoints of ports.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let about = |id, summary, description, errors| About {
        id,
        tag: "ports",
        summary,
        description,
        scope: Some(KeyScope::Sandboxes),
        errors,
        headers: &[],
    };
    let gone = &[ErrorKind::NotFound, ErrorKind::SandboxGone][..];
    let expose = about(
        "port_expose",
        "Expose a port",
        "Answers its address at once, also before anything listens there. Idempotent: the same port \
         keeps its address, and the options of the last request count. For a private port each \
         answer has a new link and a new token.",
        &[ErrorKind::NotFound, ErrorKind::SandboxGone, ErrorKind::QuotaExceeded],
    );
    let list = About {
        scope: Some(KeyScope::Read),
        ..about("port_list", "List exposed ports", "Without links and tokens.", gone)
    };
    let unexpose = about(
        "port_unexpose",
        "Unexpose a port",
        "What is open through it ends, and no token for it works any more.",
        gone,
    );
    vec![
        Endpoint::new(Method::POST, PATH, expose, port_expose),
        Endpoint::new(Method::GET, PATH, list, port_list),
        Endpoint::new(Method::DELETE, PATH, unexpose, port_unexpose),
    ]
}

async fn port_expose(
    call: Call<SandboxId, NoQuery, Json<PortExpose>>,
) -> Result<Answer<ExposedPort>, Failure> {
    let asked = call.body.0;
    let options = PortOptions {
        public: asked.public.unwrap_or(false),
        extend_lease: asked.extend_lease.unwrap_or(false),
    };
    let port = call.engine.port_expose(&call.id, number(asked.port), options).await?;
    let shown = call.surroundings.previews.show(&port, call.engine.caller().account).await?;
    let mut answer = ExposedPort::new(&port, shown.url);
    if let Some(link) = shown.link {
        answer.link = Some(link.url);
        answer.link_expires_at = Some(time(link.expires_at));
    }
    if let Some(token) = shown.token {
        answer.token = Some(token.text);
        answer.token_expires_at = Some(time(token.expires_at));
    }
    Ok(Answer(answer))
}

async fn port_list(call: Call<SandboxId, NoQuery, Nothing>) -> Result<Answer<PortList>, Failure> {
    let mut ports = Vec::new();
    for port in call.engine.port_list(&call.id).await? {
        let url = call.surroundings.previews.url(&port).await?;
        ports.push(ExposedPort::new(&port, url));
    }
    Ok(Answer(PortList { ports }))
}

async fn port_unexpose(
    call: Call<SandboxId, PortQuery, Nothing>,
) -> Result<Answer<PortUnexposed>, Failure> {
    let port = number(call.query.port);
    let was = call.engine.port_unexpose(&call.id, port).await?;
    Ok(Answer(PortUnexposed { port, already_unexposed: !was }))
}

fn number(asked: Whole<1, 65535>) -> u16 {
    // It is in range by its type.
    u16::try_from(asked.0).unwrap_or(u16::MAX)
}
