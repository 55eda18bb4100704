//! Who is told what happens, and how messages get there.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use holm_client::webhook::{NoSecret, Received, Receiver, Secret};
use holm_client::{Network, Roots, Url, UrlError};
use holm_engine::{Deliver, Delivered, Engine, Message, WebhookRules, Webhooks};

use crate::exit::Failure;

/// Who is told. Neither addresses nor secrets are ever printed.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// Their addresses, each with the secret that signs what is sent there.
    pub receivers: Vec<(Url, Secret)>,
    /// Networks that they may be in besides public addresses.
    pub allow: Vec<Network>,
    /// Whom to trust.
    pub roots: Roots,
    /// How long an attempt may take.
    pub timeout: Duration,
    /// The pause after the first attempt that failed.
    pub first_pause: Duration,
}

impl WebhookSettings {
    /// The names under which events are recorded. They stay the same as long as the address does,
    /// and tell no secret that may be in it.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.receivers.iter().map(|(url, _)| holm_client::webhook::name(url)).collect()
    }

    /// Starts to tell them; nothing where there are none.
    ///
    /// # Errors
    /// When TLS is needed and there is nobody to trust.
    pub fn start(&self, engine: &Engine) -> Result<Option<Webhooks>, Failure> {
        if self.receivers.is_empty() {
            return Ok(None);
        }
        let mut receivers = BTreeMap::new();
        for (url, secret) in &self.receivers {
            if !url.is_tls() {
                tracing::warn!(webhook = url.origin(), "what happens is told there unencrypted");
            }
            let (secret, roots, allow) = (secret.clone(), self.roots.clone(), self.allow.clone());
            let receiver = Receiver::new(url, secret, roots, allow, self.timeout);
            let receiver = receiver.map_err(|error| Failure::new(format!("webhooks: {error}")))?;
            receivers.insert(holm_client::webhook::name(url), receiver);
        }
        let rules = WebhookRules {
            first_pause: self.first_pause,
            lease: self.timeout + Duration::from_secs(5),
            ..WebhookRules::default()
        };
        Ok(Some(engine.webhooks_start(Arc::new(Sender(receivers)), rules)))
    }
}

/// Pairs addresses with secrets: one for all, or one for each.
///
/// # Errors
/// When they do not fit, or one is none.
pub fn pair(urls: &[&str], secrets: &[&str]) -> Result<Vec<(Url, Secret)>, NoPair> {
    let secrets: Vec<Secret> =
        secrets.iter().map(|text| Secret::parse(text)).collect::<Result<_, _>>()?;
    if !urls.is_empty() && secrets.len() != 1 && secrets.len() != urls.len() {
        return Err(NoPair::Count { urls: urls.len(), secrets: secrets.len() });
    }
    let mut pairs: Vec<(Url, Secret)> = Vec::new();
    for (text, secret) in urls.iter().zip(secrets.iter().cycle()) {
        let url = Url::parse(text)?;
        if pairs.iter().any(|(other, _)| *other == url) {
            return Err(NoPair::Twice);
        }
        pairs.push((url, secret.clone()));
    }
    Ok(pairs)
}

/// Addresses and secrets that do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPair {
    /// As many secrets as there are addresses, or one.
    Count {
        /// Addresses.
        urls: usize,
        /// Secrets.
        secrets: usize,
    },
    /// The same address twice.
    Twice,
    /// An address that is none.
    Url(UrlError),
    /// A secret that is none.
    Secret(NoSecret),
}

impl From<UrlError> for NoPair {
    fn from(error: UrlError) -> Self {
        Self::Url(error)
    }
}

impl From<NoSecret> for NoPair {
    fn from(error: NoSecret) -> Self {
        Self::Secret(error)
    }
}

/// Networks such as `10.0.0.0/8` or `192.0.2.7`.
#[must_use]
pub fn network(text: &str) -> Option<Network> {
    let (ip, bits) = match text.split_once('/') {
        Some((ip, bits)) => (ip, Some(bits)),
        None => (text, None),
    };
    let ip: std::net::IpAddr = ip.parse().ok()?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
    (bits <= most).then_some((ip, bits))
}

struct Sender(BTreeMap<String, Receiver>);

impl Deliver for Sender {
    fn deliver(&self, message: Message) -> Pin<Box<dyn Future<Output = Delivered> + Send + '_>> {
        Box::pin(async move {
            let Some(receiver) = self.0.get(&message.target) else {
                return Delivered::No("it is not in the settings".to_owned(), None);
            };
            let body = message.body.to_string().into();
            match receiver.send(&message.id.to_string(), body).await {
                Received::Yes => Delivered::Yes,
                Received::No(status, after) => {
                    Delivered::No(format!("it answers status {status}"), after)
                }
                Received::Nothing(error) => Delivered::No(error.to_string(), None),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    #[test]
    fn one_secret_for_all_or_one_for_each() {
        let urls = ["https://a.example/x", "https://b.example"];
        let count = |secrets: &[&str]| pair(&urls, secrets).map(|pairs| pairs.len());
        assert_eq!(count(&[SECRET]), Ok(2));
        assert_eq!(count(&[SECRET, OTHER]), Ok(2));
        assert_eq!(count(&[]), Err(NoPair::Count { urls: 2, secrets: 0 }));
        assert_eq!(count(&[SECRET, "short"]), Err(NoPair::Secret(NoSecret)));
        assert_eq!(pair(&[], &[]).map(|pairs| pairs.len()), Ok(0));
        assert_eq!(pair(&["a"], &[SECRET]).err(), Some(NoPair::Url(UrlError::Scheme)));
        assert_eq!(pair(&[urls[0], urls[0]], &[SECRET]).err(), Some(NoPair::Twice));
    }

    #[test]
    fn networks() {
        let check = |text: &str, expected: Option<u8>| {
            assert_eq!(network(text).map(|(_, bits)| bits), expected, "{text}");
        };
        check("10.0.0.0/8", Some(8));
        check("192.0.2.7", Some(32));
        check("fd00::/8", Some(8));
        check("::1", Some(128));
        for text in ["", "10.0.0.0/33", "10.0.0.0/", "a/8", "fd00::/129"] {
            check(text, None);
        }
    }
}
