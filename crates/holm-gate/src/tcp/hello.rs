//! The first message of a TLS client, and the name in it. Read strictly: what another reader could
//! understand differently is no hello.

use crate::policy::HostName;

/// Most bytes of a hello, with its records.
pub(super) const MOST: usize = 64 * 1024;

/// What the bytes are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hello {
    /// The beginning of one.
    Part,
    /// One, with the name that is asked for.
    Whole(Option<HostName>),
    /// Something that began like one.
    Broken(&'static str),
}

/// True where the first bytes can only be TLS. Its other records are none to begin with, but some
/// servers leave them out and take the hello behind them.
pub(super) fn looks_like_one(bytes: &[u8]) -> bool {
    matches!(bytes, [0x14..=0x18] | [0x14..=0x18, 3, ..])
}

/// Reads a hello out of the records that have come so far.
pub(super) fn read(bytes: &[u8]) -> Hello {
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        if let Some(whole) = whole(&message) {
            return whole.and_then(parse).map_or_else(Hello::Broken, Hello::Whole);
        }
        let [kind, major, _, high, low, after @ ..] = rest else { break };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind != 0x16 || *major != 3 || length == 0 || length > 16 * 1024 {
            return Hello::Broken("the TLS hello has a record of another kind");
        }
        let Some(fragment) = after.get(..length) else {
            // What has come of a record that has not ended is looked at when it has.
            break;
        };
        message.extend_from_slice(fragment);
        rest = after.get(length..).unwrap_or_default();
    }
    if bytes.len() >= MOST { Hello::Broken("the TLS hello is too long") } else { Hello::Part }
}

/// The body of the handshake message, once it is complete.
fn whole(message: &[u8]) -> Option<Result<&[u8], &'static str>> {
    let [kind, a, b, c, body @ ..] = message else { return None };
    if *kind != 1 {
        return Some(Err("the first TLS message is not a hello"));
    }
    let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
    if length > MOST {
        return Some(Err("the TLS hello is too long"));
    }
    body.get(..length).map(Ok)
}

/// Bytes that are taken from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("the TLS hello is cut short")?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<usize, &'static str> {
        Ok(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// What has its length before it, in so many bytes.
    fn list(&mut self, bytes: usize) -> Result<Self, &'static str> {
        let length = self.number(bytes)?;
        self.take(length).map(Self)
    }
}

fn parse(body: &[u8]) -> Result<Option<HostName>, &'static str> {
    let mut body = Reader(body);
    body.take(2 + 32)?;
    for length in [1, 2, 1] {
        // Session, ciphers, compressions.
        body.list(length)?;
    }
    if body.0.is_empty() {
        return Ok(None);
    }
    let mut extensions = body.list(2)?;
    if !body.0.is_empty() {
        return Err("the TLS hello has bytes behind its end");
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let extension = extensions.list(2)?;
        if kind == 0 {
            if found.is_some() {
                return Err("the TLS hello names two servers");
            }
            found = Some(server_name(extension)?);
        }
    }
    Ok(found)
}

fn server_name(mut extension: Reader<'_>) -> Result<HostName, &'static str> {
    let mut list = extension.list(2)?;
    let kind = list.number(1)?;
    let name = list.list(2)?;
    if kind != 0 || !list.0.is_empty() || !extension.0.is_empty() {
        return Err("the TLS hello names two servers");
    }
    let name = std::str::from_utf8(name.0).ok().and_then(|name| name.parse().ok());
    name.ok_or("the name in the TLS hello is not one")
}

#[cfg(test)]
pub(in crate::tcp) mod tests {
    use super::*;

    /// A hello for `name`, in records of at most `record` bytes.
    pub(crate) fn hello(name: Option<&[u8]>, record: usize) -> Vec<u8> {
        let sized = |bytes: &[u8], width: usize| {
            let length = bytes.len().to_be_bytes();
            [&length[8 - width..], bytes].concat()
        };
        let mut extensions = [&[0, 43][..], &sized(&[2, 3, 4], 2)].concat();
        if let Some(name) = name {
            let entry = [&[0][..], &sized(name, 2)].concat();
            extensions.extend([&[0, 0][..], &sized(&sized(&entry, 2), 2)].concat());
        }
        let body = [
            &[3, 3][..],
            &[7; 32],
            &sized(&[9; 32], 1),
            &sized(&[0x13, 1], 2),
            &sized(&[0], 1),
            &sized(&extensions, 2),
        ];
        let message = [&[1][..], &sized(&body.concat(), 3)].concat();
        let records = message.chunks(record);
        records.flat_map(|part| [&[0x16, 3, 1][..], &sized(part, 2)].concat()).collect()
    }

    fn name(text: &str) -> Hello {
        Hello::Whole(Some(text.parse().expect("a name")))
    }

    #[test]
    fn the_name_is_found_however_it_is_cut() {
        for record in [1, 2, 3, 5, 64, 16_384] {
            let bytes = hello(Some(b"A.example"), record);
            assert_eq!(read(&bytes), name("a.example"), "{record}");
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end]), Hello::Part, "{record} {end}");
            }
        }
        assert_eq!(read(&hello(None, 100)), Hello::Whole(None));
        // What follows the hello is not looked at.
        let early = [hello(Some(b"a.example"), 100), vec![0xff; 100]].concat();
        assert_eq!(read(&early), name("a.example"));
    }

    #[test]
    fn what_is_no_hello_is_broken() {
        let check = |bytes: &[u8], reason: &'static str| {
            assert_eq!(read(bytes), Hello::Broken(reason), "{bytes:x?}");
        };
        let kind = "the TLS hello has a record of another kind";
        check(&[0x16, 3, 1, 0, 0, 0x16], kind);
        check(&[0x17, 3, 1, 0, 1, 0], kind);
        // A warning ahead of a good one.
        let warning = [0x15, 3, 1, 0, 2, 1, 90];
        check(&[&warning[..], &hello(Some(b"a.example"), 100)].concat(), kind);
        assert!(looks_like_one(&warning) && looks_like_one(&[0x14, 3, 3, 0, 1, 1]));
        assert!(looks_like_one(&[0x15]) && !looks_like_one(&[0x15, 1]));
        check(&[0x16, 3, 1, 0x40, 1], kind);
        let mut other = hello(None, 100);
        other[5] = 2;
        check(&other, "the first TLS message is not a hello");
        let mixed = [&hello(Some(b"a.example"), 8)[..13], &[0x17, 3, 3, 0, 1, 0]].concat();
        check(&mixed, kind);
        check(&[0x16, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff], "the TLS hello is too long");
        for wrong in [&b"a b"[..], b"127.0.0.1", b"", b"\xff", b"a\0.example"] {
            check(&hello(Some(wrong), 100), "the name in the TLS hello is not one");
        }
        let mut short = hello(Some(b"a.example"), 1000);
        let last = short.len() - 1;
        short.truncate(last);
        let length = u16::try_from(last - 5).expect("short").to_be_bytes();
        short[3..5].copy_from_slice(&length);
        let body = u8::try_from(last - 9).expect("short");
        short[8] = body;
        check(&short, "the TLS hello is cut short");
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_survived() {
        let good = hello(Some(b"a.example"), 40);
        for index in 0..good.len() {
            for value in [0, 1, 0x16, 0x7f, 0xff] {
                let mut bytes = good.clone();
                bytes[index] = value;
                let _whatever = read(&bytes);
            }
        }
    }

    #[test]
    fn a_hello_without_end_is_given_up() {
        let part = [&[0x16, 3, 1, 0, 1][..], &[1]].concat();
        let mut bytes = part;
        bytes.extend([0x16, 3, 1, 0, 3, 0, 0xff, 0xff]);
        while bytes.len() < MOST {
            bytes.extend([0x16, 3, 1, 0, 1, 0]);
        }
        assert_eq!(read(&bytes), Hello::Broken("the TLS hello is too long"));
    }
}
