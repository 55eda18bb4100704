//! Sends traces to a collector: OTLP over HTTP, encoded as JSON.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use tokio::time::timeout;

use crate::client::{Client, Options, Repeat, Request};
use crate::error::{Error, ErrorKind};
use crate::proxy::Proxies;
use crate::tls::{NoRoots, Roots};
use crate::url::Url;

const PATH: &str = "/v1/traces";
/// Bytes of an answer at most; what it says is not needed.
const ANSWER: usize = 64 << 10;

/// Headers that a collector wants, such as its key. Never shown.
#[derive(Clone, Default)]
pub struct Headers(HeaderMap);

impl Headers {
    /// Reads `name=value,name=value`; values may be percent-encoded. Nothing where it is not that.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut headers = HeaderMap::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once('=')?;
            let name = HeaderName::try_from(name.trim()).ok()?;
            let mut value = HeaderValue::from_bytes(&decoded(value.trim())?).ok()?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Some(Self(headers))
    }
}

impl std::fmt::Debug for Headers {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.0.keys()).finish()
    }
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        if *first != b'%' {
            bytes.push(*first);
            rest = tail;
            continue;
        }
        let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &tail[2..];
    }
    Some(bytes)
}

/// A collector.
#[derive(Debug, Clone)]
pub struct Collector {
    client: Client,
    headers: Headers,
    within: Duration,
}

impl Collector {
    /// The collector at `url`, to which the path of the signal is added. Sending as a whole may take
    /// `within`.
    ///
    /// # Errors
    /// When TLS is needed and there is nobody to trust.
    pub fn new(
        url: Url,
        headers: Headers,
        roots: Roots,
        proxies: Proxies,
        within: Duration,
    ) -> Result<Self, NoRoots> {
        let options = Options { roots, proxies, connect_within: within, ..Options::new(url) };
        Ok(Self { client: Client::new(options)?, headers, within })
    }

    /// Sends spans, encoded already. Sent once more where the collector has not taken them and says
    /// so.
    ///
    /// # Errors
    /// When it has not taken them, as far as one can know.
    pub async fn send(&self, spans: impl Into<Bytes>) -> Result<(), Error> {
        let mut request = Request {
            repeat: Repeat::Untaken,
            head_within: None,
            ..Request::new(Method::POST, PATH)
        };
        request.headers.clone_from(&self.headers.0);
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body = spans.into();
        let sending = async {
            let mut answer = self.client.send(request).await?;
            // Read, so that the connection can be used again.
            if answer.bytes(ANSWER, self.within).await.is_err() {
                tracing::debug!("the collector's answer was not read to its end");
            }
            match answer.status {
                200..=299 => Ok(()),
                status => {
                    let text = format!("the collector answers status {status}");
                    Err(Error::new(ErrorKind::Protocol, text))
                }
            }
        };
        timeout(self.within, sending).await.unwrap_or_else(|_| {
            let text = format!("the collector did not answer within {} s", self.within.as_secs());
            Err(Error::new(ErrorKind::Silent, text))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_as_the_standard_variable_has_them() {
        let check = |text: &str, expected: Option<&[(&str, &str)]>| {
            let headers = Headers::parse(text);
            let found = headers.as_ref().map(|headers| {
                let pair = |(name, value): (&HeaderName, &HeaderValue)| {
                    (name.to_string(), value.to_str().expect("text").to_owned())
                };
                headers.0.iter().map(pair).collect::<Vec<_>>()
            });
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let expected = expected.map(|pairs| pairs.iter().map(owned).collect::<Vec<_>>());
            assert_eq!(found, expected, "{text}");
            assert!(!format!("{headers:?}").contains("marker"));
        };
        check("", Some(&[]));
        check("api-key=x-marker-x", Some(&[("api-key", "x-marker-x")]));
        check("a=1, b=Basic%20c%3D", Some(&[("a", "1"), ("b", "Basic c=")]));
        for wrong in ["a", "a b=1", "=1", "a=%2", "a=%zz", "a=%0a"] {
            check(wrong, None);
        }
    }
}
