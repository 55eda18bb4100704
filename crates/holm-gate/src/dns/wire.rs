//! Numbers and fields of messages (RFC 1035, EDNS of RFC 6891, extended errors of RFC 8914).

use std::ops::Range;

use super::name::{Malformed, Name};

/// The length of a header.
pub(crate) const HEADER: usize = 12;
/// The class that everything is in.
pub(crate) const INTERNET: u16 = 1;
/// What we take by datagram from upstream: what passes everywhere without fragments.
pub(crate) const UPSTREAM_SIZE: u16 = 1232;

/// Flags of a header.
pub(crate) const RESPONSE: u16 = 0x8000;
pub(crate) const OPCODE: u16 = 0x7800;
pub(crate) const TRUNCATED: u16 = 0x0200;
pub(crate) const RECURSION_DESIRED: u16 = 0x0100;
pub(crate) const RECURSION_AVAILABLE: u16 = 0x0080;
pub(crate) const CHECKING_DISABLED: u16 = 0x0010;

/// Types of records.
pub(crate) mod kind {
    pub(crate) const A: u16 = 1;
    pub(crate) const NS: u16 = 2;
    pub(crate) const CNAME: u16 = 5;
    pub(crate) const SOA: u16 = 6;
    pub(crate) const PTR: u16 = 12;
    pub(crate) const MX: u16 = 15;
    pub(crate) const TXT: u16 = 16;
    pub(crate) const AAAA: u16 = 28;
    pub(crate) const SRV: u16 = 33;
    pub(crate) const NAPTR: u16 = 35;
    pub(crate) const OPT: u16 = 41;
    pub(crate) const SSHFP: u16 = 44;
    pub(crate) const TLSA: u16 = 52;
    pub(crate) const SVCB: u16 = 64;
    pub(crate) const HTTPS: u16 = 65;
    pub(crate) const CAA: u16 = 257;
}

/// How an answer ends.
pub(crate) mod rcode {
    pub(crate) const NO_ERROR: u16 = 0;
    pub(crate) const FORMAT: u16 = 1;
    pub(crate) const SERVER_FAILURE: u16 = 2;
    pub(crate) const NO_SUCH_NAME: u16 = 3;
    pub(crate) const NOT_IMPLEMENTED: u16 = 4;
    pub(crate) const REFUSED: u16 = 5;
    pub(crate) const BAD_VERSION: u16 = 16;
}

/// The first twelve bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) id: u16,
    pub(crate) flags: u16,
    pub(crate) questions: u16,
    pub(crate) answers: u16,
    pub(crate) authorities: u16,
    pub(crate) additionals: u16,
}

impl Header {
    pub(crate) fn read(message: &[u8]) -> Result<Self, Malformed> {
        let field = |index: usize| u16_at(message, index * 2);
        Ok(Self {
            id: field(0)?,
            flags: field(1)?,
            questions: field(2)?,
            answers: field(3)?,
            authorities: field(4)?,
            additionals: field(5)?,
        })
    }
}

/// The fixed part of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields {
    pub(crate) kind: u16,
    pub(crate) class: u16,
    pub(crate) ttl: u32,
}

/// The record at `at`: whose it is, its fields, where its data lie (inside the message).
pub(crate) fn record_at(
    message: &[u8],
    at: usize,
) -> Result<(Name, Fields, Range<usize>), Malformed> {
    let (name, at) = Name::read(message, at)?;
    let high = u32::from(u16_at(message, at + 4)?);
    let low = u32::from(u16_at(message, at + 6)?);
    let fields = Fields {
        kind: u16_at(message, at)?,
        class: u16_at(message, at + 2)?,
        ttl: high << 16 | low,
    };
    let start = at + 10;
    let end = start + usize::from(u16_at(message, at + 8)?);
    if end > message.len() { Err(Malformed) } else { Ok((name, fields, start..end)) }
}

pub(crate) fn u16_at(message: &[u8], at: usize) -> Result<u16, Malformed> {
    let bytes = message.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u16::from_be_bytes).ok_or(Malformed)
}

/// Code of the extended error "prohibited": refused by a policy for this asker.
const EDE_PROHIBITED: u16 = 18;
/// The longest text of an extended error.
const EDE_TEXT: usize = 120;

/// What [`write_opt`] writes at most.
pub(crate) const OPT_SIZE: usize = 11 + 6 + EDE_TEXT;

/// The record that carries sizes and extended codes, with the reason of a refusal.
pub(crate) fn write_opt(message: &mut Vec<u8>, size: u16, rcode: u16, reason: Option<&str>) {
    message.push(0);
    for field in [kind::OPT, size, rcode >> 4 << 8, 0] {
        message.extend_from_slice(&field.to_be_bytes());
    }
    let text = reason.map(|text| &text[..text.floor_char_boundary(EDE_TEXT)]);
    let length = u16::try_from(text.map_or(0, |text| text.len() + 6)).unwrap_or(0);
    message.extend_from_slice(&length.to_be_bytes());
    if let Some(text) = text {
        for field in [15, length - 4, EDE_PROHIBITED] {
            message.extend_from_slice(&field.to_be_bytes());
        }
        message.extend_from_slice(text.as_bytes());
    }
}
