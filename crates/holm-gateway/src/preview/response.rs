//! What of a program's head comes out: nothing that reaches beyond the preview's own origin, nothing
//! that a front would take for orders.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::access::is_own_cookie;
use super::headers::{remove_hops, remove_where};

/// Where a connection goes and how is the service's to say, also about subdomains
/// (`Strict-Transport-Security`) and other places (`Alt-Svc`); and old forms of the same.
const OF_THE_SERVICE: [&str; 6] =
    ["alt-svc", "expect-ct", "public-key-pins", "set-cookie2", "strict-transport-security", "via"];
/// What proxies in front take for orders: to send a file of theirs, or to ask somewhere else.
const ORDERS: [&str; 4] = ["x-accel-", "x-lighttpd-send", "x-reproxy-", "x-sendfile"];
/// What proxies in front obey before `Cache-Control` (RFC 9213 and older): they would keep private
/// answers for everybody.
const KEEPING: [&str; 3] = ["cdn-cache-control", "edge-control", "surrogate-control"];
/// The one of them that is only about haste, which event streams need.
const HASTE: &str = "x-accel-buffering";
/// What `Clear-Site-Data` may clear. Cookies would be those of the whole domain.
const CLEARED: [&str; 2] = ["\"cache\"", "\"storage\""];

/// What a program does not say.
fn is_not_theirs(name: &HeaderName) -> bool {
    let name = name.as_str();
    OF_THE_SERVICE.contains(&name)
        || name.starts_with("x-holm-")
        || KEEPING.iter().any(|keeping| name.ends_with(keeping))
        || (name != HASTE && ORDERS.iter().any(|order| name.starts_with(order)))
}

fn remove_not_theirs(headers: &mut HeaderMap) {
    remove_hops(headers);
    remove_where(headers, |name, _| is_not_theirs(name));
}

/// The trailers for a visitor: some fronts add them to the headers.
pub fn trailers_for_visitor(trailers: &mut HeaderMap) {
    remove_not_theirs(trailers);
    trailers.remove(header::SET_COOKIE);
    trailers.remove("clear-site-data");
}

/// The headers for a visitor of a preview.
pub fn for_visitor(headers: &mut HeaderMap, is_public: bool) {
    remove_not_theirs(headers);
    clear_less(headers);
    keep_cookies_home(headers);
    // Otherwise two previews of one domain could agree (`document.domain`) to be of one origin.
    let keyed = HeaderName::from_static("origin-agent-cluster");
    headers.insert(keyed, HeaderValue::from_static("?1"));
    if !is_public {
        // A front that keeps answers for everybody must not keep these.
        headers.append(header::CACHE_CONTROL, HeaderValue::from_static("private"));
    }
}

fn clear_less(headers: &mut HeaderMap) {
    let name = HeaderName::from_static("clear-site-data");
    if !headers.contains_key(&name) {
        return;
    }
    let values = headers.get_all(&name).iter().filter_map(|value| value.to_str().ok());
    let kinds = values.flat_map(|value| value.split(',')).map(str::trim);
    let kept: Vec<&str> = kinds.filter(|kind| CLEARED.contains(kind)).collect();
    let kept = HeaderValue::try_from(kept.join(", ")).ok().filter(|kept| !kept.is_empty());
    match kept {
        Some(kept) => drop(headers.insert(name, kept)),
        None => drop(headers.remove(name)),
    }
}

/// A cookie of a preview is for its host alone: with a `Domain` others would get it too. Those that
/// are named as the service's are not set at all.
fn keep_cookies_home(headers: &mut HeaderMap) {
    let given: Vec<HeaderValue> = headers.get_all(header::SET_COOKIE).iter().cloned().collect();
    headers.remove(header::SET_COOKIE);
    for value in given {
        if let Some(value) = at_home(&value) {
            headers.append(header::SET_COOKIE, value);
        }
    }
}

fn at_home(value: &HeaderValue) -> Option<HeaderValue> {
    let is_domain = |part: &&[u8]| {
        let name = part.split(|byte| *byte == b'=').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"domain")
    };
    let mut parts = value.as_bytes().split(|byte| *byte == b';');
    let pair = parts.next().unwrap_or_default();
    let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
    if is_own_cookie(&String::from_utf8_lossy(name.trim_ascii())) {
        return None;
    }
    let mut kept = pair.to_vec();
    for part in parts.filter(|part| !is_domain(part)) {
        kept.push(b';');
        kept.extend_from_slice(part);
    }
    HeaderValue::from_bytes(&kept).ok()
}

#[cfg(test)]
mod tests {
    use super::super::headers::testing;
    use super::*;

    fn check(is_public: bool, given: &[(&str, &str)], want: &[(&str, &str)]) {
        let mut headers = testing::of(given);
        for_visitor(&mut headers, is_public);
        assert_eq!(headers.remove("origin-agent-cluster").expect("is set"), "?1");
        assert_eq!(testing::pairs(&headers), want, "{given:?}");
    }

    #[test]
    fn what_reaches_beyond_the_origin_is_not_passed_on() {
        check(true, &[("alt-svc", "h3=\":1\""), ("strict-transport-security", "max-age=1")], &[]);
        check(
            true,
            &[("x-accel-redirect", "/etc"), ("x-sendfile", "/etc"), ("x-holm-a", "b")],
            &[],
        );
        check(true, &[("cdn-cache-control", "public"), ("a-cdn-cache-control", "public")], &[]);
        check(false, &[("surrogate-control", "max-age=9")], &[("cache-control", "private")]);
        check(true, &[("x-accel-buffering", "no")], &[("x-accel-buffering", "no")]);
        check(true, &[("connection", "x-foo"), ("x-foo", "1"), ("keep-alive", "1")], &[]);
        check(true, &[("clear-site-data", "\"*\"")], &[]);
        check(
            true,
            &[("clear-site-data", "\"cache\", \"cookies\", \"storage\"")],
            &[("clear-site-data", "\"cache\", \"storage\"")],
        );
        check(true, &[("origin-agent-cluster", "?0")], &[]);
        check(true, &[("service-worker-allowed", "/")], &[("service-worker-allowed", "/")]);
    }

    #[test]
    fn cookies_stay_with_their_host() {
        let check = |given: &str, want: Option<&str>| {
            let want: Vec<_> = want.map(|want| ("set-cookie", want)).into_iter().collect();
            check(true, &[("set-cookie", given)], &want);
        };
        check("a=1; Path=/; HttpOnly", Some("a=1; Path=/; HttpOnly"));
        check("a=1; Domain=localhost; Path=/", Some("a=1; Path=/"));
        check("a=1; Path=/;DOMAIN = .example.com", Some("a=1; Path=/"));
        check("a=1;domain", Some("a=1"));
        check("a=domain=x; Secure", Some("a=domain=x; Secure"));
        check("holm-preview=x; Path=/", None);
        check(" __Host-holm-preview =x", None);
    }

    #[test]
    fn trailers_say_no_more_than_headers_may() {
        let mut trailers = HeaderMap::new();
        for name in ["set-cookie", "clear-site-data", "x-accel-redirect", "alt-svc", "x-sum"] {
            trailers.insert(HeaderName::from_static(name), HeaderValue::from_static("1"));
        }
        trailers_for_visitor(&mut trailers);
        let left: Vec<&str> = trailers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["x-sum"]);
    }

    #[test]
    fn private_answers_are_not_kept_for_others() {
        check(false, &[], &[("cache-control", "private")]);
        check(
            false,
            &[("cache-control", "public, max-age=9")],
            &[("cache-control", "public, max-age=9"), ("cache-control", "private")],
        );
    }
}
