//! `WWW-Authenticate`: how a registry says what it wants.

/// What a registry wants before it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User and password with each request.
    Basic,
    /// A token from somewhere else.
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

impl Challenge {
    /// Reads one; none where it is neither.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut scope) = (None, None, None);
        let mut rest = rest.trim();
        while !rest.is_empty() {
            let (key, after) = rest.split_once('=')?;
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => {
                    let end = after.find(',').unwrap_or(after.len());
                    after.split_at(end)
                }
            };
            let slot = match key.trim().to_ascii_lowercase().as_str() {
                "realm" => Some(&mut realm),
                "service" => Some(&mut service),
                "scope" => Some(&mut scope),
                _ => None,
            };
            if let Some(slot) = slot {
                *slot = Some(value.trim().to_owned());
            }
            rest = after.trim_start().trim_start_matches(',').trim_start();
        }
        Some(Self::Bearer { realm: realm?, service, scope })
    }
}

/// A value in a query.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let bearer = |realm: &str, service: Option<&str>, scope: Option<&str>| Challenge::Bearer {
            realm: realm.into(),
            service: service.map(Into::into),
            scope: scope.map(Into::into),
        };
        for (text, want) in [
            ("Basic realm=\"x\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                "Bearer realm=\"https://a.example/t\",service=\"s\",scope=\"repository:a/b:pull,push\"",
                Some(bearer("https://a.example/t", Some("s"), Some("repository:a/b:pull,push"))),
            ),
            (
                "bearer realm=\"https://a.example\", error=\"x\"",
                Some(bearer("https://a.example", None, None)),
            ),
            (
                "Bearer service=s, realm=https://a.example",
                Some(bearer("https://a.example", Some("s"), None)),
            ),
            ("Bearer service=\"s\"", None),
            ("Bearer realm=\"open", None),
            ("Negotiate", None),
            ("", None),
        ] {
            assert_eq!(Challenge::parse(text), want, "{text}");
        }
        assert_eq!(encode("repository:a/b:pull,push x&y"), "repository:a/b:pull%2Cpush%20x%26y");
    }
}
