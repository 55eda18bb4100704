//! Which proxy a request goes through, by the variables that everybody knows.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::Uri;
use hyper::header::HeaderValue;

use crate::url::Url;

/// The proxies of this process.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    except: Vec<String>,
}

/// One proxy, spoken to by plain HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Its host, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The value of `Proxy-Authorization`; masked when shown.
    pub credential: Option<HeaderValue>,
}

/// A proxy that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a proxy such as http://proxy.example.com:3128")]
pub struct NoProxy;

impl Proxies {
    /// By the values of `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`.
    ///
    /// # Errors
    /// Which of the first two cannot be used.
    pub fn new(
        http: Option<&str>,
        https: Option<&str>,
        except: Option<&str>,
    ) -> Result<Self, (&'static str, NoProxy)> {
        let read = |name, text: Option<&str>| {
            text.map(|text| Proxy::parse(text).map_err(|error| (name, error))).transpose()
        };
        let except = except.unwrap_or_default().split(',').map(|item| {
            let item = item.trim();
            let item = if item == "*" { item } else { item.trim_start_matches('*') };
            item.to_ascii_lowercase()
        });
        Ok(Self {
            http: read("HTTP_PROXY", http)?,
            https: read("HTTPS_PROXY", https)?,
            except: except.filter(|item| !item.is_empty()).collect(),
        })
    }

    /// The proxy for a URL. This machine is never reached through one.
    #[must_use]
    pub fn of(&self, url: &Url) -> Option<&Proxy> {
        if url.is_loopback() || self.except.iter().any(|item| is_excepted(item, url)) {
            return None;
        }
        if url.is_tls() { self.https.as_ref() } else { self.http.as_ref() }
    }
}

/// An entry of `NO_PROXY`: a host or the end of one, with or without a port, an address, a network.
fn is_excepted(item: &str, url: &Url) -> bool {
    if item == "*" {
        return true;
    }
    if let (Some(ip), Some((net, bits))) = (url.ip(), item.split_once('/')) {
        return match (net.parse(), bits.parse()) {
            (Ok(net), Ok(bits)) => crate::public::is_in(ip, net, bits),
            _ => false,
        };
    }
    let bare = item.trim_start_matches('[').replace(']', "");
    let (host, port) = match item.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host.trim_matches(['[', ']']), port.parse::<u16>().ok())
        }
        _ => (bare.as_str(), None),
    };
    if port.is_some_and(|port| port != url.port()) {
        return false;
    }
    let name = host.trim_start_matches('.');
    let inside = || url.host().strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    url.host() == name || (url.ip().is_none() && inside())
}

impl Proxy {
    fn parse(text: &str) -> Result<Self, NoProxy> {
        let text = text.trim();
        let with_scheme = match text.split_once("://") {
            Some(("http", _)) => text.to_owned(),
            Some(_) => return Err(NoProxy),
            None => format!("http://{text}"),
        };
        let uri: Uri = with_scheme.parse().map_err(|_| NoProxy)?;
        let authority = uri.authority().ok_or(NoProxy)?;
        let credential = match authority.as_str().rsplit_once('@') {
            Some((user, _)) => {
                let decoded = decoded(user).ok_or(NoProxy)?;
                let text = format!("Basic {}", BASE64.encode(decoded));
                let mut value = HeaderValue::try_from(text).map_err(|_| NoProxy)?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(NoProxy);
        }
        Ok(Self { host, port: authority.port_u16().unwrap_or(80), credential })
    }
}

/// User and password as their bytes.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let hex = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_proxy_for_each_url() {
        let except = "intern.example, .corp, 10.0.0.0/8, 192.0.2.7, port.example:81, [2001:db8::1]";
        let proxies =
            Proxies::new(Some("plain:1"), Some("http://safe:2"), Some(except)).expect("two");
        let check = |url: &str, expected: Option<&str>| {
            let url = Url::parse(url).expect("a URL");
            assert_eq!(proxies.of(&url).map(|proxy| &*proxy.host), expected, "{url:?}");
        };
        check("http://a.example", Some("plain"));
        check("https://a.example", Some("safe"));
        check("https://intern.example", None);
        check("https://x.intern.example", None);
        check("https://xintern.example", Some("safe"));
        check("https://a.corp", None);
        check("https://10.1.2.3", None);
        check("https://11.1.2.3", Some("safe"));
        check("https://192.0.2.7", None);
        check("http://port.example:81", None);
        check("http://port.example", Some("plain"));
        check("http://[2001:db8::1]", None);
        check("http://localhost", None);
        check("http://127.0.0.1:9000", None);
        let all = Proxies::new(Some("plain"), None, Some("*")).expect("one");
        assert!(all.of(&Url::parse("http://a.example").expect("a URL")).is_none());
        assert!(all.of(&Url::parse("https://a.example").expect("a URL")).is_none());
    }

    #[test]
    fn credentials_are_sent_and_not_shown() {
        let proxy = Proxy::parse("http://user:p%40ss@proxy:3128/").expect("a proxy");
        assert_eq!(proxy.credential.as_ref().expect("one"), "Basic dXNlcjpwQHNz");
        assert!(!format!("{proxy:?}").contains("dXNl"), "{proxy:?}");
        for text in ["https://a", "socks5://a", "http://", "http://%zz@a"] {
            assert_eq!(Proxy::parse(text), Err(NoProxy), "{text}");
        }
    }
}
