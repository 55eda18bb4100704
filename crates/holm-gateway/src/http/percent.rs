//! Percent-encoding, as queries and forms write it.

/// What `text` stands for, with blanks for `+`. False where a percent sign stands for nothing, and is
/// kept.
#[must_use]
pub fn decode(text: &str) -> (Vec<u8>, bool) {
    let (mut plain, mut whole) = (Vec::with_capacity(text.len()), true);
    let mut bytes = text.as_bytes();
    while let [byte, rest @ ..] = bytes {
        bytes = rest;
        let escaped = match (byte, rest) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match (escaped, byte) {
            (Some((high, low)), _) => {
                plain.push(high * 16 + low);
                bytes = &rest[2..];
            }
            (None, b'+') => plain.push(b' '),
            (None, other) => {
                whole &= *other != b'%';
                plain.push(*other);
            }
        }
    }
    (plain, whole)
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, plain: &[u8], whole: bool) {
        assert_eq!(decode(text), (plain.to_vec(), whole), "{text}");
    }

    #[test]
    fn escapes_stand_for_bytes_and_what_is_none_is_kept() {
        check("", b"", true);
        check("a%2Fb+c%c3%A9", "a/b cé".as_bytes(), true);
        check("%ff%00", b"\xff\0", true);
        check("%", b"%", false);
        check("%4", b"%4", false);
        check("%zz%41", b"%zzA", false);
        check("%%41", b"%A", false);
    }
}
