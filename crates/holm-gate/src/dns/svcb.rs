//! Service records (SVCB, HTTPS of RFC 9460) without what would lead past the gate: addresses, which
//! it could not check here, and keys that would hide the name in a TLS greeting from it.

use super::name::{Malformed, Name};
use super::wire::u16_at;

const MANDATORY: u16 = 0;
const IPV4_HINT: u16 = 4;
const ENCRYPTED_HELLO: u16 = 5;
const IPV6_HINT: u16 = 6;

/// The data of such a record, rewritten.
pub(crate) fn without_hints(data: &[u8]) -> Result<Vec<u8>, Malformed> {
    let priority = data.get(..2).ok_or(Malformed)?;
    // Its target is never compressed, so it is read within the data.
    let (target, mut at) = Name::read(data, 2)?;
    let mut kept = [priority, target.wire()].concat();
    while at < data.len() {
        let key = u16_at(data, at)?;
        let length = usize::from(u16_at(data, at + 2)?);
        let value = data.get(at + 4..at + 4 + length).ok_or(Malformed)?;
        at += 4 + length;
        let value = match key {
            IPV4_HINT | ENCRYPTED_HELLO | IPV6_HINT => continue,
            MANDATORY => {
                let keys = value.chunks(2).filter(|key| !is_dropped(key));
                let keys: Vec<u8> = keys.flatten().copied().collect();
                if keys.is_empty() {
                    continue;
                }
                keys
            }
            _ => value.to_vec(),
        };
        kept.extend_from_slice(&key.to_be_bytes());
        kept.extend_from_slice(&u16::try_from(value.len()).map_err(|_| Malformed)?.to_be_bytes());
        kept.extend_from_slice(&value);
    }
    Ok(kept)
}

fn is_dropped(key: &[u8]) -> bool {
    [IPV4_HINT, ENCRYPTED_HELLO, IPV6_HINT].iter().any(|it| key == it.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_left_out() {
        let check = |data: &[u8], expected: Option<&[u8]>| {
            assert_eq!(without_hints(data).ok().as_deref(), expected, "{data:?}");
        };
        let alpn = b"\x00\x01\x00\x03\x02h2";
        let hint = b"\x00\x04\x00\x04\x0a\x00\x00\x01";
        let hello = b"\x00\x05\x00\x01x";
        let hint6 = b"\x00\x06\x00\x10aaaaaaaaaaaaaaaa";
        let both = [b"\x00\x01\x00".as_slice(), alpn, hint, hello, hint6].concat();
        check(&both, Some(&[b"\x00\x01\x00".as_slice(), alpn].concat()));
        check(b"\x00\x00\x01a\x00", Some(b"\x00\x00\x01a\x00"));
        check(b"\x00\x01\x00\x00\x00\x00\x02\x00\x04", Some(b"\x00\x01\x00"));
        check(
            b"\x00\x01\x00\x00\x00\x00\x04\x00\x01\x00\x04",
            Some(b"\x00\x01\x00\x00\x00\x00\x02\x00\x01"),
        );
        for wrong in [b"".as_slice(), b"\x00", b"\x00\x01", b"\x00\x01\x00\x00\x01\x00\x04\x02h"] {
            check(wrong, None);
        }
    }
}
