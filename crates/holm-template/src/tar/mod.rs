//! Archives: an own reader of headers, because who reads hostile ones must see every field that others
//! see (pax over ustar, GNU long names, all forms of sparse files) and must be bounded in each. They are
//! written by [`holm_runtime::archive`].
//!
//! | module | what it is |
//! | --- | --- |
//! | [`header`] | one block of 512 bytes |
//! | [`extra`] | what pax records and GNU entries add to the next header |
//! | [`sparse`] | where the bytes of a file with holes belong |
//! | [`reader`] | entries one after the other, and their content |

mod extra;
mod header;
pub(crate) mod reader;
mod sparse;

use holm_runtime::archive::{BLOCK, padding};
pub(crate) use reader::{Entry, Kind, Reader};

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
