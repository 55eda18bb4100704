//! Small grammars of arguments.

use std::time::Duration;

use holm_engine::{EgressPolicy, PolicyError};

use crate::exit::Failure;

/// A duration: numbers with units (`ms`, `s`, `m`, `h`, `d`), or a bare number of seconds.
///
/// # Errors
/// With a sentence that says what is expected.
pub fn duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}` is not a duration such as 500ms, 30, 1.5s, 5m or 1h30m");
    if let Some(seconds) = number(text) {
        return positive(seconds, text);
    }
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(expected)?;
        let (value, tail) = rest.split_at(digits);
        let value = number(value).ok_or_else(expected)?;
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        total += value
            * match unit {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return Err(expected()),
            };
        rest = tail;
    }
    positive(total, text)
}

/// Digits with at most one dot; no sign, exponent, or `inf` as Rust's own parser takes them.
fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (plain && text.bytes().any(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn positive(seconds: f64, text: &str) -> Result<Duration, String> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) => Err("the duration must be longer than nothing".to_owned()),
        Err(_) => Err(format!("`{text}` is too long")),
    }
}

/// What a network policy looks like.
pub(super) const NETWORKS: &str = "write none, open, allow:api.example.com,*.example.org:443, or any \
    of the last two with ;deny:… behind it";

/// A network policy, given as `name`.
///
/// # Errors
/// When it is none.
pub fn network(name: &str, text: &str) -> Result<EgressPolicy, Failure> {
    let read = text.parse();
    read.map_err(|error: PolicyError| Failure::usage(format!("{name}: {error}")).hint(NETWORKS))
}

/// `NAME=VALUE`, or `NAME` alone.
///
/// # Errors
/// When the name cannot be one.
pub fn variable(item: &str) -> Result<(String, Option<String>), Failure> {
    let (name, value) = match item.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (item, None),
    };
    if name.is_empty() {
        return Err(Failure::usage(format!("--env `{item}`: the name is empty"))
            .hint("write --env NAME=VALUE"));
    }
    Ok((name.to_owned(), value))
}

/// `HOST:PATH`, cut at the last colon that is followed by a slash, because host paths may hold
/// colons.
///
/// # Errors
/// When there is none.
pub fn mount(item: &str) -> Result<(&str, &str), Failure> {
    match item.rfind(":/") {
        Some(cut) if item[cut + 1..].contains(':') => {
            Err(Failure::usage(format!("--mount-ro `{item}`: the path inside holds a colon"))
                .hint("it is always read-only; write HOST:PATH without `:ro`"))
        }
        Some(cut) if cut > 0 => Ok((&item[..cut], &item[cut + 1..])),
        _ => Err(Failure::usage(format!("--mount-ro `{item}` is not HOST:PATH"))
            .hint("the path inside must be absolute, for example --mount-ro ./data:/data")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |text, millis| {
            let expected = Duration::from_millis(millis);
            assert_eq!(duration(text), Ok(expected), "{text}");
        };
        check("30", 30_000);
        check("0.5", 500);
        check("500ms", 500);
        check("1.5s", 1500);
        check("5m", 300_000);
        check("1h30m", 5_400_000);
        check("1d", 86_400_000);
        for wrong in
            ["", "s", "-1", "1x", "1h30", "inf", "nan", "1e3", "0", "0ms", "1..5", ".", "5 m"]
        {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(duration("99999999999999999999999d").is_err());
    }

    #[test]
    fn mounts() {
        let check = |item, expected| assert_eq!(mount(item).ok(), expected, "{item}");
        check("a:/b", Some(("a", "/b")));
        check("/x:y:/b", Some(("/x:y", "/b")));
        check("a:b", None);
        check(":/b", None);
        check("a", None);
    }

    #[test]
    fn variables() {
        let check = |item, expected: Option<(&str, Option<&str>)>| {
            let expected = expected.map(|(n, v)| (n.to_owned(), v.map(str::to_owned)));
            assert_eq!(variable(item).ok(), expected, "{item}");
        };
        check("A=b", Some(("A", Some("b"))));
        check("A=b=c", Some(("A", Some("b=c"))));
        check("A=", Some(("A", Some(""))));
        check("A", Some(("A", None)));
        check("=b", None);
    }
}
