//! From when to when a certificate holds: the two times of its DER, and nothing else of it.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// From when to when a certificate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// From here.
    pub from: Timestamp,
    /// Until here.
    pub until: Timestamp,
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const LONG_TIME: u8 = 0x18;

impl Validity {
    /// Reads it; nothing where it is no certificate.
    #[must_use]
    pub fn of(der: &[u8]) -> Option<Self> {
        let (SEQUENCE, certificate, _) = element(der)? else { return None };
        let (SEQUENCE, signed, _) = element(certificate)? else { return None };
        let (tag, _, rest) = element(signed)?;
        // The version may be left out; then this was the serial number.
        let rest = if tag == VERSION { element(rest)?.2 } else { rest };
        let (_signature, _, rest) = element(rest)?;
        let (_issuer, _, rest) = element(rest)?;
        let (SEQUENCE, times, _) = element(rest)? else { return None };
        let (tag, from, rest) = element(times)?;
        let (other, until, _) = element(rest)?;
        Some(Self { from: time(tag, from)?, until: time(other, until)? })
    }

    /// When two thirds of it are over.
    #[must_use]
    pub fn renew_at(self) -> Timestamp {
        let life = self.until.as_second().saturating_sub(self.from.as_second());
        let at = self.from.as_second().saturating_add(life / 3 * 2 + life % 3 * 2 / 3);
        Timestamp::from_second(at).unwrap_or(self.until)
    }
}

/// The first element: its tag, what is in it, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x83 => {
            let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (inside, rest) = rest.split_at_checked(length)?;
    Some((*tag, inside, rest))
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`, the forms that certificates have (RFC 5280).
fn time(tag: u8, text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i16 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        LONG_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    if rest.len() != 10 || !rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |at: usize| rest.get(at..at + 2)?.parse::<i8>().ok();
    let civil = DateTime::new(year, part(0)?, part(2)?, part(4)?, part(6)?, part(8)?, 0).ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrap(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let inside = parts.concat();
        let length = u16::try_from(inside.len()).expect("short");
        [&[tag, 0x82][..], &length.to_be_bytes(), &inside].concat()
    }

    fn certificate(version: bool, from: (u8, &str), until: (u8, &str)) -> Vec<u8> {
        let time = |(tag, text): (u8, &str)| {
            [&[tag, u8::try_from(text.len()).expect("short")], text.as_bytes()].concat()
        };
        let times = wrap(SEQUENCE, &[&time(from), &time(until)]);
        let version = if version { wrap(VERSION, &[&[2, 1, 2]]) } else { Vec::new() };
        let (serial, none) = ([2, 1, 7], wrap(SEQUENCE, &[]));
        wrap(SEQUENCE, &[&wrap(SEQUENCE, &[&version, &serial, &none, &none, &times, &none])])
    }

    #[test]
    fn both_forms_of_time_are_read() {
        let check = |der: &[u8], want: Option<(&str, &str)>| {
            let want = want.map(|(from, until)| Validity {
                from: from.parse().expect("a time"),
                until: until.parse().expect("a time"),
            });
            assert_eq!(Validity::of(der), want);
        };
        let both = ("2026-11-30T12:00:00Z", "2050-01-01T00:00:01Z");
        let times = ((UTC_TIME, "261130120000Z"), (LONG_TIME, "20500101000001Z"));
        check(&certificate(true, times.0, times.1), Some(both));
        check(&certificate(false, times.0, times.1), Some(both));
        for wrong in ["", "261130120000", "2611301200Z", "261330120000Z", "26113012000xZ", "é"] {
            check(&certificate(true, (UTC_TIME, wrong), times.1), None);
        }
        let whole = certificate(true, times.0, times.1);
        for length in 0..whole.len() {
            check(&whole[..length], None);
        }
        check(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], None);
    }

    #[test]
    fn it_is_renewed_when_two_thirds_are_over() {
        let at = |second: i64| Timestamp::from_second(second).expect("a time");
        let check = |from: i64, until: i64, want: i64| {
            assert_eq!(Validity { from: at(from), until: at(until) }.renew_at(), at(want));
        };
        check(0, 90 * 86400, 60 * 86400);
        check(100, 112, 108);
        check(100, 100, 100);
    }
}
