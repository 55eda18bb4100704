//! Addresses of services.

use std::fmt;
use std::net::IpAddr;

use hyper::Uri;
use hyper::http::uri::Scheme;

/// An `http` or `https` URL without user, password and fragment.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Url {
    tls: bool,
    /// Without the brackets of IPv6.
    host: String,
    port: u16,
    /// Path and query; begins with a slash.
    path: String,
}

/// What is wrong with a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It cannot be understood.
    #[error("is not a URL such as https://holm.example.com")]
    Malformed,
    /// Another protocol.
    #[error("must begin with http:// or https://")]
    Scheme,
    /// User or password in it: they would be shown with it.
    #[error("must not hold a user, a password or a key")]
    Credential,
}

impl Url {
    /// Reads one.
    ///
    /// # Errors
    /// When it is none that can be used.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let uri: Uri = text.trim().parse().map_err(|_| UrlError::Malformed)?;
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(UrlError::Scheme),
        };
        let authority = uri.authority().ok_or(UrlError::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::Credential);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = match authority.port() {
            Some(port) => port.as_str().parse().map_err(|_| UrlError::Malformed)?,
            // `host:` and `host:99999` have no port that hyper gives.
            None if authority.as_str() != authority.host() => return Err(UrlError::Malformed),
            None if tls => 443,
            None => 80,
        };
        if host.is_empty() || port == 0 {
            return Err(UrlError::Malformed);
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { tls, host: host.to_ascii_lowercase(), port, path })
    }

    /// The service behind a URL that somebody has entered: with or without the path of its API or
    /// of its MCP endpoint.
    ///
    /// # Errors
    /// As [`Self::parse`]; also for a query.
    pub fn service(text: &str) -> Result<Self, UrlError> {
        let mut url = Self::parse(text)?;
        if url.path.contains('?') {
            return Err(UrlError::Malformed);
        }
        let path = url.path.trim_end_matches('/');
        let known = ["/v1/mcp", "/mcp", "/v1"];
        let prefix = known.iter().find_map(|known| path.strip_suffix(known)).unwrap_or(path);
        url.path = prefix.trim_end_matches('/').to_owned();
        Ok(url)
    }

    /// The path of this URL with `path` behind it.
    #[must_use]
    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.path.trim_end_matches('/'))
    }

    /// Path and query as they are.
    #[must_use]
    pub fn own_path(&self) -> &str {
        if self.path.is_empty() { "/" } else { &self.path }
    }

    /// The same without path and query.
    #[must_use]
    pub fn without_path(mut self) -> Self {
        self.path = String::new();
        self
    }

    /// True for `https`.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The host, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address, where the host is one.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// True where it is this machine by its name or address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.ip() {
            Some(ip) => ip.to_canonical().is_loopback(),
            None => self.host == "localhost" || self.host.ends_with(".localhost"),
        }
    }

    /// Host and port, as `Host` and proxies want them; the port is left out where `short` allows
    /// it and it is the scheme's own.
    pub(crate) fn authority(&self, short: bool) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.tls, self.port) {
            (true, 443) | (false, 80) if short => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// Scheme, host and port. Paths may hold secrets (those of webhooks do) and are never shown.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.authority(true))
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Url({}/…)", self.origin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_by_any_of_their_urls() {
        let check = |text: &str, expected: Result<(&str, &str), UrlError>| {
            let got = Url::service(text).map(|url| (url.origin(), url.path("/v1/mcp")));
            let got = got.as_ref().map(|(origin, path)| (&**origin, &**path)).map_err(|e| *e);
            assert_eq!(got, expected, "{text}");
        };
        let own = "/v1/mcp";
        check("http://127.0.0.1:9000", Ok(("http://127.0.0.1:9000", own)));
        check("http://127.0.0.1:9000/mcp", Ok(("http://127.0.0.1:9000", own)));
        check("https://a.example/v1/mcp/", Ok(("https://a.example", own)));
        check("https://A.example:443/v1", Ok(("https://a.example", own)));
        check("https://a.example/holm/", Ok(("https://a.example", "/holm/v1/mcp")));
        check("https://a.example/holm/mcp", Ok(("https://a.example", "/holm/v1/mcp")));
        check(" http://[::1]:80/ ", Ok(("http://[::1]", own)));
        check("a.example", Err(UrlError::Scheme));
        check("ftp://a.example", Err(UrlError::Scheme));
        check("http://", Err(UrlError::Malformed));
        check("http://a:99999", Err(UrlError::Malformed));
        check("http://a:", Err(UrlError::Malformed));
        check("http://a/?key=b", Err(UrlError::Malformed));
        check("http://user:key@a", Err(UrlError::Credential));
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (text, expected) in [
            ("http://localhost", true),
            ("http://x.localhost:1", true),
            ("http://127.9.9.9", true),
            ("http://[::1]", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://10.0.0.1", false),
            ("http://localhost.example", false),
        ] {
            assert_eq!(Url::parse(text).expect("a URL").is_loopback(), expected, "{text}");
        }
    }

    #[test]
    fn paths_are_not_shown() {
        let url = Url::parse("https://hooks.example/x-marker-x?t=x-marker-x").expect("a URL");
        assert!(!format!("{url:?} {}", url.origin()).contains("marker"));
        assert_eq!(url.own_path(), "/x-marker-x?t=x-marker-x");
    }
}
