//! The compressed stream, and a meter on what comes out of it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use sha2::{Digest as _, Sha256};

use super::task::Packing;
use crate::id::Digest;

const BUFFER: usize = 128 << 10;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: u32 = 0xfd2f_b528;
/// What a frame without content begins with, but for four bits.
const NOTE: u32 = 0x184d_2a50;
const NOTE_MASK: u32 = !0xf;

/// The decompressed stream.
pub(super) fn open(packing: Packing, input: File) -> io::Result<Box<dyn Read>> {
    // Both forms may be several streams one behind the other.
    let mut input = BufReader::with_capacity(BUFFER, input);
    let packing = match packing {
        // What is written to a pipe at once is more than is looked at here.
        Packing::Any => guess(input.fill_buf()?),
        known => known,
    };
    Ok(match packing {
        Packing::Gzip => Box::new(MultiGzDecoder::new(input)),
        Packing::Zstd => {
            Box::new(Frames { at: At::Between(Pushed { back: Vec::new(), inner: input }) })
        }
        Packing::Plain | Packing::Any => Box::new(input),
    })
}

/// How a stream that begins like this is packed.
pub(crate) fn guess(start: &[u8]) -> Packing {
    let number = start.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if start.starts_with(&GZIP) {
        Packing::Gzip
    } else if number == ZSTD || number & NOTE_MASK == NOTE {
        Packing::Zstd
    } else {
        Packing::Plain
    }
}

/// Zstandard frames one behind the other.
struct Frames {
    at: At,
}

enum At {
    Between(Pushed),
    Inside(Box<StreamingDecoder<Pushed, FrameDecoder>>),
    Failed,
}

impl Read for Frames {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.at, At::Failed) {
                At::Failed => return Err(io::Error::other("it failed before")),
                At::Between(input) => match next_frame(input)? {
                    (at @ At::Between(_), true) => {
                        self.at = at;
                        return Ok(0);
                    }
                    (at, _) => self.at = at,
                },
                At::Inside(mut frame) => {
                    let read = frame.read(out)?;
                    if read > 0 || out.is_empty() {
                        self.at = At::Inside(frame);
                        return Ok(read);
                    }
                    self.at = At::Between(frame.into_inner());
                }
            }
        }
    }
}

/// What follows, and whether that is the end.
fn next_frame(mut input: Pushed) -> io::Result<(At, bool)> {
    let mut head = Vec::new();
    input.by_ref().take(8).read_to_end(&mut head)?;
    if head.is_empty() {
        return Ok((At::Between(input), true));
    }
    let number = |at: usize| {
        let bytes = head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_le_bytes).ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))
    };
    // Frames without content: other programs keep notes in them.
    if number(0)? & NOTE_MASK == NOTE {
        let length = u64::from(number(4)?);
        let skipped = io::copy(&mut input.by_ref().take(length), &mut io::sink())?;
        if skipped < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        return Ok((At::Between(input), false));
    }
    input.back = head;
    let frame = StreamingDecoder::new(input).map_err(io::Error::other)?;
    Ok((At::Inside(Box::new(frame)), false))
}

/// A stream, and before it what was read of it already.
struct Pushed {
    back: Vec<u8>,
    inner: BufReader<File>,
}

impl Read for Pushed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.back.is_empty() {
            return self.inner.read(out);
        }
        let count = out.len().min(self.back.len());
        out[..count].copy_from_slice(&self.back[..count]);
        self.back.drain(..count);
        Ok(count)
    }
}

/// Hashes what passes, and ends it where there is too much.
pub(super) struct Meter<R> {
    inner: R,
    hash: Sha256,
    count: u64,
    most: u64,
}

impl<R: Read> Meter<R> {
    pub(super) fn new(inner: R, most: u64) -> Self {
        Self { inner, hash: Sha256::new(), count: 0, most }
    }

    /// Of everything that passed.
    pub(super) fn digest(self) -> Digest {
        Digest::of(self.hash)
    }
}

impl<R: Read> Read for Meter<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.count += read as u64;
        if self.count > self.most {
            return Err(io::Error::other(Overrun(self.most)));
        }
        self.hash.update(&out[..read]);
        Ok(read)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("more than {0} bytes")]
struct Overrun(u64);

/// How much was allowed, where that was exceeded.
pub(super) fn overrun(error: &io::Error) -> Option<u64> {
    error.get_ref()?.downcast_ref::<Overrun>().map(|overrun| overrun.0)
}
