//! Who asks: credentials, and whose they are.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use holm_engine::{Buckets, Engine, Error, KeyText, Rate, Refusal};
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;

use super::percent;
use super::server::Peer;

/// Who sent a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Nobody known. Only where the rules let such requests in, for what needs no account.
    Keyless,
    /// Somebody with a credential that is valid.
    Known(holm_engine::Caller),
}

impl Caller {
    /// The engine as this caller may use it: their own sandboxes and what their key allows, and
    /// nothing at all without one. `engine` may be anybody's handle.
    #[must_use]
    pub fn engine(&self, engine: &Engine) -> Engine {
        engine.for_caller(match self {
            Self::Known(caller) => caller.clone(),
            Self::Keyless => holm_engine::Caller {
                scopes: std::collections::BTreeSet::new(),
                ..holm_engine::Caller::local()
            },
        })
    }
}

/// A credential. Never printed, compared in constant time.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// A secret, without blanks around it. Nothing where nothing is left.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.as_bytes().into()))
    }

    /// Takes the same time wherever the two differ; only lengths can show.
    fn is(&self, other: &str) -> bool {
        let other = other.as_bytes();
        let mut difference = u8::from(self.0.len() != other.len());
        for (index, byte) in other.iter().enumerate() {
            difference |= byte ^ self.0[index % self.0.len()];
            // Keeps the compiler from leaving the loop early.
            difference = std::hint::black_box(difference);
        }
        difference == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(secret)")
    }
}

/// How requests are let in.
#[derive(Clone)]
pub enum Access {
    /// Everybody uses the built-in account. For loopback only.
    Open,
    /// One token for all, who use the built-in account. Without one nobody is let in. Keys of
    /// accounts are no tokens.
    Token(Option<Secret>),
    /// Keys of accounts, which the engine knows and is asked for with every request. Requests
    /// without a key are let in as [`Caller::Keyless`].
    Keys(KeyAccess),
}

/// Keys, and how often those who have none may ask.
#[derive(Clone)]
pub struct KeyAccess {
    engine: Engine,
    keyless: Arc<Buckets<Option<IpAddr>>>,
}

impl KeyAccess {
    /// Asks `engine`, and lets each address ask at `keyless` without a key.
    #[must_use]
    pub fn new(engine: Engine, keyless: Rate) -> Self {
        Self { engine, keyless: Arc::new(Buckets::new(keyless)) }
    }

    async fn caller(
        &self,
        presented: Option<&str>,
        peer: Option<IpAddr>,
    ) -> Result<Caller, Refused> {
        let Some(presented) = presented else {
            return match self.keyless.take(peer.map(network)) {
                Ok(()) => Ok(Caller::Keyless),
                Err(wait) => Err(Refused::TooMany(wait)),
            };
        };
        let unknown = |error: Error| {
            let internal = error.internal.as_deref().unwrap_or_default();
            tracing::error!(%error, internal, "a key was not looked up");
            Refused::Unknown
        };
        let caller = match self.engine.authenticate(presented).await.map_err(unknown)? {
            Ok(caller) => Caller::Known(caller),
            // Who has no key that works has the rate of those who have none.
            Err(refusal) => {
                return Err(match self.keyless.take(peer.map(network)) {
                    Ok(()) => Refused::Key(refusal),
                    Err(wait) => Refused::TooMany(wait),
                });
            }
        };
        match caller.engine(&self.engine).admit() {
            Ok(()) => Ok(caller),
            Err(error) => {
                let wait = error.retry_after.map_or(1, NonZeroU32::get);
                Err(Refused::TooMany(Duration::from_secs(wait.into())))
            }
        }
    }
}

/// Who an address counts as: everybody of one IPv6 network is the same, as each has millions.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Open => "open",
            Self::Token(Some(_)) => "token",
            Self::Token(None) => "closed",
            Self::Keys(_) => "keys",
        })
    }
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A key in the address: it would be in every log on the way.
    #[error("a key in the address is refused; send it as `Authorization: Bearer` or `x-api-key`")]
    InQuery,
    /// Two different keys.
    #[error(
        "two different keys in one request; send one, as `Authorization: Bearer` or `x-api-key`"
    )]
    Two,
    /// No token where one is needed.
    #[error(
        "a token is required: the one that this service was started with, as `Authorization: \
         Bearer` or `x-api-key`"
    )]
    Missing,
    /// Not the token, or nothing that could be a key.
    #[error("the token or key is not valid; send it as `Authorization: Bearer` or `x-api-key`")]
    Wrong,
    /// A key that does not work.
    #[error("{0}; whoever runs the service makes a new one with `holm key create`")]
    Key(Refusal),
    /// More requests than this key, or an address without one, may make.
    #[error("too many requests; wait {} s and send them more slowly", seconds(*.0))]
    TooMany(Duration),
    /// Keys cannot be looked up at this moment.
    #[error("keys cannot be looked up at the moment; try again in a few seconds")]
    Unknown,
}

/// Whole seconds, at least one: what `Retry-After` carries.
#[must_use]
pub fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

impl Refused {
    /// The status that fits.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::InQuery | Self::Two => 400,
            Self::Missing | Self::Wrong => 401,
            Self::Key(Refusal::AccountDisabled) => 403,
            Self::Key(_) => 401,
            Self::TooMany(_) => 429,
            Self::Unknown => 503,
        }
    }
}

impl Access {
    /// Whether `text` is, or holds behind a scheme, the one token of the service.
    #[must_use]
    pub fn is_token(&self, text: &str) -> bool {
        let Self::Token(Some(token)) = self else { return false };
        let text = text.trim();
        token.is(text) || text.split_once(' ').is_some_and(|(_, rest)| token.is(rest.trim()))
    }

    /// Whether `text` holds a credential of the service.
    #[must_use]
    pub fn is_credential(&self, text: &str) -> bool {
        text.contains(KeyText::PREFIX) || self.is_token(text)
    }

    /// Who sent a request.
    ///
    /// # Errors
    /// When it must not be let in.
    pub async fn caller(&self, head: &Parts) -> Result<Caller, Refused> {
        let presented = presented(head)?;
        let local = || Caller::Known(holm_engine::Caller::local());
        match (self, presented) {
            (Self::Open, _) => Ok(local()),
            (Self::Token(None), _) => Err(Refused::Wrong),
            (Self::Token(_), None) => Err(Refused::Missing),
            (Self::Token(Some(token)), Some(given)) if token.is(given) => Ok(local()),
            (Self::Token(_), Some(_)) => Err(Refused::Wrong),
            (Self::Keys(keys), presented) => {
                let peer = head.extensions.get::<Peer>().map(|peer| peer.0.ip());
                keys.caller(presented, peer).await
            }
        }
    }
}

/// Names under which keys turn up in addresses.
const QUERY_NAMES: [&str; 9] = [
    "access_token",
    "api-key",
    "api_key",
    "apikey",
    "auth",
    "authorization",
    "key",
    "token",
    "x-api-key",
];

/// Without escapes, as far as they are some: enough to find keys and their names.
fn unescaped(text: &str) -> String {
    String::from_utf8_lossy(&percent::decode(text).0).into_owned()
}

/// The one credential of a request, if it has one.
fn presented(head: &Parts) -> Result<Option<&str>, Refused> {
    let query = head.uri.query().unwrap_or_default();
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let is_key = |(name, value): (&str, &str)| {
        let name = unescaped(name);
        QUERY_NAMES.iter().any(|key| key.eq_ignore_ascii_case(&name))
            || unescaped(value).starts_with(KeyText::PREFIX)
    };
    if pairs.into_iter().any(is_key) {
        return Err(Refused::InQuery);
    }
    let mut found: Option<&str> = None;
    let bearer = head.headers.get_all(AUTHORIZATION).iter().map(|value| {
        let (scheme, key) = value.to_str().ok()?.trim().split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key)
    });
    let plain = head.headers.get_all("x-api-key").iter().map(|value| value.to_str().ok());
    for key in bearer.chain(plain) {
        // A header that is there and cannot be read is a wrong key, not none.
        let key = key.map(str::trim).filter(|key| !key.is_empty()).ok_or(Refused::Wrong)?;
        if found.is_some_and(|other| other != key) {
            return Err(Refused::Two);
        }
        found = Some(key);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uri: &str, headers: &[(&str, &str)], expected: Result<Option<&str>, Refused>) {
        let mut request = hyper::Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let head = request.body(()).expect("a request").into_parts().0;
        assert_eq!(presented(&head), expected, "{uri} {headers:?}");
    }

    #[test]
    fn one_credential_in_one_of_two_headers() {
        check("/", &[], Ok(None));
        check("/", &[("authorization", "Bearer abc")], Ok(Some("abc")));
        check("/", &[("authorization", "bearer   abc ")], Ok(Some("abc")));
        check("/", &[("x-api-key", "abc")], Ok(Some("abc")));
        check("/", &[("x-api-key", "abc"), ("authorization", "Bearer abc")], Ok(Some("abc")));
        check("/", &[("x-api-key", "abd"), ("authorization", "Bearer abc")], Err(Refused::Two));
        check("/", &[("x-api-key", "a"), ("x-api-key", "b")], Err(Refused::Two));
        check("/", &[("authorization", "Basic abc")], Err(Refused::Wrong));
        check("/", &[("authorization", "Bearer")], Err(Refused::Wrong));
        check("/", &[("authorization", "Bearer ")], Err(Refused::Wrong));
        check("/", &[("x-api-key", "")], Err(Refused::Wrong));
    }

    #[test]
    fn case_71_a_key_in_the_address_is_refused() {
        for name in ["api_key", "apiKey", "KEY", "token", "access_token", "x-api-key"] {
            check(&format!("/mcp?a=1&{name}=abc"), &[], Err(Refused::InQuery));
        }
        for query in ["api%5Fkey=abc", "k=holm_sk_abc", "k=holm%5fsk%5Fabc", "%74oken"] {
            check(&format!("/mcp?{query}"), &[], Err(Refused::InQuery));
        }
        for query in ["%=%zz", "a=%", "path=a%20b%c3%a9"] {
            check(&format!("/mcp?{query}"), &[], Ok(None));
        }
        check("/mcp?a=1&monkey=abc", &[("x-api-key", "abc")], Ok(Some("abc")));
    }

    #[test]
    fn secrets_are_compared_whole_and_never_shown() {
        let secret = Secret::new(" abc\n").expect("not blank");
        assert!(secret.is("abc"));
        for wrong in ["", "ab", "abcd", "abcabc", "abd", "Abc", "abc "] {
            assert!(!secret.is(wrong), "{wrong:?}");
        }
        assert!(Secret::new(" \t").is_none());
        assert!(!format!("{secret:?} {:?}", Access::Token(Some(secret.clone()))).contains("abc"));
    }
}
