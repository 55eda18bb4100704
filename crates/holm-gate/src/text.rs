//! Texts that came from a sandbox or a tenant, made fit for logs and answers.

/// At most `limit` characters, without control characters.
pub(crate) fn shown(text: &str, limit: usize) -> String {
    let clean = |c: char| if c.is_control() || is_invisible(c) { '\u{fffd}' } else { c };
    let mut shown: String = text.chars().take(limit).map(clean).collect();
    if text.chars().nth(limit).is_some() {
        shown.push('…');
    }
    shown
}

/// Characters that turn a line around or hide in it.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_text_is_short_and_clean() {
        assert_eq!(shown("a.example", 80), "a.example");
        assert_eq!(shown("a\r\n\u{1b}[31m\u{202e}b", 80), "a\u{fffd}\u{fffd}\u{fffd}[31m\u{fffd}b");
        assert_eq!(shown(&"ä".repeat(90), 3), "äää…");
        assert_eq!(shown("äää", 3), "äää");
    }
}
