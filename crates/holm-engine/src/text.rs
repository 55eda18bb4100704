//! Small helpers for texts that come from callers and guests.

/// At most `limit` characters of `text`, control characters made visible, for use inside a
/// message.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    let mut out: String =
        text.chars().take(limit).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(limit).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn long_and_odd_texts_become_short_and_plain() {
        assert_eq!(shorten("abc", 3), "abc");
        assert_eq!(shorten("abcd", 3), "abc…");
        assert_eq!(shorten("a\0\u{1b}", 9), "a\u{fffd}\u{fffd}");
    }
}
