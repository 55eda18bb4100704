//! Against web pages that drive a server on the machine of their reader.
//!
//! A page can make its reader's browser send requests to `localhost`, directly or by a name of its
//! own that resolves to 127.0.0.1 (rebinding). The first kind shows in `Origin`, the second in
//! `Host` too. Programs send no `Origin`.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HOST, ORIGIN};
use hyper::http::request::Parts;

/// Which names this server answers to, and which pages may use it.
#[derive(Debug, Clone)]
pub struct Origins {
    address: IpAddr,
    /// Origins that may be used, besides those of this machine.
    allowed: Vec<String>,
}

impl Origins {
    /// The rules of a server that listens at `address`.
    #[must_use]
    pub fn new(address: SocketAddr, allowed: Vec<String>) -> Self {
        Self { address: address.ip().to_canonical(), allowed }
    }

    /// Checks whom the request thinks it talks to. Only a server on loopback can know all names it
    /// has: those of this machine, and those of allowed origins (a proxy in front of it).
    #[must_use]
    pub fn host_is_ours(&self, head: &Parts) -> bool {
        if !self.address.is_loopback() {
            return true;
        }
        let mut hosts = head.headers.get_all(HOST).iter();
        let header = hosts.next().map(|value| value.to_str().unwrap_or("?"));
        if hosts.next().is_some() {
            return false;
        }
        // A request in absolute form names its host there, and that one counts.
        let named = head.uri.authority().map(hyper::http::uri::Authority::as_str).or(header);
        named.is_none_or(|named| {
            let host = host_of(named);
            is_loopback(host)
                || self.allowed.iter().any(|origin| {
                    origin.split_once("://").is_some_and(|(_, rest)| {
                        rest.eq_ignore_ascii_case(named) || host_of(rest).eq_ignore_ascii_case(host)
                    })
                })
        })
    }

    /// Checks which page sent the request, if one did.
    #[must_use]
    pub fn origin_is_allowed(&self, head: &Parts) -> bool {
        head.headers.get_all(ORIGIN).iter().all(|value| {
            let Ok(origin) = value.to_str().map(str::trim) else { return false };
            if origin.is_empty() || self.allowed.iter().any(|allowed| allowed == origin) {
                return true;
            }
            let Some((_, authority)) = origin.split_once("://") else { return false };
            if authority.contains(['/', '@', '?', '#']) {
                return false;
            }
            let host = host_of(authority);
            let own = host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical() == self.address);
            own || is_loopback(host)
        })
    }
}

/// The host of `host`, `host:port`, `[v6]` or `[v6]:port`.
fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// `localhost` and the loopback addresses. Names below `localhost` are somebody else's: anything
/// may be served there.
fn is_loopback(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(address: &str) -> Origins {
        let allowed = vec!["https://app.example".to_owned(), "http://tool.example:8080".to_owned()];
        Origins::new(address.parse().expect("an address"), allowed)
    }

    fn head(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = hyper::Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn case_86_only_pages_of_this_machine_or_allowed_ones() {
        let check = |origin: &str, expected: bool| {
            let head = head("/mcp", &[("origin", origin)]);
            for address in ["127.0.0.1:9000", "192.0.2.7:9000"] {
                let got = origins(address).origin_is_allowed(&head);
                assert_eq!(got, expected, "{origin} at {address}");
            }
        };
        check("", true);
        check("http://localhost", true);
        check("http://LOCALHOST:3000", true);
        check("https://127.0.0.1:1", true);
        check("http://127.0.0.2", true);
        check("http://[::1]:9000", true);
        check("https://app.example", true);
        check("http://tool.example:8080", true);
        check("null", false);
        check("localhost", false);
        check("https://app.example:8443", false);
        check("http://app.example", false);
        check("http://tool.example", false);
        check("http://evil.example", false);
        check("http://localhost.evil.example", false);
        check("http://a.localhost:9000", false);
        check("http://localhost@evil.example", false);
        check("http://evil.example/localhost", false);
        check("http://localhost:x", false);
        check("http://10.0.0.1", false);
        check("http://[::2]", false);
        assert!(
            origins("192.0.2.7:1")
                .origin_is_allowed(&head("/", &[("origin", "http://192.0.2.7:1")]))
        );
        assert!(origins("127.0.0.1:1").origin_is_allowed(&head("/", &[])));
        let two = head("/", &[("origin", "http://localhost"), ("origin", "http://evil.example")]);
        assert!(!origins("127.0.0.1:1").origin_is_allowed(&two));
    }

    #[test]
    fn case_86_a_server_on_loopback_answers_to_its_own_names_only() {
        let check = |uri: &str, host: &str, expected: bool| {
            let head = head(uri, &[("host", host)]);
            for address in ["127.0.0.1:9000", "[::1]:9000", "[::ffff:127.0.0.1]:9000"] {
                let got = origins(address).host_is_ours(&head);
                assert_eq!(got, expected, "{uri} {host} at {address}");
            }
            assert!(origins("0.0.0.0:9000").host_is_ours(&head), "{host}");
        };
        check("/", "localhost:9000", true);
        check("/", "localhost.", true);
        check("/", "127.0.0.1", true);
        check("/", "[::1]:9000", true);
        check("/", "app.example", true);
        check("/", "tool.example:8080", true);
        check("/", "evil.example", false);
        check("/", "evil.example:9000", false);
        check("/", "x.localhost", false);
        check("/", "localhost.evil.example", false);
        check("/", "", false);
        check("http://evil.example/mcp", "localhost", false);
        check("http://localhost/mcp", "evil.example", true);
        assert!(origins("127.0.0.1:1").host_is_ours(&head("/", &[])));
        let two = head("/", &[("host", "localhost"), ("host", "evil.example")]);
        assert!(!origins("127.0.0.1:1").host_is_ours(&two));
    }
}
