//! Signed messages to other people's servers, in the form of Standard Webhooks
//! (`webhook-id`, `webhook-timestamp`, `webhook-signature`).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use crate::client::{Client, Options, Repeat, Request};
use crate::connect::{Network, Reach};
use crate::error::{Error, ErrorKind};
use crate::retry;
use crate::tls::{NoRoots, Roots};
use crate::url::Url;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// What marks a secret as one.
const PREFIX: &str = "whsec_";
/// Bytes of a secret, as Standard Webhooks wants them.
const SECRET: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret that signs messages; never shown.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

/// A text that is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be `whsec_` and then 24 to 64 random bytes in base64")]
pub struct NoSecret;

impl Secret {
    /// Reads `whsec_…`.
    ///
    /// # Errors
    /// When it is not that.
    pub fn parse(text: &str) -> Result<Self, NoSecret> {
        let bytes = text.trim().strip_prefix(PREFIX).and_then(|text| BASE64.decode(text).ok());
        bytes.filter(|bytes| SECRET.contains(&bytes.len())).map(Self).ok_or(NoSecret)
    }

    /// The signature of a message.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        // HMAC takes keys of any length; the short-key rule of other MACs has no part here.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secret(…)")
    }
}

/// A name for a receiver's address that tells no secret in it.
#[must_use]
pub fn name(url: &Url) -> String {
    let hash = Sha256::digest(format!("{}{}", url.origin(), url.own_path()));
    let hex: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{}#{hex}", url.origin())
}

/// A receiver. Never reached through a proxy, because the address is to be checked here.
#[derive(Debug, Clone)]
pub struct Receiver {
    client: Client,
    path: String,
    secret: Secret,
    within: Duration,
}

/// What a receiver made of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// It has it.
    Yes,
    /// It does not want it, now or ever: the status, and when to come again if it says so.
    No(u16, Option<Duration>),
    /// It did not answer.
    Nothing(Error),
}

impl Receiver {
    /// A receiver at `url`. Only public addresses are connected to, and those in `also`. An attempt
    /// as a whole may take `within`.
    ///
    /// # Errors
    /// When TLS is needed and there is nobody to trust.
    pub fn new(
        url: &Url,
        secret: Secret,
        roots: Roots,
        also: Vec<Network>,
        within: Duration,
    ) -> Result<Self, NoRoots> {
        let path = url.own_path().to_owned();
        let mut options = Options::new(url.clone().without_path());
        options.roots = roots;
        options.reach = Reach::Public(also);
        options.connect_within = within;
        Ok(Self { client: Client::new(options)?, path, secret, within })
    }

    /// Sends a message once. `id` is the same for every attempt of one message, so that a receiver
    /// can drop what it has already. Redirects are refusals.
    pub async fn send(&self, id: &str, body: Bytes) -> Received {
        let now = Timestamp::now().as_second();
        let mut request = Request::new(Method::POST, self.path.as_str());
        request.repeat = Repeat::Never;
        request.head_within = None;
        let signature = self.secret.sign(id, now, &body);
        request.body = body;
        let json = HeaderValue::from_static("application/json");
        request.headers.insert(CONTENT_TYPE, json);
        for (name, value) in [(ID, id), (TIMESTAMP, &*now.to_string()), (SIGNATURE, &*signature)] {
            let Ok(value) = HeaderValue::from_str(value) else {
                let text = "the id of a message cannot be in a header";
                return Received::Nothing(Error::new(ErrorKind::Protocol, text));
            };
            request.headers.insert(name, value);
        }
        let sending = async {
            let mut answer = self.client.send(request).await?;
            // What it says is nobody's concern; read, so that the connection can be used again.
            if answer.bytes(4 << 10, self.within).await.is_err() {
                tracing::debug!("a receiver's answer was not read to its end");
            }
            Ok(answer)
        };
        match timeout(self.within, sending).await {
            Ok(Ok(answer)) if (200..300).contains(&answer.status) => Received::Yes,
            Ok(Ok(answer)) => Received::No(answer.status, retry::after(&answer.headers)),
            Ok(Err(error)) => Received::Nothing(error),
            Err(_) => {
                let text = format!("no answer within {} s", self.within.as_secs_f32());
                Received::Nothing(Error::new(ErrorKind::Silent, text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_the_standard() {
        // The example of the Standard Webhooks libraries.
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
        assert_eq!(
            secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
        assert!(!format!("{secret:?}").contains("Mf"));
    }

    #[test]
    fn names_tell_addresses_apart_and_no_secret() {
        let name = |text: &str| name(&Url::parse(text).expect("a URL"));
        let one = name("https://hooks.example/x-marker-x");
        assert!(one.starts_with("https://hooks.example#") && !one.contains("marker"), "{one}");
        assert_ne!(one, name("https://hooks.example/x-marker-y"));
        assert_eq!(one, name("https://hooks.example:443/x-marker-x"));
    }

    #[test]
    fn weak_secrets_are_refused() {
        for text in [
            "",
            "secret",
            "whsec_",
            "whsec_c2hvcnQ=",
            "whsec_*",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        ] {
            assert_eq!(Secret::parse(text).err(), Some(NoSecret), "{text}");
        }
    }
}
