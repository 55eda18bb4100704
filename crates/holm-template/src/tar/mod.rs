//! Archives: an own reader of headers, because who reads hostile ones must see every field that others
//! see (pax over ustar, GNU long names, all forms of sparse files) and must be bounded in each; and the
//! writer for directories.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`header`] | one block of 512 bytes |
//! | [`extra`] | what pax records and GNU entries add to the next header |
//! | [`sparse`] | where the bytes of a file with holes belong |
//! | [`reader`] | entries one after the other, and their content |
//! | [`writer`] | entries for a stream |

mod extra;
mod header;
pub(crate) mod reader;
mod sparse;
pub(crate) mod writer;

pub(crate) use reader::{Entry, Kind, Reader};

/// One block.
pub(crate) const BLOCK: usize = 512;

/// What is wrong with an archive, or with the stream that it comes in.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It is not as an archive must be.
    Broken(String),
    /// It ends too early.
    Short,
    /// The stream.
    Io(std::io::Error),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::Short,
            _ => Self::Io(error),
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

pub(crate) fn broken<T>(text: impl Into<String>) -> Result<T> {
    Err(Fault::Broken(text.into()))
}

/// How many bytes fill the last block of so many.
pub(crate) fn padding(size: u64) -> u64 {
    (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64
}
