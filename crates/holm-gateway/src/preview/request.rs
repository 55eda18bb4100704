//! What of a visitor's head goes to the program: nothing that is holm's, nothing that is about this
//! one connection, nothing that a visitor says about itself and only a proxy may say.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::access::{self, is_own_cookie};
use super::headers::{HOP, remove_hops, remove_where};

/// What only a proxy may say.
const OF_PROXIES: [&str; 3] = ["forwarded", "via", "x-real-ip"];
/// How those and holm's own begin.
const PREFIXES: [&str; 2] = ["x-forwarded-", "x-holm-"];

/// Whose request it is, as the program is told.
#[derive(Debug, Clone, Copy)]
pub struct Visitor<'a> {
    /// Where it comes from.
    pub address: Option<IpAddr>,
    /// The host that it names.
    pub host: &'a str,
    /// `http` or `https`.
    pub scheme: &'static str,
}

/// Whether only this proxy says it. Programs that have headers as variables (CGI, WSGI) cannot tell
/// `_` from `-`, so neither counts here.
fn is_ours(name: &HeaderName) -> bool {
    let is_of_proxies = |name: &str| {
        OF_PROXIES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    if !name.as_str().contains('_') {
        return is_of_proxies(name.as_str());
    }
    let plain = name.as_str().replace('_', "-");
    is_of_proxies(&plain) || HOP.iter().any(|hop| hop.as_str() == plain)
}

/// The trailers for the program: some add them to the headers.
pub fn trailers_for_program(trailers: &mut HeaderMap, is_credential: impl Fn(&str) -> bool) {
    remove_hops(trailers);
    // No client has reason to send cookies there, and ours are among them.
    trailers.remove(header::COOKIE);
    remove_where(trailers, |name, value| is_ours(name) || holds(value, &is_credential));
}

/// Whether a value has a credential in it, also as the password of Basic.
fn holds(value: &HeaderValue, is_credential: &impl Fn(&str) -> bool) -> bool {
    let text = String::from_utf8_lossy(value.as_bytes());
    is_credential(&text) || basic(&text).is_some_and(|text| is_credential(&text))
}

/// The headers for the program. `is_credential` knows what is holm's.
pub fn for_program(
    headers: &mut HeaderMap,
    visitor: Visitor<'_>,
    is_credential: impl Fn(&str) -> bool,
) {
    let trailers = headers.get_all(header::TE).iter().any(|value| {
        let mut words = value.to_str().unwrap_or_default().split(',');
        words.any(|word| word.trim().eq_ignore_ascii_case("trailers"))
    });
    remove_hops(headers);
    // This server answers it, when the program begins to read.
    headers.remove(header::EXPECT);
    let holds_ours = |value: &HeaderValue| holds(value, &is_credential);
    let cookie = cookies(headers, &is_credential);
    headers.remove(header::COOKIE);
    // A name with one value of holm's loses all: what is left would not be what was meant.
    remove_where(headers, |name, value| is_ours(name) || holds_ours(value));
    let is_link = |value: &HeaderValue| {
        value.to_str().is_ok_and(|text| text.contains(&format!("{}=", access::PARAMETER)))
    };
    if headers.get(header::REFERER).is_some_and(is_link) {
        headers.remove(header::REFERER);
    }
    if let Some(cookie) = cookie {
        headers.insert(header::COOKIE, cookie);
    }
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    tell(headers, visitor);
}

/// What a proxy says about its visitor.
fn tell(headers: &mut HeaderMap, visitor: Visitor<'_>) {
    const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
    const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
    const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
    const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
    if let Ok(host) = HeaderValue::try_from(visitor.host) {
        headers.insert(header::HOST, host.clone());
        headers.insert(FORWARDED_HOST, host);
    }
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(visitor.scheme));
    let address = visitor.address.map(|address| address.to_canonical().to_string());
    if let Some(Ok(address)) = address.map(HeaderValue::try_from) {
        headers.insert(FORWARDED_FOR, address.clone());
        headers.insert(REAL_IP, address);
    }
}

/// The application's own cookies, in one header.
fn cookies(headers: &HeaderMap, is_credential: impl Fn(&str) -> bool) -> Option<HeaderValue> {
    let mut kept: Vec<u8> = Vec::new();
    for value in headers.get_all(header::COOKIE) {
        for pair in value.as_bytes().split(|byte| *byte == b';') {
            let pair = pair.trim_ascii();
            let text = String::from_utf8_lossy(pair);
            let name = text.split('=').next().unwrap_or_default().trim();
            if pair.is_empty() || is_own_cookie(name) || is_credential(&text) {
                continue;
            }
            if !kept.is_empty() {
                kept.extend_from_slice(b"; ");
            }
            kept.extend_from_slice(pair);
        }
    }
    if kept.is_empty() { None } else { HeaderValue::from_bytes(&kept).ok() }
}

/// What `Authorization: Basic` has in it.
fn basic(text: &str) -> Option<String> {
    let (scheme, code) = text.trim().split_once(' ')?;
    let bytes = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(code.trim()))?.ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The one token may be either half.
    Some(text.replacen(':', " ", 1))
}

#[cfg(test)]
mod tests {
    use super::super::headers::testing;
    use super::*;

    const KEY: &str = "holm_sk_0000";

    fn check(given: &[(&str, &str)], want: &[(&str, &str)]) {
        let mut headers = testing::of(given);
        let address = Some("::ffff:192.0.2.1".parse().expect("an address"));
        let visitor = Visitor { address, host: "h:1", scheme: "https" };
        for_program(&mut headers, visitor, |text| text.contains("holm_sk_"));
        for (name, value) in [
            ("host", "h:1"),
            ("x-forwarded-host", "h:1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-real-ip", "192.0.2.1"),
        ] {
            assert_eq!(headers.remove(name).expect(name), value, "{given:?}");
        }
        assert_eq!(testing::pairs(&headers), want, "{given:?}");
    }

    #[test]
    fn case_44_what_is_holms_stays_outside() {
        check(&[("authorization", &format!("Bearer {KEY}"))], &[]);
        check(&[("authorization", "Bearer app")], &[("authorization", "Bearer app")]);
        check(&[("x-api-key", KEY)], &[]);
        check(&[("x-api-key", "app"), ("x-api-key", KEY)], &[]);
        check(&[("x-any", &format!("x{KEY}"))], &[]);
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        check(&[("authorization", &basic(&format!("u:{KEY}")))], &[]);
        check(&[("authorization", &basic("u:p"))], &[("authorization", &basic("u:p"))]);
        check(&[("x-holm-preview-token", "t"), ("x-holm-else", "t")], &[]);
        let cookies = "a=1; holm-preview=t;__Host-holm-preview=u; b=\"2;3\"";
        check(&[("cookie", cookies), ("cookie", "c=4")], &[("cookie", "a=1; b=\"2; 3\"; c=4")]);
        check(&[("cookie", "holm-preview=t")], &[]);
        check(&[("cookie", &format!("a={KEY}; b"))], &[("cookie", "b")]);
        check(&[("referer", "http://h/?holm_token=t")], &[]);
        check(&[("referer", "http://h/?a")], &[("referer", "http://h/?a")]);
    }

    #[test]
    fn case_44_what_is_about_one_connection_ends_there() {
        check(
            &[("connection", "X-Foo, close, host"), ("x-foo", "1"), ("x-bar", "2")],
            &[("x-bar", "2")],
        );
        check(&[("keep-alive", "1"), ("proxy-authorization", "x"), ("upgrade", "h2c")], &[]);
        check(&[("te", "gzip, trailers"), ("expect", "100-continue")], &[("te", "trailers")]);
        check(&[("te", "gzip"), ("transfer-encoding", "chunked")], &[]);
    }

    #[test]
    fn what_visitors_say_about_themselves_is_replaced() {
        check(
            &[
                ("host", "evil"),
                ("x-forwarded-for", "10.0.0.1"),
                ("x-forwarded-host", "evil"),
                ("x-forwarded-proto", "gopher"),
                ("x-forwarded-prefix", "/x"),
                ("x-real-ip", "10.0.0.1"),
                ("forwarded", "for=10.0.0.1"),
                // The same to programs that have headers as variables.
                ("x_forwarded_for", "10.0.0.1"),
                ("x-forwarded_proto", "gopher"),
                ("x_real_ip", "10.0.0.1"),
                ("x_holm_else", "t"),
                ("transfer_encoding", "chunked"),
            ],
            &[],
        );
        check(&[("x_own", "1")], &[("x_own", "1")]);
    }

    #[test]
    fn trailers_say_no_more_than_headers_may() {
        let mut trailers = HeaderMap::new();
        for name in ["x-forwarded-for", "x_real_ip", "via", "x-holm-a", "upgrade", "x-sum"] {
            trailers.insert(HeaderName::from_static(name), HeaderValue::from_static("1"));
        }
        for (name, value) in
            [("x-api-key", "holm_sk_1"), ("cookie", "a=b"), ("x-b", "Basic OmhvbG1fc2tfMQ==")]
        {
            trailers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        trailers_for_program(&mut trailers, |text| text.contains("holm_sk_"));
        let left: Vec<&str> = trailers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["x-sum"]);
    }
}
