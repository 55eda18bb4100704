//! A domain name as a message carries it. Both sides are hostile: a pointer may only lead back, so
//! that reading ends, and what is longer than DNS allows is malformed.

use std::fmt;

/// What is no message, or none that we read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed message")]
pub(crate) struct Malformed;

/// The most bytes of a name on the wire, its end included.
const LONGEST: usize = 255;

/// A name without compression: labels with their lengths, then a zero. Case is kept.
#[derive(Clone)]
pub(crate) struct Name(Vec<u8>);

impl Name {
    /// The name that begins at `at`, and where the message goes on behind it.
    pub(crate) fn read(message: &[u8], at: usize) -> Result<(Self, usize), Malformed> {
        let mut wire = Vec::with_capacity(32);
        let mut at = at;
        let mut behind = None;
        // Where the present run of labels began: a pointer must lead before it.
        let mut start = at;
        loop {
            let length = usize::from(*message.get(at).ok_or(Malformed)?);
            match length {
                0 => {
                    wire.push(0);
                    return Ok((Self(wire), behind.unwrap_or(at + 1)));
                }
                1..=63 => {
                    let label = message.get(at..at + 1 + length).ok_or(Malformed)?;
                    // One byte must remain for the end.
                    if wire.len() + label.len() + 1 > LONGEST {
                        return Err(Malformed);
                    }
                    wire.extend_from_slice(label);
                    at += label.len();
                }
                0xc0.. => {
                    let low = usize::from(*message.get(at + 1).ok_or(Malformed)?);
                    let target = (length & 0x3f) << 8 | low;
                    if target >= start {
                        return Err(Malformed);
                    }
                    behind.get_or_insert(at + 2);
                    at = target;
                    start = target;
                }
                _ => return Err(Malformed),
            }
        }
    }

    /// By its text.
    #[cfg(test)]
    pub(crate) fn parse(text: &str) -> Result<Self, Malformed> {
        let mut wire = Vec::with_capacity(text.len() + 2);
        for label in text.trim_end_matches('.').split('.') {
            let length = u8::try_from(label.len()).map_err(|_| Malformed)?;
            if !(1..=63).contains(&length) {
                return Err(Malformed);
            }
            wire.push(length);
            wire.extend_from_slice(label.as_bytes());
        }
        wire.push(0);
        if wire.len() > LONGEST { Err(Malformed) } else { Ok(Self(wire)) }
    }

    /// Its bytes on the wire.
    pub(crate) fn wire(&self) -> &[u8] {
        &self.0
    }

    /// Its labels, the left-most first.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first().filter(|(length, _)| **length > 0)?;
            let (label, behind) = behind.split_at_checked(usize::from(*length))?;
            rest = behind;
            Some(label)
        })
    }

    /// Its text in small letters without a dot at the end, where it has only the characters that
    /// names of hosts and services have. Rules and logs know no other names.
    pub(crate) fn text(&self) -> Option<String> {
        let mut text = String::with_capacity(self.0.len());
        for label in self.labels() {
            if !label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            {
                return None;
            }
            if !text.is_empty() {
                text.push('.');
            }
            text.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
        }
        (!text.is_empty()).then_some(text)
    }

    /// True where `self` is `zone` or below it.
    pub(crate) fn is_in(&self, zone: &Self) -> bool {
        let mine: Vec<&[u8]> = self.labels().collect();
        let its: Vec<&[u8]> = zone.labels().collect();
        mine.len() >= its.len()
            && mine.iter().rev().zip(its.iter().rev()).all(|(a, b)| a.eq_ignore_ascii_case(b))
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        // Lengths of labels are below the letters, so this compares them exactly.
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Name {}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for label in self.labels() {
            write!(f, "{}.", label.escape_ascii())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(labels: &[usize]) -> Vec<u8> {
        let mut wire = Vec::new();
        for length in labels {
            wire.push(u8::try_from(*length).expect("short"));
            wire.extend(std::iter::repeat_n(b'a', *length));
        }
        wire.push(0);
        wire
    }

    #[test]
    fn names_are_read_with_and_without_pointers() {
        let message = b"\x07example\x03com\x00\x03www\xc0\x00\xff";
        let (name, behind) = Name::read(message, 13).expect("a name");
        assert_eq!((name.text().as_deref(), behind), (Some("www.example.com"), 19));
        assert_eq!(name, Name::parse("WWW.example.COM.").expect("a name"));
        assert!(name.is_in(&Name::parse("example.com").expect("a name")));
        assert!(!name.is_in(&Name::parse("ample.com").expect("a name")));
        assert_eq!(Name::read(b"\x00", 0).expect("the root").0.text(), None);
    }

    #[test]
    fn hostile_names_are_malformed() {
        let check = |message: &[u8], at: usize| {
            assert_eq!(Name::read(message, at).err(), Some(Malformed), "{message:?}");
        };
        check(b"", 0);
        check(b"\x03ww", 0);
        check(b"\x03www", 0);
        check(b"\xc0", 0);
        // Pointers to themselves, to one another, forward, and into their own labels.
        check(b"\xc0\x00", 0);
        check(b"\xc0\x02\xc0\x00", 0);
        check(b"\xc0\x02\xc0\x00", 2);
        check(b"\xc0\x03\x00\x00", 0);
        check(b"\x01a\xc0\x00", 0);
        // Kinds of labels that nobody uses.
        check(b"\x40a\x00", 0);
        check(b"\x80a\x00", 0);
        check(&wire(&[63, 63, 63, 62]), 0);
        assert!(Name::read(&wire(&[63, 63, 63, 61]), 0).is_ok());
        assert!(Name::parse(&"a".repeat(64)).is_err());
        assert!(Name::parse("a..b").is_err());
        assert!(Name::parse(&["a"; 128].join(".")).is_err());
        assert!(Name::parse(&["a"; 127].join(".")).is_ok());
    }

    #[test]
    fn only_plain_characters_have_a_text() {
        let check = |wire: &[u8], expected: Option<&str>| {
            let (name, _) = Name::read(wire, 0).expect("a name");
            assert_eq!(name.text().as_deref(), expected);
        };
        check(b"\x03A-b\x02_c\x00", Some("a-b._c"));
        check(b"\x03a.b\x00", None);
        check(b"\x03a\x00b\x00", None);
        check(b"\x02\xc3\xa9\x00", None);
        check(b"\x01*\x00", None);
    }
}
