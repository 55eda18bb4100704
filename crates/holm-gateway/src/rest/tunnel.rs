//! A raw connection to a port of a sandbox, for who has its key: what `holm forward` uses.

use holm_engine::{ErrorKind, KeyScope, SandboxId, Way};
use hyper::Method;
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use schemars::JsonSchema;
use schemars::generate::SchemaGenerator;
use serde::Deserialize;
use tokio::io::copy_bidirectional_with_sizes;

use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::Nothing;
use super::number::Whole;
use super::output::{AnswerDoc, Output};
use crate::http::reply::{self, Response};

/// The protocol's name in `Upgrade`.
const PROTOCOL: &str = "holm-tunnel";
/// Bytes on their way in each direction.
const BUFFER: usize = 16 << 10;

/// Which port.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TunnelQuery {
    /// The port, exposed or not.
    pub port: Whole<1, 65535>,
}

/// The connection goes on as something else.
#[derive(Debug)]
pub struct Switched;

impl Output for Switched {
    fn describe(_: &mut SchemaGenerator) -> Vec<AnswerDoc> {
        let description = "From here on bytes go both ways.";
        vec![AnswerDoc { status: 101, description, content: Vec::new() }]
    }

    fn respond(self) -> Response {
        let mut response = reply::empty(101);
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
        response
    }
}

/// The endpoint of tunnels.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let about = About {
        id: "tunnel_open",
        tag: "ports",
        summary: "Connect to a port",
        description: "Needs `Connection: upgrade` and `Upgrade: holm-tunnel`, over HTTP/1.1. After 101 \
                      bytes go to and from a program that listens on that port at loopback inside, \
                      until one side or the sandbox ends. `holm forward` is a client of it.",
        scope: Some(KeyScope::Sandboxes),
        errors: &[ErrorKind::NotFound, ErrorKind::SandboxGone],
        headers: &[],
    };
    vec![Endpoint::new(Method::POST, "/v1/sandboxes/{sandbox_id}/tunnel", about, open)]
}

async fn open(call: Call<SandboxId, TunnelQuery, Nothing>) -> Result<Switched, Failure> {
    let asked = call.headers.get(UPGRADE).map(HeaderValue::as_bytes).unwrap_or_default();
    let Some(upgrade) = call.upgrade.filter(|_| asked.eq_ignore_ascii_case(PROTOCOL.as_bytes()))
    else {
        return Err(Failure::invalid(format!(
            "this needs `Connection: upgrade` and `Upgrade: {PROTOCOL}`, over HTTP/1.1"
        )));
    };
    let port = u16::try_from(call.query.port.0).unwrap_or(u16::MAX);
    // Who may not come in takes no place of it.
    call.engine.sandbox_get(&call.id).await?;
    let previews = call.surroundings.previews;
    let place = previews.place_for(call.id, call.engine.caller().account).await;
    let Some(place) = place else {
        return Err(Failure::from(holm_engine::Error::new(
            ErrorKind::Unavailable,
            "as many connections to this sandbox as it may have are open",
        )));
    };
    let (way, in_use) = call.engine.port_connect(&call.id, port).await?;
    let (engine, mut over) = (call.engine, call.over);
    tokio::spawn(async move {
        let _held = (place, in_use);
        tokio::select! {
            () = carry(upgrade, way) => {}
            _ = engine.sandbox_ended(&call.id) => {}
            _ = over.failure() => {}
        }
    });
    Ok(Switched)
}

/// Moves bytes until both sides have ended or one has failed, which both see.
async fn carry(upgrade: OnUpgrade, mut way: Way) {
    let Ok(client) = upgrade.await else { return };
    let mut client = TokioIo::new(client);
    let _ = copy_bidirectional_with_sizes(&mut client, &mut way, BUFFER, BUFFER).await;
}
