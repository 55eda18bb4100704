//! The host's outbound proxy, as its environment names it.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls::ClientConfig;

use super::Target;
use crate::policy::{Cidr, HostName};
use crate::tls;

/// The host's outbound proxy. Its own address may be private: it is the operator's.
#[derive(Clone)]
pub struct Proxy {
    pub(super) host: String,
    pub(super) port: u16,
    /// The value of `Proxy-Authorization`.
    pub(super) credential: Option<String>,
    pub(super) tls: Option<Arc<ClientConfig>>,
    except: Vec<Except>,
}

/// A proxy that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Not the address of one.
    #[error("{variable} must be a proxy such as http://proxy.example.com:3128")]
    Address {
        /// Where it was given.
        variable: &'static str,
    },
    /// Nobody to trust, for a proxy that is spoken to by TLS.
    #[error("cannot use the proxy of {variable}: {reason}")]
    Trust {
        /// Where it was given.
        variable: &'static str,
        /// Why.
        reason: String,
    },
}

/// An entry of `NO_PROXY`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Except {
    All,
    /// A name and what is below it.
    Name(HostName, Option<u16>),
    Net(Cidr, Option<u16>),
}

impl Proxy {
    /// By the variables that everybody knows, in both spellings: `HTTPS_PROXY`, else `ALL_PROXY`,
    /// and `NO_PROXY`. All connections go through it, whatever they carry.
    ///
    /// # Errors
    /// What cannot be used.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, ProxyError> {
        let read = |lower: &str, upper: &str| {
            variable(lower).or_else(|| variable(upper)).filter(|text| !text.trim().is_empty())
        };
        let https = read("https_proxy", "HTTPS_PROXY").map(|text| ("HTTPS_PROXY", text));
        let chosen = https.or_else(|| Some(("ALL_PROXY", read("all_proxy", "ALL_PROXY")?)));
        let Some((name, text)) = chosen else { return Ok(None) };
        let except = read("no_proxy", "NO_PROXY").unwrap_or_default();
        let bundle = read("ssl_cert_file", "SSL_CERT_FILE");
        Self::new(name, &text, &except, bundle.as_deref()).map(Some)
    }

    fn new(
        variable: &'static str,
        text: &str,
        except: &str,
        bundle: Option<&str>,
    ) -> Result<Self, ProxyError> {
        let wrong = || ProxyError::Address { variable };
        let text = text.trim();
        let (is_tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(wrong()),
            None => (false, text),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, address) = match authority.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, authority),
        };
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (address, if is_tls { 443 } else { 80 }),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.parse::<IpAddr>().is_err() && host.parse::<HostName>().is_err() {
            return Err(wrong());
        }
        let basic = |user: &str| Some(format!("Basic {}", BASE64.encode(decoded(user)?)));
        let credential = user.map(|user| basic(user).ok_or_else(wrong)).transpose()?;
        let trust = |error: tls::NoRoots| ProxyError::Trust { variable, reason: error.to_string() };
        let bundle = bundle.map(Path::new);
        let tls = is_tls.then(|| tls::trust(bundle).map_err(trust)).transpose()?;
        let except = except.split(',').filter_map(parse_except).collect();
        Ok(Self { host: host.to_owned(), port, credential, tls, except })
    }

    /// Whether that is the proxy itself. Who reached it could ask it for what is refused here.
    pub(crate) async fn is_at(&self, address: SocketAddr) -> io::Result<bool> {
        if address.port() != self.port {
            return Ok(false);
        }
        let mut own = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
        Ok(own.any(|own| own.ip() == address.ip()))
    }

    /// Whether this goes through the proxy: not what `NO_PROXY` names, by its address, or by the
    /// name by which a rule permits it.
    pub(super) fn is_for(&self, target: &Target<'_>) -> bool {
        let at = |port: Option<u16>| port.is_none_or(|port| port == target.address.port());
        !self.except.iter().any(|except| match except {
            Except::All => true,
            Except::Net(net, port) => at(*port) && net.contains(target.address.ip()),
            Except::Name(name, port) => {
                let under = |own: &HostName| own == name || own.is_below(name);
                at(*port) && target.by_name.is_some_and(under)
            }
        })
    }
}

/// An entry that cannot be read excepts nothing.
fn parse_except(text: &str) -> Option<Except> {
    let text = text.trim();
    if text == "*" {
        return Some(Except::All);
    }
    if let Ok(net) = text.parse() {
        return Some(Except::Net(net, None));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (text, None),
    };
    if let Ok(net) = host.parse() {
        return Some(Except::Net(net, port));
    }
    let name = host.trim_start_matches('*').trim_start_matches('.').parse().ok()?;
    Some(Except::Name(name, port))
}

/// User and password as their bytes.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The credential is nobody's business.
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<Option<Proxy>, ProxyError> {
        let get = |name: &str| variables.iter().find(|(own, _)| *own == name);
        Proxy::from_env(|name| get(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_environment_names_the_proxy() {
        let check = |variables: &[(&str, &str)], expected: &str| {
            let found = match from(variables) {
                Ok(Some(proxy)) => {
                    let credential = proxy.credential.clone().unwrap_or_default();
                    format!("{} {} {credential}", proxy.host, proxy.port)
                }
                Ok(None) => "none".to_owned(),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected, "{variables:?}");
        };
        check(&[], "none");
        check(&[("HTTPS_PROXY", " ")], "none");
        check(&[("HTTP_PROXY", "http://a.example")], "none");
        check(&[("HTTPS_PROXY", "http://a.example:3128/")], "a.example 3128 ");
        check(&[("https_proxy", "a.example"), ("HTTPS_PROXY", "b.example")], "a.example 80 ");
        check(&[("ALL_PROXY", "http://b.example"), ("HTTPS_PROXY", "a.example")], "a.example 80 ");
        check(&[("ALL_PROXY", "http://[::1]:8080")], "::1 8080 ");
        check(&[("ALL_PROXY", "10.0.0.1:8080")], "10.0.0.1 8080 ");
        check(
            &[("HTTPS_PROXY", "http://user:p%40ss@a.example:1")],
            "a.example 1 Basic dXNlcjpwQHNz",
        );
        let wrong = "HTTPS_PROXY must be a proxy such as http://proxy.example.com:3128";
        for text in ["socks5://a", "http://", "http://a:x", "http://%zz@a", "http://a b"] {
            check(&[("HTTPS_PROXY", text)], wrong);
        }
    }

    #[test]
    fn what_is_excepted_goes_directly() {
        let except =
            "intern.example, *.corp.example ,203.0.113.0/24,198.51.100.7:80,[2001:db8::]/32,??";
        let proxy = from(&[("HTTPS_PROXY", "a.example"), ("NO_PROXY", except)]);
        let proxy = proxy.expect("good").expect("one");
        let check = |address: &str, name: &str, expected: bool| {
            let name = name.parse::<HostName>().ok();
            let address = address.parse().expect("an address");
            let target = Target { address, by_name: name.as_ref(), wide: true };
            assert_eq!(proxy.is_for(&target), expected, "{address} {name:?}");
        };
        check("192.0.2.1:443", "", true);
        check("192.0.2.1:443", "intern.example", false);
        check("192.0.2.1:443", "a.intern.example", false);
        check("192.0.2.1:443", "aintern.example", true);
        check("192.0.2.1:443", "a.corp.example", false);
        check("203.0.113.9:443", "", false);
        check("198.51.100.7:80", "", false);
        check("198.51.100.7:443", "", true);
        check("[2001:db8::1]:443", "", false);
        let all = from(&[("HTTPS_PROXY", "a.example"), ("NO_PROXY", "*")]);
        let address = "192.0.2.1:443".parse().expect("an address");
        let target = Target { address, by_name: None, wide: true };
        assert!(!all.expect("good").expect("one").is_for(&target));
    }

    #[test]
    fn a_credential_is_not_shown() {
        let proxy = from(&[("HTTPS_PROXY", "http://user:hunter2@a.example")]);
        let shown = format!("{:?}", proxy.expect("good").expect("one"));
        assert_eq!(shown, "Proxy(a.example:80)");
    }
}
