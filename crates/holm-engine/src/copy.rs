//! A copy of what a sandbox has written, on its way into the library.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holm_runtime::{DriverError, LayerStream};

use crate::template::Standing;

/// What a library is to make a snapshot of.
#[derive(Debug, Clone)]
pub struct NewSnapshot {
    /// Whose it is.
    pub owner: String,
    /// Its name; one with a dot in front is not listed.
    pub name: String,
    /// What the sandbox was made from.
    pub standing: Standing,
    /// From where it is, for people.
    pub source: String,
    /// Bytes that it may have.
    pub most_bytes: u64,
}

/// What a sandbox has written, while it is copied.
#[derive(Debug)]
pub struct Written {
    stream: LayerStream,
    given_up: Arc<AtomicBool>,
}

/// A copy, and what gives it up when it is dropped.
pub(crate) fn begin(stream: LayerStream) -> (Written, Wanted) {
    let given_up = Arc::new(AtomicBool::new(false));
    (Written { stream, given_up: Arc::clone(&given_up) }, Wanted(given_up))
}

impl Written {
    /// After the last byte: whether it was the last one, and somebody still wants it.
    ///
    /// # Errors
    /// When it is not whole, or nobody waits any more.
    pub fn finish(self) -> Result<(), DriverError> {
        self.stream.finish().map(drop)
    }

    /// Whether nobody waits for it any more.
    #[must_use]
    pub fn watch(&self) -> GivenUp {
        GivenUp(Arc::clone(&self.given_up))
    }
}

impl Read for Written {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.given_up.load(Ordering::Acquire) {
            return Err(io::Error::other("nobody waits for it any more"));
        }
        self.stream.read(bytes)
    }
}

/// Says whether a copy is still wanted.
#[derive(Debug, Clone)]
pub struct GivenUp(Arc<AtomicBool>);

impl GivenUp {
    /// True once nobody waits.
    #[must_use]
    pub fn is_so(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Gives a copy up when it is dropped.
pub(crate) struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
