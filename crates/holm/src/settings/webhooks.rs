//! What the settings of a service say about its webhooks.

use holm_client::{Network, Roots};

use super::layers::{Layers, Origin, wrong};
use super::table::{self, Setting};
use super::{limits, remote};
use crate::env_vars::Environment;
use crate::exit::Failure;
use crate::service::{NoPair, WebhookSettings, network, pair};

pub(super) fn webhooks(
    layers: &Layers<'_>,
    environment: &Environment,
) -> Result<WebhookSettings, Failure> {
    let (urls_from, urls) = layers.text(&table::WEBHOOK_URLS)?;
    let (secrets_from, secrets) = layers.text(&table::WEBHOOK_SECRETS)?;
    let receivers = pair(&items(&urls), &items(&secrets)).map_err(|error| {
        let of_urls = |what| wrong(&table::WEBHOOK_URLS, &urls_from, what, &urls);
        let of_secrets = |what: &str| wrong(&table::WEBHOOK_SECRETS, &secrets_from, what, &secrets);
        match error {
            NoPair::Url(_) => of_urls("a list of URLs that begin with https:// or http://"),
            NoPair::Twice => of_urls("a list without repetitions"),
            NoPair::Secret(error) => {
                let failure = of_secrets("a list of secrets");
                failure.hint(format!("a secret {error}; see docs/webhooks.md"))
            }
            NoPair::Count { .. } => missing(&secrets_from),
        }
    })?;
    let what = "a list of networks such as 10.1.0.0/16";
    let allow = layers.read(&table::WEBHOOK_ALLOW, what, |text| {
        items(text).into_iter().map(network).collect::<Option<Vec<Network>>>()
    })?;
    let roots: Roots = remote::roots(environment);
    Ok(WebhookSettings {
        receivers,
        allow,
        roots,
        timeout: limits::duration(layers, &table::WEBHOOK_TIMEOUT)?,
        first_pause: limits::duration(layers, &table::WEBHOOK_PAUSE)?,
    })
}

/// As many secrets as are needed are not there.
fn missing(from: &Origin) -> Failure {
    let name = |setting: &Setting| setting.env.map_or("", |variable| variable.name);
    let (urls, secrets) = (name(&table::WEBHOOK_URLS), name(&table::WEBHOOK_SECRETS));
    let failure = match from {
        Origin::Default => Failure::usage(format!("{urls} needs {secrets}")),
        _ => Failure::usage(format!("{secrets} must hold one secret, or one for each of {urls}")),
    };
    failure.hint("make a secret with: echo whsec_$(openssl rand -base64 32)")
}

fn items(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
}
