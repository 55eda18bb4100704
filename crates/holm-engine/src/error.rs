//! What a call can fail with: a closed list of kinds, a text for the caller, a text for the log.

use std::fmt;
use std::num::NonZeroU32;

use serde::Serialize;

use crate::{CommandResult, Ended};

/// Classes of failures. Faces map them to their own codes; the names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// An argument is wrong; the text names it and what is allowed.
    InvalidArgument,
    /// Without an API key that works.
    Unauthorized,
    /// More requests than the key may make; [`Error::retry_after`] says when the next one may come.
    RateLimited,
    /// The key, or its account, may not do that.
    Forbidden,
    /// There is a price, and the account has nothing to pay it with.
    InsufficientBalance,
    /// No such sandbox (or not the caller's: the two are the same answer).
    NotFound,
    /// The call must name its sandbox: there is no session whose default could be meant.
    SandboxRequired,
    /// The sandbox existed and ended; [`Error::ended`] says why and when.
    SandboxGone,
    /// The sandbox is paused, and the call needs it running.
    SandboxPaused,
    /// As many sandboxes as are allowed exist already.
    QuotaExceeded,
    /// It contradicts what was asked for or done before.
    Conflict,
    /// No such template.
    TemplateUnknown,
    /// The sandbox has no interpreter for the language.
    LanguageUnavailable,
    /// No such file or directory inside the sandbox.
    FileNotFound,
    /// The path names something that the call cannot work on (a directory, a pipe, a device …).
    FileInvalid,
    /// The sandbox's own permissions forbid it.
    PermissionDenied,
    /// It took longer than allowed.
    Timeout,
    /// More bytes than the call carries.
    TooLarge,
    /// The sandbox has used up its memory.
    OutOfMemory,
    /// The sandbox's disk is full.
    DiskFull,
    /// The host or the sandbox has no room (processes, memory, disk reserve).
    Capacity,
    /// The host cannot give a layer of isolation without which nothing runs.
    IsolationUnavailable,
    /// This host cannot do it; the text says why.
    Unsupported,
    /// The sandbox does not answer for now, or the service is going down.
    Unavailable,
    /// A fault of holm itself; details are in its log.
    Internal,
}

impl ErrorKind {
    /// Every kind, for documentation and tests.
    pub const ALL: [Self; 25] = [
        Self::InvalidArgument,
        Self::Unauthorized,
        Self::RateLimited,
        Self::Forbidden,
        Self::InsufficientBalance,
        Self::NotFound,
        Self::SandboxRequired,
        Self::SandboxGone,
        Self::SandboxPaused,
        Self::QuotaExceeded,
        Self::Conflict,
        Self::TemplateUnknown,
        Self::LanguageUnavailable,
        Self::FileNotFound,
        Self::FileInvalid,
        Self::PermissionDenied,
        Self::Timeout,
        Self::TooLarge,
        Self::OutOfMemory,
        Self::DiskFull,
        Self::Capacity,
        Self::IsolationUnavailable,
        Self::Unsupported,
        Self::Unavailable,
        Self::Internal,
    ];

    /// Its stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::Unauthorized => "unauthorized",
            Self::RateLimited => "rate_limited",
            Self::Forbidden => "forbidden",
            Self::InsufficientBalance => "insufficient_balance",
            Self::NotFound => "not_found",
            Self::SandboxRequired => "sandbox_required",
            Self::SandboxGone => "sandbox_gone",
            Self::SandboxPaused => "sandbox_paused",
            Self::QuotaExceeded => "quota_exceeded",
            Self::Conflict => "conflict",
            Self::TemplateUnknown => "template_unknown",
            Self::LanguageUnavailable => "language_unavailable",
            Self::FileNotFound => "file_not_found",
            Self::FileInvalid => "file_invalid",
            Self::PermissionDenied => "permission_denied",
            Self::Timeout => "timeout",
            Self::TooLarge => "too_large",
            Self::OutOfMemory => "out_of_memory",
            Self::DiskFull => "disk_full",
            Self::Capacity => "capacity",
            Self::IsolationUnavailable => "isolation_unavailable",
            Self::Unsupported => "unsupported",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }

    /// What to do about it where the failing place knows nothing better.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::InvalidArgument => "Correct the argument named in the message and call again.",
            Self::Unauthorized => {
                "Send a key that `holm key create` has shown, in `Authorization: Bearer` or \
                 `x-api-key`."
            }
            Self::RateLimited => {
                "Wait as long as `Retry-After` says, and send requests more slowly."
            }
            Self::Forbidden => "Use a key with the scope that the message names.",
            Self::InsufficientBalance => {
                "Ask the operator to top up the account (`holm account topup`), then try again."
            }
            Self::NotFound => "Use list_sandboxes to see which exist, or create_sandbox.",
            Self::SandboxRequired => {
                "Make a sandbox with create_sandbox and give its sandbox_id with every call."
            }
            Self::SandboxGone => "Create a new sandbox with create_sandbox; its files are gone.",
            Self::SandboxPaused => "Let it go on with resume_sandbox, then call again.",
            Self::QuotaExceeded => {
                "Destroy a sandbox that is no longer needed (list_sandboxes, destroy_sandbox), or \
                 wait until one expires."
            }
            Self::Conflict => {
                "Look at what is there already; use a new key or name for another request."
            }
            Self::TemplateUnknown => "Use one of the templates that get_service_info lists.",
            Self::LanguageUnavailable => "Use one of the available languages, or run_command.",
            Self::FileNotFound => "Check the path with list_files.",
            Self::FileInvalid => "Check with list_files what the path is.",
            Self::PermissionDenied => {
                "Choose a place that the sandbox user may use, such as /workspace, or set user to \
                 root where that is allowed."
            }
            Self::Timeout => "Give a longer timeout, or do less in one call.",
            Self::TooLarge => "Split it into smaller parts (offset and limit for reads).",
            Self::OutOfMemory => "Use less memory, or create a sandbox of a larger size.",
            Self::DiskFull => "Remove files inside the sandbox, or create one of a larger size.",
            Self::Capacity => "End processes or sandboxes that are no longer needed and try again.",
            Self::IsolationUnavailable => "Run `holm doctor` on the host; it says how to mend it.",
            Self::Unsupported => {
                "Do without it, or run `holm doctor` on the host for how to mend it."
            }
            Self::Unavailable => "Try again in a few seconds; else create a new sandbox.",
            Self::Internal => "Try again; if it stays, look into the log of holm.",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A failed call. Displays its public text.
#[derive(Debug, Clone)]
pub struct Error {
    /// Its class.
    pub kind: ErrorKind,
    /// What happened, for the caller. Never holds host paths or secrets.
    pub public: String,
    /// What the caller can do about it.
    pub suggestion: String,
    /// Details for the log only.
    pub internal: Option<String>,
    /// With [`ErrorKind::SandboxGone`]: why and when it ended.
    pub ended: Option<Ended>,
    /// With [`ErrorKind::SandboxGone`] after a command: what it had written until then.
    pub partial: Option<Box<CommandResult>>,
    /// With [`ErrorKind::RateLimited`]: seconds to wait.
    pub retry_after: Option<NonZeroU32>,
}

impl Error {
    /// An error of `kind` with the remedy of its kind.
    #[must_use]
    pub fn new(kind: ErrorKind, public: impl Into<String>) -> Self {
        Self {
            kind,
            public: public.into(),
            suggestion: kind.remedy().to_owned(),
            internal: None,
            ended: None,
            partial: None,
            retry_after: None,
        }
    }

    /// A wrong argument.
    #[must_use]
    pub fn invalid(public: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, public)
    }

    /// A fault of ours at `step`.
    #[must_use]
    pub fn internal(step: &str, cause: &dyn fmt::Display) -> Self {
        Self::new(ErrorKind::Internal, format!("holm failed at an inner step ({step})"))
            .with_internal(format!("{step}: {cause}"))
    }

    /// The sandbox ended.
    #[must_use]
    pub fn gone(id: &crate::SandboxId, ended: Ended) -> Self {
        let text = format!("sandbox {id} is gone: {} at {}", ended.reason.text(), ended.at_text());
        Self { ended: Some(ended), ..Self::new(ErrorKind::SandboxGone, text) }
    }

    /// No such sandbox.
    #[must_use]
    pub fn not_found(id: &crate::SandboxId) -> Self {
        Self::new(ErrorKind::NotFound, format!("there is no sandbox {id}"))
    }

    /// Replaces the suggestion.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = suggestion.into();
        self
    }

    /// Adds details for the log.
    #[must_use]
    pub fn with_internal(mut self, internal: impl Into<String>) -> Self {
        self.internal = Some(internal.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.public)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_serialized_ones_and_every_kind_has_a_remedy() {
        for kind in ErrorKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
            assert!(kind.remedy().ends_with('.'), "{kind}");
        }
    }
}
