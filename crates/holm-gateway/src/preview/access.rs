//! Who may look at a preview: everybody where it is public; else who has a token.
//!
//! A link's token becomes a cookie of the preview's own host, and the address loses it. A cookie is
//! what browsers send by themselves, also for pages of others: so it counts only for what the
//! visitor opens, and for what the pages of the same sandbox ask for.

use holm_engine::{AccountId, Port};
use hyper::header::{
    COOKIE, HeaderName, HeaderValue, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE,
};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};
use jiff::Timestamp;

use super::host::Claim;
use super::site::Previews;
use crate::http::reply::{self, Response};

/// The header of programs.
pub const HEADER: HeaderName = HeaderName::from_static("x-holm-preview-token");
/// Where a link has its token.
pub const PARAMETER: &str = "holm_token";
/// The cookie where there is no TLS; with TLS a prefix ties it to its host.
const COOKIE_NAME: &str = "holm-preview";
const HOST_PREFIX: &str = "__Host-";
/// Cookies that begin so are the service's own, and go to no program.
const OWN_COOKIES: [&str; 6] =
    ["holm-", "holm_", "__Host-holm-", "__Host-holm_", "__Secure-holm-", "__Secure-holm_"];

/// What becomes of a visitor.
pub enum Entry {
    /// May look, where there is a time up to that.
    In(Option<Timestamp>),
    /// Gets a cookie first.
    Opened(Box<Response>),
    /// May not.
    Refused,
}

/// True for cookies of the service itself.
#[must_use]
pub fn is_own_cookie(name: &str) -> bool {
    let starts =
        |own: &&str| name.get(..own.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(own));
    OWN_COOKIES.iter().any(starts)
}

/// The address without what a link has in it; nothing where it has nothing of that.
#[must_use]
pub fn without_token(query: &str) -> Option<String> {
    let is_token = |pair: &&str| pair.split('=').next() == Some(PARAMETER);
    query.split('&').any(|pair| is_token(&pair)).then(|| {
        let rest: Vec<&str> = query.split('&').filter(|pair| !is_token(pair)).collect();
        rest.join("&")
    })
}

impl Previews {
    /// Judges a visitor of `port`, which is this account's.
    #[must_use]
    pub fn judge(&self, head: &Parts, port: &Port, account: AccountId) -> Entry {
        let tokens = head.headers.get_all(HEADER).iter().filter_map(|value| value.to_str().ok());
        let by_header = tokens.filter_map(|token| self.signer.admits(port, token.trim())).max();
        let by_cookie =
            || self.of_cookie(&head.headers, port).filter(|_| self.may_use_cookie(head));
        let query = head.uri.query().unwrap_or_default();
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let link = pairs.find(|(name, _)| *name == PARAMETER).map(|(_, token)| token);
        match link {
            Some(token) if head.method == Method::GET => {
                if port.public || by_cookie().is_some() {
                    return Entry::Opened(Box::new(self.clean(head)));
                }
                if self.signer.opens(port, account, token) {
                    let opened = self.open(head, port).map(Box::new);
                    return opened.map_or(Entry::Refused, Entry::Opened);
                }
            }
            _ => {}
        }
        if port.public {
            return Entry::In(None);
        }
        let until = by_header.max(by_cookie());
        until.map_or(Entry::Refused, |until| Entry::In(Some(until)))
    }

    fn cookie_name(&self) -> String {
        match self.is_https() {
            true => format!("{HOST_PREFIX}{COOKIE_NAME}"),
            false => COOKIE_NAME.to_owned(),
        }
    }

    fn of_cookie(&self, headers: &HeaderMap, port: &Port) -> Option<Timestamp> {
        let name = self.cookie_name();
        let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = values.flat_map(|value| value.split(';')).filter_map(|one| one.split_once('='));
        let tokens = pairs.filter(|(key, _)| key.trim() == name).map(|(_, token)| token.trim());
        tokens.filter_map(|token| self.signer.admits(port, token)).max()
    }

    /// Whether what a browser sends by itself counts here: a page of somebody else may have the
    /// visitor's browser open this one, but neither ask in it nor talk to it.
    fn may_use_cookie(&self, head: &Parts) -> bool {
        let Claim::Named(id, _) = self.claimed(head) else { return false };
        let of_same_sandbox = |value: &HeaderValue| {
            let origin = value.to_str().unwrap_or_default();
            let host = origin.split_once("://").map_or("", |(_, host)| host);
            matches!(self.domain().judge(host), Claim::Named(other, _) if other == id)
        };
        let mut origins = head.headers.get_all(ORIGIN).iter().peekable();
        if origins.peek().is_some() {
            return origins.all(of_same_sandbox);
        }
        let site = |name: &str| {
            let value = head.headers.get(name)?;
            Some(value.to_str().unwrap_or_default())
        };
        match site("sec-fetch-site") {
            Some("same-site" | "cross-site") => {
                // A navigation, also into a frame.
                site("sec-fetch-mode") == Some("navigate")
                    && matches!(head.method, Method::GET | Method::HEAD)
            }
            _ => true,
        }
    }

    /// Gives a cookie.
    fn open(&self, head: &Parts, port: &Port) -> Option<Response> {
        let token = self.access(port).ok()?;
        let (name, text) = (self.cookie_name(), token.text);
        let secure = if self.is_https() { "; Secure" } else { "" };
        let age = self.access_life().as_secs();
        let cookie =
            format!("{name}={text}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}");
        let mut response = self.clean(head);
        response.headers_mut().insert(SET_COOKIE, HeaderValue::try_from(cookie).ok()?);
        Some(response)
    }

    /// Sends the visitor to the same address without a token.
    fn clean(&self, head: &Parts) -> Response {
        let scheme = if self.is_https() { "https" } else { "http" };
        let host = Self::host_of(head).unwrap_or_default();
        let path = head.uri.path();
        let rest = without_token(head.uri.query().unwrap_or_default()).unwrap_or_default();
        let mark = if rest.is_empty() { "" } else { "?" };
        // With the host in it, so that a path can lead nowhere else.
        let to = format!("{scheme}://{host}{path}{mark}{rest}");
        let mut response = reply::with(reply::empty(303), "cache-control", "no-store");
        if let Ok(to) = HeaderValue::try_from(to) {
            response.headers_mut().insert(LOCATION, to);
        }
        let none = HeaderValue::from_static("no-referrer");
        response.headers_mut().insert(REFERRER_POLICY, none);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_the_token_and_nothing_else() {
        let check = |query: &str, want: Option<&str>| {
            assert_eq!(without_token(query).as_deref(), want, "{query}");
        };
        check("", None);
        check("a=1&b", None);
        check("xholm_token=1", None);
        check("holm_token=abc", Some(""));
        check("a=1&holm_token=abc&b=%20", Some("a=1&b=%20"));
        check("holm_token&holm_token=x&&c", Some("&c"));
    }

    #[test]
    fn the_services_cookies_are_known() {
        for own in ["holm-preview", "__Host-holm-preview", "__host-HOLM-x", "holm_session"] {
            assert!(is_own_cookie(own), "{own}");
        }
        for other in ["holmes", "session", "__Host-x", "", "hol", "é"] {
            assert!(!is_own_cookie(other), "{other}");
        }
    }
}
