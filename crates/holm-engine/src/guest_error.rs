//! Failures of calls to a guest as the engine's. The guest may be hostile: its texts are cut.

use holm_wire::client::ClientError;
use holm_wire::connect::Code;
use holm_wire::reason::Reason;

use crate::text::shorten;
use crate::{Error, ErrorKind};

/// Most characters of a guest's text that are passed on.
const MAX_TEXT: usize = 600;

/// What a call was about; decides what the guest's codes mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    Command,
    File,
    /// One that was started before.
    Background,
    /// A code context, or code in one.
    Context,
}

/// A call on a sandbox that ran.
pub(crate) fn from_guest(error: &ClientError, about: About) -> Error {
    match error {
        ClientError::Guest(said) => {
            let error = Error::new(kind(said, about), shorten(&said.message, MAX_TEXT))
                .with_internal(format!("guest: {:?}", said.code));
            if about == About::Context { crate::context::suggest(error) } else { error }
        }
        ClientError::Unreachable(_)
        | ClientError::Deadline(_)
        | ClientError::Protocol(_)
        | ClientError::Upload(_) => Error::new(ErrorKind::Unavailable, error.to_string())
            .with_internal(format!("{error:?}")),
    }
}

/// A call on a sandbox that is being made: nothing of a user has run, so it is our fault, unless an
/// image cannot be used as it is.
pub(crate) fn at_start(error: &ClientError) -> Error {
    if let ClientError::Guest(said) = error
        && said.code == Code::FailedPrecondition
    {
        return Error::invalid(shorten(&said.message, MAX_TEXT))
            .with_internal(format!("{error:?}"));
    }
    let text = "the new sandbox did not start as it should";
    Error::new(ErrorKind::Unavailable, text).with_internal(format!("{error:?}"))
}

/// Whether the guest itself seems to be in trouble, rather than the caller's request wrong.
pub(crate) fn is_trouble(error: &ClientError) -> bool {
    !matches!(error, ClientError::Guest(_) | ClientError::Upload(_))
}

fn kind(said: &holm_wire::connect::Error, about: About) -> ErrorKind {
    match (said.code, about) {
        // The path's text was judged before; what is wrong then is what it names.
        (Code::InvalidArgument, About::File) => ErrorKind::FileInvalid,
        (Code::InvalidArgument | Code::NotFound, About::Command) => ErrorKind::InvalidArgument,
        (Code::NotFound, About::File) => ErrorKind::FileNotFound,
        (Code::NotFound, About::Background) => ErrorKind::NotFound,
        (Code::InvalidArgument, About::Background) => ErrorKind::InvalidArgument,
        (Code::OutOfRange, About::Background) => ErrorKind::Conflict,
        (Code::NotFound, About::Context) => ErrorKind::NotFound,
        (Code::InvalidArgument, About::Context) => ErrorKind::InvalidArgument,
        (Code::Aborted, About::Context) => ErrorKind::Conflict,
        (Code::Unimplemented, About::Context) => ErrorKind::LanguageUnavailable,
        (Code::AlreadyExists | Code::Aborted, About::File) => ErrorKind::FileInvalid,
        // `user: root` where the host gives no root inside; the text names the mend.
        (Code::FailedPrecondition, _) => ErrorKind::PermissionDenied,
        (Code::PermissionDenied | Code::Unauthenticated, _) => ErrorKind::PermissionDenied,
        // One code for everything that can be used up; only disks are about the file.
        (Code::ResourceExhausted, About::File) => match said.reason {
            Some(Reason::DiskFull) => ErrorKind::DiskFull,
            Some(Reason::TooLarge) => ErrorKind::TooLarge,
            None => ErrorKind::Capacity,
        },
        (Code::ResourceExhausted, About::Command | About::Background | About::Context) => {
            ErrorKind::Capacity
        }
        (Code::OutOfRange, _) => ErrorKind::TooLarge,
        (Code::DeadlineExceeded, _) => ErrorKind::Timeout,
        _ => ErrorKind::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: Code, text: &str, about: About, want: ErrorKind) {
        check_reason(code, None, text, about, want);
    }

    fn check_reason(code: Code, why: Option<Reason>, text: &str, about: About, want: ErrorKind) {
        let mut said = holm_wire::connect::Error::new(code, text);
        said.reason = why;
        let got = from_guest(&ClientError::Guest(said), about);
        assert_eq!((got.kind, got.public.as_str()), (want, text));
    }

    #[test]
    fn codes_have_a_meaning_by_call() {
        check(Code::NotFound, "x", About::File, ErrorKind::FileNotFound);
        check(Code::NotFound, "x", About::Command, ErrorKind::InvalidArgument);
        check(Code::InvalidArgument, "it is a directory", About::File, ErrorKind::FileInvalid);
        check(Code::ResourceExhausted, "disk full, too large", About::File, ErrorKind::Capacity);
        check(Code::ResourceExhausted, "out of memory", About::File, ErrorKind::Capacity);
        check(Code::ResourceExhausted, "no process left", About::Command, ErrorKind::Capacity);
        check(Code::PermissionDenied, "x", About::File, ErrorKind::PermissionDenied);
        check(Code::FailedPrecondition, "x", About::Command, ErrorKind::PermissionDenied);
        check(Code::Internal, "x", About::File, ErrorKind::Unavailable);
        check(Code::NotFound, "x", About::Background, ErrorKind::NotFound);
        check(Code::OutOfRange, "it has ended", About::Background, ErrorKind::Conflict);
    }

    #[test]
    fn what_is_used_up_is_told_by_its_reason_and_never_by_text() {
        let exhausted = Code::ResourceExhausted;
        for (why, file) in [
            (Some(Reason::DiskFull), ErrorKind::DiskFull),
            (Some(Reason::TooLarge), ErrorKind::TooLarge),
            (None, ErrorKind::Capacity),
        ] {
            check_reason(exhausted, why, "any words", About::File, file);
            check_reason(exhausted, why, "any words", About::Command, ErrorKind::Capacity);
            check_reason(Code::NotFound, why, "any words", About::File, ErrorKind::FileNotFound);
        }
    }

    #[test]
    fn a_guest_cannot_flood_the_message() {
        let said = holm_wire::connect::Error::new(Code::NotFound, "\u{1b}x".repeat(1 << 20));
        let got = from_guest(&ClientError::Guest(said), About::File);
        assert!(got.public.chars().count() <= MAX_TEXT + 1 && !got.public.contains('\u{1b}'));
    }
}
