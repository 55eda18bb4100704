//! Messages of DNS: just what a server for tests needs, written by hand so that it can also say
//! what no library would.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// What a record says.
#[derive(Debug, Clone)]
pub enum Data {
    /// An address.
    A(Ipv4Addr),
    /// An address of version 6.
    Aaaa(Ipv6Addr),
    /// Another name.
    Cname(String),
    /// Text; longer ones are cut into strings of 255.
    Txt(String),
}

/// What the server does with a question.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Records; a CNAME is followed by records of the name that it leads to. Those of another type
    /// than was asked for are left out, but for CNAME.
    Records(Vec<Data>),
    /// The same as it stands, whatever was asked for.
    Verbatim(Vec<Data>),
    /// An error's number: 2 the server failed, 3 there is no such name, 5 refused.
    Code(u8),
    /// The reply comes late.
    Late(Duration, Box<Reply>),
    /// These bytes after the question's id.
    Bytes(Vec<u8>),
    /// Nothing ever.
    Silent,
}

impl From<Ipv4Addr> for Reply {
    fn from(address: Ipv4Addr) -> Self {
        Self::Records(vec![Data::A(address)])
    }
}

impl From<Ipv6Addr> for Reply {
    fn from(address: Ipv6Addr) -> Self {
        Self::Records(vec![Data::Aaaa(address)])
    }
}

pub const A: u16 = 1;
pub const CNAME: u16 = 5;
pub const TXT: u16 = 16;
pub const AAAA: u16 = 28;

impl Data {
    fn kind(&self) -> u16 {
        match self {
            Self::A(_) => A,
            Self::Aaaa(_) => AAAA,
            Self::Cname(_) => CNAME,
            Self::Txt(_) => TXT,
        }
    }

    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::A(address) => to.extend(address.octets()),
            Self::Aaaa(address) => to.extend(address.octets()),
            Self::Cname(name) => write_name(name, to),
            Self::Txt(text) => {
                for part in text.as_bytes().chunks(255) {
                    to.push(u8::try_from(part.len()).unwrap_or(255));
                    to.extend(part);
                }
            }
        }
    }
}

/// A question: where its section ends, its name in lower case without the last dot, its type.
pub fn question(message: &[u8]) -> Option<(usize, String, u16)> {
    if message.len() < 12 || message[4..6] != [0, 1] {
        return None;
    }
    let (mut at, mut name) = (12, String::new());
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = message.get(at..at + length)?;
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&String::from_utf8_lossy(label).to_ascii_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]);
    message.get(at + 3)?;
    Some((at + 4, name, kind))
}

/// The answer to a question with these records, or with an error's number.
pub fn answer(message: &[u8], end: usize, kind: u16, records: &[Data], code: u8) -> Vec<u8> {
    let mut out = message[..2].to_vec();
    out.extend([0x81, 0x80 | code, 0, 1]);
    let fitting: Vec<_> = records
        .iter()
        .filter(|data| kind == 255 || data.kind() == kind || data.kind() == CNAME)
        .collect();
    out.extend(u16::try_from(fitting.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend([0, 0, 0, 0]);
    out.extend(&message[12..end]);
    let mut owner = vec![0xc0, 12];
    for data in fitting {
        out.extend(&owner);
        out.extend(data.kind().to_be_bytes());
        // Class IN, and a short life, so that a cache that honours it asks again.
        out.extend([0, 1, 0, 0, 0, 0]);
        let mut bytes = Vec::new();
        data.write(&mut bytes);
        out.extend(u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes());
        out.extend(bytes);
        if let Data::Cname(name) = data {
            owner.clear();
            write_name(name, &mut owner);
        }
    }
    out
}

fn write_name(name: &str, to: &mut Vec<u8>) {
    for label in name.split('.').filter(|label| !label.is_empty()) {
        to.push(u8::try_from(label.len()).unwrap_or(63));
        to.extend(label.as_bytes());
    }
    to.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_and_answered() {
        let mut asked = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        write_name("A.Bed.test", &mut asked);
        asked.extend([0, 1, 0, 1]);
        let (end, name, kind) = question(&asked).expect("a question");
        assert_eq!((end, name.as_str(), kind), (asked.len(), "a.bed.test", A));
        let records =
            [Data::Cname("b".to_owned()), Data::A(Ipv4Addr::LOCALHOST), Data::Txt("x".to_owned())];
        let said = answer(&asked, end, kind, &records, 0);
        assert_eq!(said[..8], [7, 7, 0x81, 0x80, 0, 1, 0, 2]);
        assert!(said.ends_with(&[1, b'b', 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]));
        assert_eq!(question(&asked[..14]), None);
    }
}
