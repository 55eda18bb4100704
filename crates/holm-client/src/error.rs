//! What goes wrong between here and a service. The texts hold no key, no path and no body.

use std::fmt;

/// How a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// No connection could be made: nothing was sent.
    Unreachable,
    /// The other side is not who it should be, or speaks no TLS: nothing was sent.
    Tls,
    /// The proxy refused: nothing was sent.
    Proxy,
    /// The address may not be reached from here: nothing was sent.
    Forbidden,
    /// The connection ended before the answer did. The request may have been taken.
    Broken,
    /// Nothing came for longer than was allowed. The request may have been taken.
    Silent,
    /// The answer is longer than was allowed.
    TooLong,
    /// The answer is not what the protocol says.
    Protocol,
}

/// A request that got no whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// How.
    pub kind: ErrorKind,
    /// One sentence: what happened, to whom.
    pub message: String,
}

impl Error {
    /// An error.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
