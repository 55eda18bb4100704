//! Names of hosts: one spelling for each, and never a number that resolvers read as an address.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A host's name: lower case, without the last dot, at most 253 characters, cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostName(Arc<str>);

/// Not the name of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAName {
    /// Nothing, or too much.
    #[error("a name has 1 to 253 characters")]
    Length,
    /// A part between dots.
    #[error("each part of a name has 1 to 63 characters")]
    Label,
    /// Something that does not belong in a name.
    #[error("a name has letters, digits, `-`, `_` and dots; write other scripts as `xn--…`")]
    Character,
    /// What some resolvers read as an address.
    #[error("this is a number, not a name; write addresses as 203.0.113.7 or [2001:db8::7]")]
    Number,
}

impl HostName {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for a name below `suffix` (at any depth), not for `suffix` itself.
    #[must_use]
    pub fn is_below(&self, suffix: &Self) -> bool {
        self.0.strip_suffix(&*suffix.0).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }
}

impl FromStr for HostName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() || text.len() > 253 {
            return Err(NotAName::Length);
        }
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if !text.bytes().all(known) {
            return Err(NotAName::Character);
        }
        if text.split('.').any(|label| label.is_empty() || label.len() > 63) {
            return Err(NotAName::Label);
        }
        let last = text.rsplit('.').next().unwrap_or(text);
        let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
            || hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if is_number {
            return Err(NotAName::Number);
        }
        Ok(Self(text.to_ascii_lowercase().into()))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_spelling() {
        let check = |text: &str, expected: Result<&str, NotAName>| {
            let name = text.parse::<HostName>();
            assert_eq!(name.as_ref().map(HostName::as_str), expected.as_ref().copied(), "{text}");
        };
        check("Example.COM.", Ok("example.com"));
        check("a_b.xn--bcher-kva.example", Ok("a_b.xn--bcher-kva.example"));
        check("3com.com", Ok("3com.com"));
        check("localhost", Ok("localhost"));
        check("", Err(NotAName::Length));
        check(".", Err(NotAName::Length));
        check(&format!("{}com", "a.".repeat(126)), Err(NotAName::Length));
        check("a..b", Err(NotAName::Label));
        check(".a", Err(NotAName::Label));
        check(&"a".repeat(64), Err(NotAName::Label));
        check("bücher.example", Err(NotAName::Character));
        check("a b", Err(NotAName::Character));
        check("a\0b.example", Err(NotAName::Character));
        for number in ["2130706433", "127.1", "0177.0.0.1", "0x7f000001", "0x7f.1", "1.0X1", "0x"] {
            check(number, Err(NotAName::Number));
        }
    }

    #[test]
    fn a_suffix_covers_what_is_below_it() {
        let name = |text: &str| text.parse::<HostName>().expect("a name");
        let check = |text: &str, expected: bool| {
            assert_eq!(name(text).is_below(&name("example.com")), expected, "{text}");
        };
        check("a.example.com", true);
        check("b.a.example.com", true);
        check("example.com", false);
        check("badexample.com", false);
        check("example.com.evil.example", false);
    }
}
