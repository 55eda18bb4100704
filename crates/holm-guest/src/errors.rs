//! From system errors to the protocol's errors, with the path named.

use std::fmt::Display;

use holm_wire::connect::{Code, Error};
use holm_wire::reason::Reason;
use rustix::io::Errno;

/// What calls give.
pub type Result<T> = std::result::Result<T, Error>;

/// The caller's argument is wrong.
pub fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

/// Something failed that should not.
pub fn internal(doing: &str, error: impl Display) -> Error {
    Error::new(Code::Internal, format!("{doing}: {error}"))
}

/// A file call on `path` failed.
pub fn file(doing: &str, path: &str, error: Errno) -> Error {
    let (code, text) = match error {
        Errno::NOENT => (Code::NotFound, "no such file or directory"),
        Errno::NOTDIR => (Code::InvalidArgument, "a part of the path is not a directory"),
        Errno::ISDIR => (Code::InvalidArgument, "it is a directory"),
        Errno::ACCESS | Errno::PERM => (Code::PermissionDenied, "permission denied"),
        Errno::ROFS => (Code::PermissionDenied, "read-only file system"),
        Errno::EXIST => (Code::AlreadyExists, "it exists already"),
        Errno::NOTEMPTY => (Code::FailedPrecondition, "the directory is not empty"),
        Errno::NOSPC | Errno::DQUOT => (Code::ResourceExhausted, "disk full"),
        Errno::MFILE | Errno::NFILE => (Code::ResourceExhausted, "too many open files"),
        Errno::NOMEM => (Code::ResourceExhausted, "out of memory"),
        Errno::NAMETOOLONG => (Code::InvalidArgument, "the name is too long"),
        Errno::LOOP => (Code::InvalidArgument, "too many symbolic links"),
        Errno::BUSY => (Code::FailedPrecondition, "it is in use"),
        Errno::XDEV => (Code::FailedPrecondition, "it is on another file system"),
        Errno::FBIG => (Code::ResourceExhausted, "the file is too large"),
        Errno::TXTBSY => (Code::FailedPrecondition, "the program is running"),
        Errno::INVAL => (Code::InvalidArgument, "the system refuses this"),
        _ => (Code::Internal, ""),
    };
    let shown = shorten(path);
    let said = if text.is_empty() {
        Error::new(code, format!("cannot {doing} {shown}: {error}"))
    } else {
        Error::new(code, format!("cannot {doing} {shown}: {text}"))
    };
    match error {
        Errno::NOSPC | Errno::DQUOT => said.because(Reason::DiskFull),
        Errno::FBIG => said.because(Reason::TooLarge),
        _ => said,
    }
}

/// A path for a message: bounded, so that a long one does not fill the reply.
pub fn shorten(path: &str) -> String {
    const MOST: usize = 200;
    if path.len() <= MOST {
        return format!("{path:?}");
    }
    let mut end = MOST;
    while !path.is_char_boundary(end) {
        end -= 1;
    }
    format!("{:?}… ({} bytes)", &path[..end], path.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_cut_at_a_character() {
        let text = shorten(&"é".repeat(4000));
        assert!(text.len() < 300 && text.ends_with("(8000 bytes)"), "{text}");
        assert_eq!(shorten("a\0b"), "\"a\\0b\"");
    }

    #[test]
    fn what_is_used_up_is_named() {
        for (errno, reason, text) in [
            (Errno::NOSPC, Some(Reason::DiskFull), "disk full"),
            (Errno::DQUOT, Some(Reason::DiskFull), "disk full"),
            (Errno::FBIG, Some(Reason::TooLarge), "too large"),
            (Errno::NOMEM, None, "out of memory"),
            (Errno::MFILE, None, "open files"),
        ] {
            let error = file("write", "/x", errno);
            assert_eq!((error.code, error.reason), (Code::ResourceExhausted, reason), "{errno}");
            assert!(error.message.contains(text), "{error}");
        }
    }
}
