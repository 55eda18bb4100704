//! What an upstream server answered, read completely or not at all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::name::{Malformed, Name};
use super::question::Question;
use super::svcb;
use super::wire::{self, Header, kind};

/// The most records that are read of one answer.
const MOST_RECORDS: u16 = 512;

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    /// One of [`wire::rcode`], or another one.
    pub(crate) rcode: u16,
    /// It is not all; to be asked again by TCP.
    pub(crate) truncated: bool,
    /// What answers the question, and what the server added to it.
    pub(crate) answers: Vec<Record>,
    /// Whose answer it is; for what does not exist: how long that holds.
    pub(crate) authorities: Vec<Record>,
}

/// A record whose data stand alone, without pointers into the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) name: Name,
    pub(crate) kind: u16,
    pub(crate) ttl: u32,
    pub(crate) data: Vec<u8>,
}

impl Reply {
    /// True where the message answers this very question under this id. What does not is somebody
    /// else's guess, and waiting goes on.
    pub(crate) fn is_for(message: &[u8], id: u16, question: &Question) -> bool {
        let Ok(header) = Header::read(message) else { return false };
        let fits = header.id == id
            && header.flags & wire::RESPONSE != 0
            && header.flags & wire::OPCODE == 0
            && header.questions == 1;
        let read = Question::read(message, wire::HEADER);
        fits && read.is_ok_and(|(it, class, _)| it == *question && class == wire::INTERNET)
    }

    /// Reads one for which [`Self::is_for`] holds.
    pub(crate) fn read(message: &[u8]) -> Result<Self, Malformed> {
        let header = Header::read(message)?;
        let mut reply = Self {
            rcode: header.flags & 0xf,
            truncated: header.flags & wire::TRUNCATED != 0,
            answers: Vec::new(),
            authorities: Vec::new(),
        };
        if reply.truncated {
            // What is left of it is not used.
            return Ok(reply);
        }
        if header.answers.saturating_add(header.authorities) > MOST_RECORDS {
            return Err(Malformed);
        }
        let (_, _, mut at) = Question::read(message, wire::HEADER)?;
        let sections =
            [(header.answers, &mut reply.answers), (header.authorities, &mut reply.authorities)];
        for (count, records) in sections {
            for _ in 0..count {
                let (record, end) = Record::read(message, at)?;
                at = end;
                records.extend(record);
            }
        }
        Ok(reply)
    }
}

impl Record {
    /// The record at `at`, if it is one of the internet, and where it ends.
    fn read(message: &[u8], at: usize) -> Result<(Option<Self>, usize), Malformed> {
        let (name, fields, data) = wire::record_at(message, at)?;
        let end = data.end;
        if fields.class != wire::INTERNET {
            return Ok((None, end));
        }
        let raw = message.get(data.clone()).ok_or(Malformed)?;
        let names = |before: usize, names: usize, behind: usize| {
            expand(message, data.start, data.end, [before, names, behind])
        };
        let data = match fields.kind {
            kind::A if raw.len() != 4 => return Err(Malformed),
            kind::AAAA if raw.len() != 16 => return Err(Malformed),
            kind::CNAME | kind::NS | kind::PTR => names(0, 1, 0)?,
            kind::MX => names(2, 1, 0)?,
            kind::SRV => names(6, 1, 0)?,
            kind::SOA => names(0, 2, 20)?,
            kind::SVCB | kind::HTTPS => svcb::without_hints(raw)?,
            _ => raw.to_vec(),
        };
        // A time with the highest bit set counts as none (RFC 2181).
        let ttl = if fields.ttl >> 31 == 0 { fields.ttl } else { 0 };
        Ok((Some(Self { name, kind: fields.kind, ttl, data }), end))
    }

    /// The address of an A or AAAA record.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self.kind {
            kind::A => <[u8; 4]>::try_from(&*self.data).ok().map(|b| Ipv4Addr::from(b).into()),
            kind::AAAA => <[u8; 16]>::try_from(&*self.data).ok().map(|b| Ipv6Addr::from(b).into()),
            _ => None,
        }
    }

    /// Where a CNAME record leads.
    pub(crate) fn target(&self) -> Option<Name> {
        (self.kind == kind::CNAME).then(|| Name::read(&self.data, 0).ok()).flatten().map(|n| n.0)
    }
}

/// Data with names in them, between other bytes, as they are without compression.
fn expand(
    message: &[u8],
    start: usize,
    end: usize,
    [before, names, behind]: [usize; 3],
) -> Result<Vec<u8>, Malformed> {
    let mut data = message.get(start..start + before).ok_or(Malformed)?.to_vec();
    let mut at = start + before;
    for _ in 0..names {
        let (name, next) = Name::read(message, at)?;
        data.extend_from_slice(name.wire());
        at = next;
    }
    data.extend_from_slice(message.get(at..at + behind).ok_or(Malformed)?);
    if at + behind == end { Ok(data) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question { name: Name::parse("a.example").expect("a name"), kind: kind::A }
    }

    /// An answer to [`question`] with these records behind it, all in the answer section.
    fn message(records: &[&[u8]]) -> Vec<u8> {
        let mut message = question().message(9);
        message.truncate(message.len() - 11);
        message[2] |= 0x80;
        message[7] = u8::try_from(records.len()).expect("few");
        message[11] = 0;
        message.extend(records.concat());
        message
    }

    #[test]
    fn records_are_read_without_their_pointers() {
        let reply = Reply::read(&message(&[
            b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x04\x01b\xc0\x0e",
            b"\x01b\xc0\x0e\x00\x01\x00\x01\xff\x00\x00\x00\x00\x04\xcb\x00\x71\x07",
            b"\x01c\x00\x00\x0f\x00\x01\x00\x00\x00\x05\x00\x04\x00\x0a\xc0\x0c",
            b"\x01c\x00\x00\x10\x00\x03\x00\x00\x00\x05\x00\x02\x01x",
        ]))
        .expect("an answer");
        let names: Vec<_> = reply.answers.iter().map(|record| record.name.text()).collect();
        let host = |text: &str| Some(text.to_owned());
        // The one of another class is left out.
        assert_eq!(names, [host("a.example"), host("b.example"), host("c")]);
        assert_eq!(reply.answers[0].target().and_then(|name| name.text()), host("b.example"));
        assert_eq!((reply.answers[0].ttl, reply.answers[1].ttl), (60, 0));
        assert_eq!(reply.answers[1].address(), Some([203, 0, 113, 7].into()));
        assert_eq!(reply.answers[2].data, b"\x00\x0a\x01a\x07example\x00");
    }

    #[test]
    fn hostile_answers_are_malformed() {
        let check = |record: &[u8]| {
            let message = message(&[record]);
            assert!(Reply::read(&message).is_err(), "{record:?}");
        };
        // Cut off, too long, addresses of wrong sizes, a name that leaves its data, loops.
        check(b"");
        check(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x01\x02\x03");
        check(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x03\x01\x02\x03");
        check(b"\xc0\x0c\x00\x1c\x00\x01\x00\x00\x00\x3c\x00\x04\x01\x02\x03\x04");
        check(b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x02\x01b\xc0\x0c");
        check(b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x02\xc0\x28");
        check(b"\xc0\xff\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x00");
        check(b"\xc0\x0c\x00\x06\x00\x01\x00\x00\x00\x3c\x00\x05\x00\x00\x01\x02\x03");
        let mut many = message(&[]);
        many[6..8].copy_from_slice(&600_u16.to_be_bytes());
        assert!(Reply::read(&many).is_err());
        // Whatever is cut off, nothing panics.
        let whole = message(&[b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x04\x01b\xc0\x0e"]);
        for end in 0..whole.len() {
            assert!(Reply::read(&whole[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn only_the_answer_to_the_question_is_one() {
        let whole = message(&[]);
        assert!(Reply::is_for(&whole, 9, &question()));
        let other = Question { kind: kind::AAAA, ..question() };
        assert!(!Reply::is_for(&whole, 9, &other));
        let other = Question { name: Name::parse("b.example").expect("a name"), ..question() };
        assert!(!Reply::is_for(&whole, 9, &other));
        assert!(!Reply::is_for(&whole, 8, &question()));
        for (at, value) in [(2, 1), (2, 0x90), (5, 0), (5, 2)] {
            let mut wrong = whole.clone();
            wrong[at] = value;
            assert!(!Reply::is_for(&wrong, 9, &question()), "{at}");
        }
    }
}
