//! What can go wrong between host and guest.

use crate::connect;

/// A failed call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The guest answered with an error of its own: the caller's fault or the sandbox's state.
    #[error("{0}")]
    Guest(connect::Error),
    /// Nothing listens on the socket, or the connection broke: the sandbox is gone or going.
    #[error("the sandbox does not answer")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The deadline passed. The command, if there was one, may still run.
    #[error("the sandbox did not answer within {0} ms")]
    Deadline(u128),
    /// The guest broke the protocol or passed a limit.
    #[error("the sandbox answered with something that is not a valid reply ({0})")]
    Protocol(String),
    /// The caller's own body source failed.
    #[error("the upload ended early")]
    Upload(#[source] std::io::Error),
}

impl ClientError {
    /// The guest's error code, where the guest answered one.
    #[must_use]
    pub fn code(&self) -> Option<connect::Code> {
        match self {
            Self::Guest(error) => Some(error.code),
            _ => None,
        }
    }
}

impl From<hyper::Error> for ClientError {
    fn from(error: hyper::Error) -> Self {
        if error.is_parse() {
            Self::Protocol(error.to_string())
        } else {
            Self::Unreachable(error.into())
        }
    }
}
