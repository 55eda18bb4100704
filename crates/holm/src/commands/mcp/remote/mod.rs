//! `holm mcp` in front of a service: requests are answered here as far as no tool is asked, tool
//! calls are forwarded. The client sees the same server as without a service, also while the
//! service cannot be reached: then calls say so, and the process stays.

mod backend;
mod failure;

use std::time::Duration;

use holm_client::mcp::Endpoint;
use holm_client::{Client, Method, Repeat, Request};
use holm_engine::EgressPolicy;
use holm_gateway::mcp;
use holm_gateway::mcp::dispatch::MAX_CALLS;
use serde_json::Value;

use super::stdio;
use crate::exit::Failure;
use crate::settings::{RemoteSettings, no_key};

const CARD: &str = "/.well-known/mcp/server-card.json";
/// Bytes of a server card at most, and how long it may take.
const CARD_BYTES: usize = 4 << 20;
const CARD_TIME: Duration = Duration::from_secs(5);

pub(super) async fn serve(
    settings: RemoteSettings,
    template: Option<String>,
    network: Option<EgressPolicy>,
) -> Result<u8, Failure> {
    let shutdown = super::shutdown()?;
    let RemoteSettings { options, key_from, url_from } = settings;
    let client = Client::new(options).map_err(|error| Failure::new(error.to_string()))?;
    if !client.has_key() && needs_key(&client).await {
        return Err(no_key(url_from));
    }
    let url = client.url();
    if client.has_key() && !url.is_tls() && !url.is_loopback() {
        tracing::warn!(
            service = url.origin(),
            "the key travels unencrypted: use a URL that begins with https://"
        );
    }
    let endpoint = Endpoint::new(client, "holm mcp", env!("CARGO_PKG_VERSION"));
    let template = template.map(|template| ("template", template.into()));
    let network = network.map(|network| ("network", network.to_json()));
    let defaults = template.into_iter().chain(network).collect();
    let backend = backend::Remote::new(endpoint, key_from, url_from, defaults);
    let (input, output) = (stdio::Input::new(), stdio::Output::new());
    super::code(mcp::serve_backend(backend, shutdown, MAX_CALLS, input, output).await)
}

/// Asks a service whether it wants a key. One that does not answer is asked again by each call.
async fn needs_key(client: &Client) -> bool {
    let card = async {
        let request = Request { repeat: Repeat::Never, ..Request::new(Method::GET, CARD) };
        let mut answer = client.send(request).await.ok()?;
        let body = answer.bytes(CARD_BYTES, CARD_TIME).await.ok()?;
        serde_json::from_slice::<Value>(&body).ok()
    };
    let card = tokio::time::timeout(CARD_TIME, card).await.ok().flatten();
    card.is_some_and(|card| card["authentication"]["required"] == true)
}
