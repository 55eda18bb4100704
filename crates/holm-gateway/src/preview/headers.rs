//! Taking headers out, whichever way they go.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

/// About one connection only (RFC 9110, 7.6.1), and what hyper writes by itself.
pub static HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Removes what is about one connection, also what `Connection` names.
pub fn remove_hops(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    remove_where(headers, |name, _| HOP.contains(name));
}

/// Removes each name of which one value is such; what is left of it would not be what was meant.
pub fn remove_where(headers: &mut HeaderMap, is_such: impl Fn(&HeaderName, &HeaderValue) -> bool) {
    let such = headers.iter().filter(|(name, value)| is_such(name, value));
    let names: Vec<HeaderName> = such.map(|(name, _)| name.clone()).collect();
    for name in names {
        headers.remove(name);
    }
}

/// Headers as tests write them.
#[cfg(test)]
pub mod testing {
    use super::*;

    /// Headers of these names and values.
    pub fn of(given: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            let name = HeaderName::try_from(*name).expect("a name");
            headers.append(name, HeaderValue::try_from(*value).expect("a value"));
        }
        headers
    }

    /// Their names and values.
    pub fn pairs(headers: &HeaderMap) -> Vec<(&str, &str)> {
        headers.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text"))).collect()
    }
}
