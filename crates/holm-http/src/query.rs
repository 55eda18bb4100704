//! Targets of requests.

use std::fmt::Write as _;

/// `path?key=value&…` with percent-encoded values.
#[must_use]
pub fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let mut out = String::from(path);
    for (index, (key, value)) in query.iter().enumerate() {
        let _ = write!(out, "{}{key}=", if index == 0 { '?' } else { '&' });
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                    out.push(char::from(byte));
                }
                _ => {
                    let _ = write!(out, "%{byte:02X}");
                }
            }
        }
    }
    out
}
