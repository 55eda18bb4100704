//! What a request must be to go on, and what of it goes on.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, PathAndQuery};
use hyper::{Method, StatusCode, Uri, Version};

use super::refusal::Refusal;
use crate::policy::HostName;

/// Who is at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    /// The name that the connection was made for.
    pub(crate) host: HostName,
    /// Its port.
    pub(crate) port: u16,
    /// Whether it is spoken to by TLS.
    pub(crate) tls: bool,
}

/// Headers that are about one connection.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

impl Site {
    fn is(&self, authority: &str) -> bool {
        let Ok(authority) = authority.parse::<Authority>() else { return false };
        let is_host = authority.host().parse().is_ok_and(|host: HostName| host == self.host);
        let port = match authority.port() {
            Some(_) => authority.port_u16() == Some(self.port),
            // Many clients leave it out, and the host is the same.
            None => !authority.as_str().ends_with(':'),
        };
        is_host && port && !authority.as_str().contains('@')
    }

    /// As `Host` names it.
    fn authority(&self) -> String {
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Makes of a request as it came the one that goes on; whether it asks for a WebSocket.
pub(super) fn request(site: &Site, parts: &mut Parts) -> Result<bool, Refusal> {
    // CONNECT would make the host a way to others, TRACE would show the credential.
    if matches!(parts.method, Method::CONNECT | Method::TRACE) {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this method is not passed on"));
    }
    host(site, parts)?;
    let path = parts.uri.path_and_query().map(PathAndQuery::as_str).unwrap_or_default();
    // `*` stays what it is; an empty path is the root.
    let path = if path.is_empty() { "/" } else { path };
    parts.uri = path.parse::<Uri>().map_err(|_| Refusal::bad("the path is malformed"))?;
    let websocket = parts.version == Version::HTTP_11
        && names(&parts.headers, &header::CONNECTION)
            .any(|name| name.eq_ignore_ascii_case("upgrade"))
        && only(&parts.headers, &header::UPGRADE)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let trailers =
        names(&parts.headers, &header::TE).any(|name| name.eq_ignore_ascii_case("trailers"));
    end_to_end(&mut parts.headers);
    // The gate answers it itself, as soon as somebody is there who takes the body.
    parts.headers.remove(header::EXPECT);
    if trailers {
        parts.headers.insert(header::TE, HeaderValue::from_static("trailers"));
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
    }
    if websocket {
        parts.headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    parts.version = Version::HTTP_11;
    Ok(websocket)
}

/// Every request on the connection must be for the host that the connection is for.
fn host(site: &Site, parts: &mut Parts) -> Result<(), Refusal> {
    let wrong = |asked: &str| {
        let asked = crate::text::shown(asked, 100);
        let host = &site.host;
        let text = format!("this connection is for {host}, the request for {asked}");
        Refusal::new(StatusCode::MISDIRECTED_REQUEST, text)
    };
    let scheme = if site.tls { "https" } else { "http" };
    if let Some(authority) = parts.uri.authority() {
        if parts.uri.scheme_str() != Some(scheme) || !site.is(authority.as_str()) {
            return Err(wrong(&parts.uri.to_string()));
        }
    } else if parts.uri.scheme().is_some() {
        return Err(Refusal::bad("the request has no host"));
    }
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(value), None) => match value.to_str() {
            Ok(asked) if site.is(asked) => {}
            _ => return Err(wrong(&String::from_utf8_lossy(value.as_bytes()))),
        },
        (Some(_), Some(_)) => return Err(Refusal::bad("the request has several `Host` headers")),
        (None, _) if parts.version == Version::HTTP_10 => {}
        (None, _) => return Err(Refusal::bad("the request has no `Host` header")),
    }
    let authority = site.authority().try_into().map_err(|_| Refusal::bad("not a host"))?;
    parts.headers.insert(header::HOST, authority);
    Ok(())
}

/// Leaves what is meant for the other end. `Trailer` stays: it says what follows the body.
pub(super) fn end_to_end(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = names(headers, &header::CONNECTION)
        .filter_map(|name| HeaderName::try_from(name).ok())
        // Nobody strips these from a message by naming them here.
        .filter(|name| !matches!(*name, header::HOST | header::CONTENT_LENGTH | header::TRAILER))
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// The names in a header that is a list.
fn names<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// The value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::get(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    fn site(port: u16, tls: bool) -> Site {
        Site { host: "api.example".parse().expect("a name"), port, tls }
    }

    #[test]
    fn a_request_must_be_for_the_host_of_the_connection() {
        let check = |uri: &str, hosts: &[&str], expected: Result<&str, u16>| {
            let headers: Vec<(&str, &str)> = hosts.iter().map(|host| ("host", *host)).collect();
            let mut parts = parts(uri, &headers);
            let result = request(&site(443, true), &mut parts);
            let seen = result.map(|_| parts.uri.to_string()).map_err(|it| it.status().as_u16());
            assert_eq!(seen, expected.map(str::to_owned), "{uri} {hosts:?}");
            if expected.is_ok() {
                assert_eq!(parts.headers[header::HOST], "api.example");
            }
        };
        check("/a?b=c", &["api.example"], Ok("/a?b=c"));
        check("/", &["API.Example:443"], Ok("/"));
        check("/", &["api.example."], Ok("/"));
        check("https://api.example/x", &["api.example"], Ok("/x"));
        check("https://api.example", &["api.example"], Ok("/"));
        check("*", &["api.example"], Ok("*"));
        for host in [
            "evil.example",
            "api.example.evil.example",
            "api.example:80",
            "api.example:",
            "user@api.example",
            "evil.example@api.example",
            "api.example, evil.example",
            "",
            "[::1]",
            "127.0.0.1",
        ] {
            check("/", &[host], Err(421));
        }
        check("https://evil.example/", &["api.example"], Err(421));
        check("https://api.example/", &["evil.example"], Err(421));
        check("http://api.example/", &["api.example"], Err(421));
        check("https://api.example:444/", &["api.example"], Err(421));
        check("https://u:p@api.example/", &["api.example"], Err(421));
        check("/", &[], Err(400));
        check("/", &["api.example", "api.example"], Err(400));
        check("/", &["api.example", "evil.example"], Err(400));
    }

    #[test]
    fn another_port_is_named() {
        for (port, tls, expected) in [(8443, true, "api.example:8443"), (80, false, "api.example")]
        {
            let mut parts = parts("/", &[("host", "api.example")]);
            assert!(request(&site(port, tls), &mut parts).is_ok());
            assert_eq!(parts.headers[header::HOST], expected);
        }
    }

    #[test]
    fn methods_that_lead_elsewhere_or_show_are_refused() {
        for method in [Method::CONNECT, Method::TRACE] {
            let mut parts = parts("/", &[("host", "api.example")]);
            parts.method = method;
            let refusal = request(&site(443, true), &mut parts).expect_err("refused");
            assert_eq!(refusal.status(), 405);
        }
    }

    #[test]
    fn headers_of_one_connection_do_not_go_on() {
        let mut parts = parts(
            "/",
            &[
                ("host", "api.example"),
                ("connection", "close, x-mine, Host, content-length"),
                ("keep-alive", "timeout=5"),
                ("x-mine", "1"),
                ("transfer-encoding", "chunked"),
                ("upgrade", "h2c"),
                ("http2-settings", "AAMAAABk"),
                ("expect", "100-continue"),
                ("proxy-authorization", "Basic eA=="),
                ("te", "gzip, trailers"),
                ("trailer", "x-sum"),
                ("content-length", "0"),
                ("accept", "*/*"),
            ],
        );
        assert!(matches!(request(&site(443, true), &mut parts), Ok(false)));
        let mut left: Vec<String> = parts
            .headers
            .iter()
            .map(|(k, v)| format!("{k}: {}", v.to_str().expect("text")))
            .collect();
        left.sort();
        let expected = [
            "accept: */*",
            "connection: te",
            "content-length: 0",
            "host: api.example",
            "http2-settings: AAMAAABk",
            "te: trailers",
            "trailer: x-sum",
        ];
        assert_eq!(left, expected);
    }

    #[test]
    fn a_websocket_is_the_only_upgrade() {
        let check = |upgrade: &[&str], connection: &str, expected: bool| {
            let mut headers = vec![("host", "api.example"), ("connection", connection)];
            headers.extend(upgrade.iter().map(|value| ("upgrade", *value)));
            let mut parts = parts("/", &headers);
            let upgraded = request(&site(443, true), &mut parts).expect("passed on");
            assert_eq!(upgraded, expected, "{upgrade:?} {connection}");
            assert_eq!(parts.headers.contains_key(header::UPGRADE), expected);
        };
        check(&["websocket"], "Upgrade", true);
        check(&["WebSocket"], "keep-alive, Upgrade", true);
        check(&["websocket"], "close", false);
        check(&["h2c"], "Upgrade, HTTP2-Settings", false);
        check(&["websocket, h2c"], "Upgrade", false);
        check(&["websocket", "h2c"], "Upgrade", false);
    }
}
