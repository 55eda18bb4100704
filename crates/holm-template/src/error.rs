//! Errors, with a text for the caller and one for the log.

use std::fmt::Display;

use holm_runtime::DriverError;
use serde::{Deserialize, Serialize};

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct TemplateError {
    /// Its class.
    pub kind: TemplateErrorKind,
    /// For the caller: what happened, to what, what to do next. No host path but what the caller gave.
    pub message: String,
    /// For the log.
    pub internal: String,
}

/// Classes of [`TemplateError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TemplateErrorKind {
    /// A name that no template can have.
    BadName,
    /// A template of that name is there already.
    Exists,
    /// It is in use.
    InUse,
    /// What should be read as an image is none, or not of a kind that is known.
    NotAnImage,
    /// A part of the image is not what its digest says, or breaks off.
    Damaged,
    /// The image is broken or hostile: names that lead out, links to nothing.
    Refused,
    /// A form that is not handled.
    Unsupported,
    /// Larger than is taken.
    TooLarge,
    /// Owners beyond what can be mapped.
    Ids,
    /// Unpacked for other ids than the present ones.
    OtherIds,
    /// No room on the disk.
    DiskFull,
    /// The registry does not have it, does not let us, or does not answer.
    Registry,
    /// The host gives no confinement.
    Confinement,
    /// Anything else.
    Internal,
}

/// Short for results of this crate.
pub type Result<T> = std::result::Result<T, TemplateError>;

impl TemplateError {
    /// One whose text may be shown as it is.
    pub fn new(kind: TemplateErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, internal: message.clone(), message }
    }

    /// One that is ours or the host's.
    pub fn internal(internal: impl Into<String>) -> Self {
        Self {
            kind: TemplateErrorKind::Internal,
            message: "The templates of this host could not be read or changed; the log has the \
                      reason."
                .into(),
            internal: internal.into(),
        }
    }

    /// The same, with more for the log.
    #[must_use]
    pub fn because(mut self, cause: impl Display) -> Self {
        self.internal = format!("{} ({cause})", self.internal);
        self
    }

    /// The same, its text led in by what it is about.
    #[must_use]
    pub fn of(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self.internal = format!("{what}: {}", self.internal);
        self
    }
}

impl From<DriverError> for TemplateError {
    fn from(error: DriverError) -> Self {
        let kind = match error.kind {
            holm_runtime::DriverErrorKind::IsolationUnavailable => TemplateErrorKind::Confinement,
            _ => TemplateErrorKind::Internal,
        };
        let message = match kind {
            TemplateErrorKind::Confinement => error.message,
            _ => "The image could not be unpacked; the log has the reason.".into(),
        };
        Self { kind, message, internal: error.internal }
    }
}

/// Says what was tried when a call to the system failed.
pub(crate) trait Attempt<T> {
    fn tried(self, what: &str) -> Result<T>;
}

impl<T, E: Into<std::io::Error>> Attempt<T> for std::result::Result<T, E> {
    fn tried(self, what: &str) -> Result<T> {
        self.map_err(|error| {
            let error = error.into();
            let text = format!("{what}: {error}");
            if is_full(&error) { full().because(text) } else { TemplateError::internal(text) }
        })
    }
}

/// True when there is no room.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

pub(crate) fn full() -> TemplateError {
    TemplateError::new(
        TemplateErrorKind::DiskFull,
        "The disk of the data directory is full; free some of it (`holm template prune`), then \
         try again.",
    )
}
