//! The message that a sandbox gets.

use super::question::Query;
use super::reply::Record;
use super::wire;

/// The longest a record may be kept by a client. Longer than the gate remembers it (the table of
/// names) it must not be.
pub(crate) const LONGEST_TTL: u32 = 3600;
/// What a client takes by datagram if it does not say more.
const PLAIN_SIZE: usize = 512;
/// What it gets at most by datagram.
const LARGEST_DATAGRAM: usize = 4096;

/// What to say.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// One of [`wire::rcode`].
    pub(crate) rcode: u16,
    /// What answers the question.
    pub(crate) records: Vec<Record>,
    /// How long the absence of something holds.
    pub(crate) authorities: Vec<Record>,
    /// Why it is refused, for those who can read extended errors.
    pub(crate) reason: Option<String>,
}

impl Answer {
    /// One without records.
    pub(crate) fn code(rcode: u16) -> Self {
        Self { rcode, ..Self::default() }
    }

    /// As a datagram: no longer than the client takes.
    pub(crate) fn datagram(&self, query: &Query) -> Vec<u8> {
        let most = query.size.map_or(PLAIN_SIZE, usize::from);
        self.message(query, most.clamp(PLAIN_SIZE, LARGEST_DATAGRAM))
    }

    /// As a message of a stream, without its length.
    pub(crate) fn stream(&self, query: &Query) -> Vec<u8> {
        self.message(query, usize::from(u16::MAX))
    }

    fn message(&self, query: &Query, most: usize) -> Vec<u8> {
        let mut message = Vec::with_capacity(most.min(1024));
        message.extend_from_slice(&[0; wire::HEADER]);
        query.question.write(&mut message);
        let most = if query.size.is_some() { most - wire::OPT_SIZE } else { most };
        let (answers, whole) = write(&mut message, &self.records, most);
        // Those in the second section are welcome and not needed.
        let (authorities, _) =
            if whole { write(&mut message, &self.authorities, most) } else { (0, true) };
        let flags = wire::RESPONSE
            | wire::RECURSION_AVAILABLE
            | query.flags
            | if whole { 0 } else { wire::TRUNCATED }
            | (self.rcode & 0xf);
        let extra = u16::from(query.size.is_some());
        fill(&mut message, [query.id, flags, 1, answers, authorities, extra]);
        if query.size.is_some() {
            wire::write_opt(&mut message, wire::UPSTREAM_SIZE, self.rcode, self.reason.as_deref());
        }
        message
    }
}

/// An answer to what could not be read as a question.
pub(crate) fn without_question(id: u16, rcode: u16) -> Vec<u8> {
    let mut message = vec![0; wire::HEADER];
    let extended = rcode > 0xf;
    let flags = wire::RESPONSE | wire::RECURSION_AVAILABLE | (rcode & 0xf);
    fill(&mut message, [id, flags, 0, 0, 0, u16::from(extended)]);
    if extended {
        wire::write_opt(&mut message, wire::UPSTREAM_SIZE, rcode, None);
    }
    message
}

fn fill(message: &mut [u8], header: [u16; 6]) {
    for (place, field) in message.chunks_mut(2).zip(header) {
        place.copy_from_slice(&field.to_be_bytes());
    }
}

/// Writes what fits: how many records, and whether that is all.
fn write(message: &mut Vec<u8>, records: &[Record], most: usize) -> (u16, bool) {
    let mut count = 0;
    for record in records {
        let before = message.len();
        // Owners are mostly the question's name, which is behind the header.
        let owner = message.get(wire::HEADER..wire::HEADER + record.name.wire().len());
        if owner.is_some_and(|owner| owner.eq_ignore_ascii_case(record.name.wire())) {
            message.extend_from_slice(&[0xc0, 0x0c]);
        } else {
            message.extend_from_slice(record.name.wire());
        }
        message.extend_from_slice(&record.kind.to_be_bytes());
        message.extend_from_slice(&wire::INTERNET.to_be_bytes());
        message.extend_from_slice(&record.ttl.min(LONGEST_TTL).to_be_bytes());
        let length = u16::try_from(record.data.len()).unwrap_or(u16::MAX);
        message.extend_from_slice(&length.to_be_bytes());
        message.extend_from_slice(&record.data);
        if message.len() > most {
            message.truncate(before);
            return (count, false);
        }
        count += 1;
    }
    (count, true)
}

#[cfg(test)]
mod tests {
    use super::super::name::Name;
    use super::super::question::Question;
    use super::super::reply::Reply;
    use super::super::wire::{kind, rcode};
    use super::*;

    fn query(size: Option<u16>) -> Query {
        let question = Question { name: Name::parse("A.example").expect("a name"), kind: kind::A };
        Query { id: 7, flags: wire::RECURSION_DESIRED, question, size }
    }

    fn answer(count: u8) -> Answer {
        let records = (0..count).map(|last| Record {
            name: Name::parse("a.example").expect("a name"),
            kind: kind::A,
            ttl: 100_000,
            data: vec![203, 0, 113, last],
        });
        Answer { records: records.collect(), ..Answer::default() }
    }

    #[test]
    fn an_answer_can_be_read() {
        let message = answer(3).datagram(&query(None));
        assert!(Reply::is_for(&message, 7, &query(None).question));
        let reply = Reply::read(&message).expect("an answer");
        assert_eq!((reply.rcode, reply.answers.len(), reply.truncated), (0, 3, false));
        assert_eq!(reply.answers[2].address(), Some([203, 0, 113, 2].into()));
        assert_eq!(reply.answers[2].ttl, LONGEST_TTL);
    }

    #[test]
    fn a_datagram_is_as_long_as_its_client_takes() {
        let check = |size: Option<u16>, most: usize, truncated: bool| {
            let message = answer(200).datagram(&query(size));
            assert!(message.len() <= most, "{}", message.len());
            assert_eq!(message[2] & 2 != 0, truncated, "{size:?}");
        };
        check(None, 512, true);
        check(Some(0), 512, true);
        check(Some(1232), 1232, true);
        check(Some(u16::MAX), 4096, false);
        assert!(answer(255).stream(&query(None)).len() > 4000);
    }

    #[test]
    fn a_refusal_says_why_to_those_who_can_read_it() {
        let refused = Answer {
            reason: Some(format!("not allowed {}", "é".repeat(200))),
            ..Answer::code(rcode::REFUSED)
        };
        let text = refused.datagram(&query(Some(1232)));
        assert_eq!(text[3] & 0xf, 5);
        assert!(text.windows(11).any(|part| part == b"not allowed"));
        assert!(text.len() <= 512);
        assert!(!refused.datagram(&query(None)).windows(3).any(|part| part == b"not"));
        assert_eq!(without_question(3, rcode::FORMAT), [0, 3, 0x80, 0x81, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(without_question(3, rcode::BAD_VERSION).len(), 23);
    }
}
