//! What the settings of a service say about traces.

use holm_client::Url;
use holm_client::otlp::Headers;

use super::layers::{Layers, wrong};
use super::{remote, table};
use crate::env_vars::Environment;
use crate::exit::Failure;
use crate::service::TraceSettings;

/// Nothing where no collector is named.
pub(super) fn traces(
    layers: &Layers<'_>,
    environment: &Environment,
) -> Result<Option<TraceSettings>, Failure> {
    let (from, endpoint) = layers.text(&table::TRACE_ENDPOINT)?;
    let what = "a list such as `name=value,name=value`";
    let headers = layers.read(&table::TRACE_HEADERS, what, Headers::parse)?;
    let (_, name) = layers.text(&table::TRACE_NAME)?;
    if endpoint.is_empty() {
        return Ok(None);
    }
    let url = Url::parse(&endpoint).ok().filter(|url| !url.own_path().contains('?'));
    let url = url.ok_or_else(|| {
        let what = "the URL of a collector, such as http://localhost:4318";
        wrong(&table::TRACE_ENDPOINT, &from, what, &endpoint)
    })?;
    let (roots, proxies) = (remote::roots(environment), remote::proxies(environment)?);
    Ok(Some(TraceSettings { url, headers, name, roots, proxies }))
}
