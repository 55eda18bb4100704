//! The Connect protocol, JSON codec: error codes and the envelope of streams.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::reason::Reason;

/// Media type of unary calls.
pub const UNARY_JSON: &str = "application/json";
/// Media type of streams.
pub const STREAM_JSON: &str = "application/connect+json";

/// Flag of the last frame of a stream; its payload is an [`EndOfStream`].
pub const FLAG_END: u8 = 0b10;
/// Flag of a compressed frame; never sent, and refused when received.
pub const FLAG_COMPRESSED: u8 = 0b01;
const HEADER: usize = 5;

/// Connect's error codes (a closed list).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the protocol's own")]
pub enum Code {
    Canceled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl Code {
    /// The HTTP status of a unary call that fails with this code.
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Self::Canceled => 499,
            Self::InvalidArgument | Self::FailedPrecondition | Self::OutOfRange => 400,
            Self::DeadlineExceeded => 504,
            Self::NotFound => 404,
            Self::AlreadyExists | Self::Aborted => 409,
            Self::PermissionDenied => 403,
            Self::ResourceExhausted => 429,
            Self::Unimplemented => 501,
            Self::Unavailable => 503,
            Self::Unauthenticated => 401,
            Self::Unknown | Self::Internal | Self::DataLoss => 500,
        }
    }
}

/// An error as it stands on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What class of failure this is.
    pub code: Code,
    /// What happened, to what, and what to do next.
    #[serde(default)]
    pub message: String,
    /// The same for programs, where the code is too coarse.
    #[serde(default, rename = "details", with = "crate::reason")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

impl Error {
    /// An error of `code` that says `message`.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), reason: None }
    }

    /// Adds the reason.
    #[must_use]
    pub fn because(mut self, reason: Reason) -> Self {
        self.reason = Some(reason);
        self
    }
}

/// Payload of the last frame of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndOfStream {
    /// Set when the stream failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// Puts `payload` into an envelope: one flag byte, four length bytes (big endian), the payload.
///
/// # Panics
/// Never in practice: payloads are far below 4 GiB by construction.
#[must_use]
pub fn envelope(flags: u8, payload: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(HEADER + payload.len());
    out.put_u8(flags);
    out.put_u32(u32::try_from(payload.len()).expect("payload below 4 GiB"));
    out.put_slice(payload);
    out.freeze()
}

/// One decoded frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// True for the last frame.
    pub end: bool,
    /// The JSON text.
    pub payload: Bytes,
}

/// Why a stream cannot be decoded any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The announced length is over the reader's limit.
    #[error("a frame of {length} bytes is over the limit of {limit}")]
    TooLong {
        /// What the header announced.
        length: usize,
        /// What the reader accepts.
        limit: usize,
    },
    /// The frame is compressed, which was not negotiated.
    #[error("a compressed frame arrived although no compression was negotiated")]
    Compressed,
}

/// Splits a byte stream into frames, never holding more than one frame of `limit` bytes.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    limit: usize,
}

impl Decoder {
    /// A decoder that refuses frames over `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), limit }
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// True when nothing of a next frame is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next whole frame, if one is there.
    ///
    /// # Errors
    /// When the peer announces a frame over the limit, or a compressed one.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        if self.buffer.len() < HEADER {
            return Ok(None);
        }
        let flags = self.buffer[0];
        let length =
            u32::from_be_bytes([self.buffer[1], self.buffer[2], self.buffer[3], self.buffer[4]])
                as usize;
        if length > self.limit {
            return Err(FrameError::TooLong { length, limit: self.limit });
        }
        if flags & FLAG_COMPRESSED != 0 {
            return Err(FrameError::Compressed);
        }
        if self.buffer.len() < HEADER + length {
            return Ok(None);
        }
        self.buffer.advance(HEADER);
        Ok(Some(Frame {
            end: flags & FLAG_END != 0,
            payload: self.buffer.split_to(length).freeze(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_cut() {
        let mut wire = envelope(0, b"{\"a\":1}").to_vec();
        wire.extend_from_slice(&envelope(FLAG_END, b"{}"));
        for cut in 1..wire.len() {
            let mut decoder = Decoder::new(64);
            let mut frames = Vec::new();
            for part in wire.chunks(cut) {
                decoder.push(part);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    frames.push(frame);
                }
            }
            assert_eq!(frames.len(), 2, "cut {cut}");
            assert!(!frames[0].end && frames[1].end);
        }
    }

    #[test]
    fn an_over_long_announcement_is_refused_before_it_is_stored() {
        let mut decoder = Decoder::new(8);
        decoder.push(&[0, 0xff, 0xff, 0xff, 0xff]);
        assert!(matches!(decoder.next_frame(), Err(FrameError::TooLong { limit: 8, .. })));
    }

    #[test]
    fn compressed_frames_are_refused() {
        let mut decoder = Decoder::new(8);
        decoder.push(&[FLAG_COMPRESSED, 0, 0, 0, 0]);
        assert_eq!(decoder.next_frame(), Err(FrameError::Compressed));
    }
}
