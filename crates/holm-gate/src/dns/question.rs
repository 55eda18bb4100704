//! What is asked: by a sandbox, and by us upstream.

use super::name::{Malformed, Name};
use super::wire::{self, Header, kind};

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// About whom.
    pub(crate) name: Name,
    /// Records of which type.
    pub(crate) kind: u16,
}

/// The message that asks it.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    /// To be repeated in the answer.
    pub(crate) id: u16,
    /// Flags that an answer repeats: recursion desired, checking disabled.
    pub(crate) flags: u16,
    /// What it asks.
    pub(crate) question: Question,
    /// The size of answers that the asker takes by datagram, if it says one.
    pub(crate) size: Option<u16>,
}

/// Why a message is not answered from the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoQuery {
    /// It is not even a question: no answer.
    Drop,
    /// An answer without a question, with this code.
    Answer {
        /// Its id.
        id: u16,
        /// One of [`wire::rcode`].
        rcode: u16,
    },
}

impl Query {
    /// Reads what a sandbox sent.
    pub(crate) fn read(message: &[u8]) -> Result<Self, NoQuery> {
        let header = Header::read(message).map_err(|Malformed| NoQuery::Drop)?;
        // An answer is never answered: two that do would go on for ever.
        if header.flags & wire::RESPONSE != 0 {
            return Err(NoQuery::Drop);
        }
        let refuse = |rcode| NoQuery::Answer { id: header.id, rcode };
        if header.flags & wire::OPCODE != 0 {
            return Err(refuse(wire::rcode::NOT_IMPLEMENTED));
        }
        let counts = (header.questions, header.answers, header.authorities);
        // OPT, and a signature or a cookie that we do not look at.
        if counts != (1, 0, 0) || header.additionals > 2 {
            return Err(refuse(wire::rcode::FORMAT));
        }
        Self::behind(message, header).map_err(|Malformed| refuse(wire::rcode::FORMAT))?
    }

    fn behind(message: &[u8], header: Header) -> Result<Result<Self, NoQuery>, Malformed> {
        let (question, class, mut at) = Question::read(message, wire::HEADER)?;
        let mut size = None;
        let refuse = |rcode| NoQuery::Answer { id: header.id, rcode };
        for _ in 0..header.additionals {
            let (_, fields, data) = wire::record_at(message, at)?;
            at = data.end;
            if fields.kind == kind::OPT {
                if size.is_some() {
                    return Err(Malformed);
                }
                // The version is the second byte of what is a time in other records.
                if fields.ttl >> 16 & 0xff != 0 {
                    return Ok(Err(refuse(wire::rcode::BAD_VERSION)));
                }
                size = Some(fields.class);
            }
        }
        if class != wire::INTERNET {
            return Ok(Err(refuse(wire::rcode::REFUSED)));
        }
        let flags = header.flags & (wire::RECURSION_DESIRED | wire::CHECKING_DISABLED);
        Ok(Ok(Self { id: header.id, flags, question, size }))
    }
}

impl Question {
    /// The question at `at`, its class, and where it ends.
    pub(crate) fn read(message: &[u8], at: usize) -> Result<(Self, u16, usize), Malformed> {
        let (name, at) = Name::read(message, at)?;
        let kind = wire::u16_at(message, at)?;
        let class = wire::u16_at(message, at + 2)?;
        Ok((Self { name, kind }, class, at + 4))
    }

    /// The message that asks it upstream.
    pub(crate) fn message(&self, id: u16) -> Vec<u8> {
        let mut message = Vec::with_capacity(wire::HEADER + 40);
        for field in [id, wire::RECURSION_DESIRED, 1, 0, 0, 1] {
            message.extend_from_slice(&field.to_be_bytes());
        }
        self.write(&mut message);
        wire::write_opt(&mut message, wire::UPSTREAM_SIZE, 0, None);
        message
    }

    /// Behind the header.
    pub(crate) fn write(&self, message: &mut Vec<u8>) {
        message.extend_from_slice(self.name.wire());
        message.extend_from_slice(&self.kind.to_be_bytes());
        message.extend_from_slice(&wire::INTERNET.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::rcode;

    fn question(text: &str, kind: u16) -> Question {
        Question { name: Name::parse(text).expect("a name"), kind }
    }

    #[test]
    fn a_query_is_read_as_it_was_written() {
        let asked = question("Www.Example.com", kind::AAAA);
        let query = Query::read(&asked.message(0x1234)).expect("a query");
        assert_eq!(query.question, asked);
        assert_eq!(query.question.name.wire(), asked.name.wire());
        assert_eq!((query.id, query.flags), (0x1234, wire::RECURSION_DESIRED));
        assert_eq!(query.size, Some(wire::UPSTREAM_SIZE));
    }

    #[test]
    fn what_is_no_query_is_said_or_dropped() {
        let plain = question("a.example", kind::A).message(7);
        let check = |change: &dyn Fn(&mut Vec<u8>), expected: NoQuery| {
            let mut message = plain.clone();
            change(&mut message);
            assert_eq!(Query::read(&message).err(), Some(expected), "{message:?}");
        };
        let answer = |rcode| NoQuery::Answer { id: 7, rcode };
        check(&Vec::clear, NoQuery::Drop);
        check(&|m| m.truncate(11), NoQuery::Drop);
        check(&|m| m[2] |= 0x80, NoQuery::Drop);
        check(&|m| m[2] |= 0x28, answer(rcode::NOT_IMPLEMENTED));
        check(&|m| m[5] = 0, answer(rcode::FORMAT));
        check(&|m| m[5] = 2, answer(rcode::FORMAT));
        check(&|m| m[4] = 255, answer(rcode::FORMAT));
        check(&|m| m[7] = 1, answer(rcode::FORMAT));
        check(&|m| m[9] = 1, answer(rcode::FORMAT));
        check(&|m| m[11] = 3, answer(rcode::FORMAT));
        check(&|m| m[11] = 2, answer(rcode::FORMAT));
        check(&|m| m.truncate(20), answer(rcode::FORMAT));
        check(&|m| m[12] = 0xc0, answer(rcode::FORMAT));
        // The class chaos, a version of EDNS that does not exist yet.
        check(&|m| m[26] = 3, answer(rcode::REFUSED));
        check(&|m| m[33] = 1, answer(rcode::BAD_VERSION));
    }
}
