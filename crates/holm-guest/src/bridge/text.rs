//! Cutting texts where characters begin, and taking terminals' escapes out of them.

/// The last place at or before `at` where a character begins.
pub fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The first place at or after `at` where a character begins.
pub fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// At most so many bytes of a text.
pub fn cut(mut text: String, most: usize) -> String {
    text.truncate(floor(&text, most));
    text
}

/// Beginning and end of a long text.
pub fn middle(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let (head, tail) = (floor(&text, most / 2), ceil(&text, text.len() - most / 2));
    format!("{}\n[... {} bytes cut ...]\n{}", &text[..head], tail - head, &text[tail..])
}

/// A text without the escapes by which terminals are told colours.
pub fn without_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let end = after.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(after.len());
        // Where it is not of that kind after all, the character after it stays.
        rest = after[end..].strip_prefix('m').unwrap_or(&after[end..]);
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_plain_and_short() {
        const MOST: usize = 1000;
        assert_eq!(without_colours("a\u{1b}[0;31mb\u{1b}[1Kc\u{1b}[0"), "abKc");
        assert_eq!(without_colours("\u{1b}[é"), "é");
        let long = "é".repeat(MOST);
        assert!(middle(long, MOST).len() < MOST + 100);
        assert_eq!((floor("aé", 2), ceil("aé", 2), floor("aé", 9)), (1, 3, 3));
        assert_eq!(cut("aé".to_owned(), 2), "a");
    }
}
