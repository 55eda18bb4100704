//! Small helpers for texts that come from callers and guests.

use bytes::Bytes;

use crate::{Error, ErrorKind};

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

/// The bytes of a file from `offset` as text, and how many of them it is: where the reading was
/// `cut`, a character that the cut went through is left to the next read.
///
/// # Errors
/// `file_invalid` when they are no UTF-8.
pub fn whole_text(
    path: &str,
    offset: u64,
    bytes: Bytes,
    cut: bool,
) -> Result<(String, usize), Error> {
    let refuse = |at: usize| {
        let at = offset + at as u64;
        let text = format!("{} is no UTF-8 text (byte {at} does not fit)", shorten(path, 200));
        Error::new(ErrorKind::FileInvalid, text).suggest("Read it with the encoding base64.")
    };
    match String::from_utf8(bytes.into()) {
        Ok(text) => {
            let taken = text.len();
            Ok((text, taken))
        }
        Err(error) => {
            let problem = error.utf8_error();
            let valid = problem.valid_up_to();
            // No error length: the text is sound and only stops within a character.
            if !cut || problem.error_len().is_some() || valid == 0 {
                return Err(refuse(valid));
            }
            let mut bytes = error.into_bytes();
            bytes.truncate(valid);
            String::from_utf8(bytes).map(|text| (text, valid)).map_err(|_| refuse(valid))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &'static [u8], cut: bool, expected: Result<(&str, usize), &str>) {
        let got = whole_text("f", 10, Bytes::from_static(bytes), cut);
        let got = got.as_ref().map(|(text, taken)| (text.as_str(), *taken));
        assert_eq!(got.map_err(|error| error.public.as_str()), expected, "{bytes:?}");
    }

    #[test]
    fn case_31_what_is_no_text_is_never_replaced_silently() {
        check(b"", false, Ok(("", 0)));
        check("aé".as_bytes(), false, Ok(("aé", 3)));
        check(b"\xef\xbb\xbfa", false, Ok(("\u{feff}a", 4)));
        check(b"a\xc3", true, Ok(("a", 1)));
        check(b"a\xc3", false, Err("f is no UTF-8 text (byte 11 does not fit)"));
        check(b"a\xffb", true, Err("f is no UTF-8 text (byte 11 does not fit)"));
        check(b"\xff\xfea\0", false, Err("f is no UTF-8 text (byte 10 does not fit)"));
        check(b"\xc3", true, Err("f is no UTF-8 text (byte 10 does not fit)"));
    }

    #[test]
    fn long_and_odd_texts_become_short_and_plain() {
        assert_eq!(shorten("abc", 3), "abc");
        assert_eq!(shorten("abcd", 3), "abc…");
        assert_eq!(shorten("a\0\u{1b}", 9), "a\u{fffd}\u{fffd}");
    }
}
