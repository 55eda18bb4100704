//! System calls that rustix does not offer in a safe form, each behind a function that is safe to
//! call. This is the only place of the crate with `unsafe`.
#![allow(unsafe_code, reason = "the crate's one place for raw system calls")]

pub mod fds;
pub mod loopdev;
pub mod mounts;
pub mod process;
pub mod signals;
pub mod thread;

use rustix::io::Errno;

/// Turns the return value of `syscall(2)` into a result.
fn checked(ret: libc::c_long) -> Result<libc::c_long, Errno> {
    if ret == -1 { Err(last_errno()) } else { Ok(ret) }
}

/// `errno` of the call that failed just now.
fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
