//! What no safe wrapper offers, behind functions that are safe to call. This is the only place of
//! the crate with `unsafe`.
#![allow(unsafe_code, reason = "the crate's one place for it")]

use std::io;
use std::os::fd::BorrowedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor that stays open for as long as the process lives with the event loop.
///
/// # Errors
/// When it cannot be polled.
pub(crate) fn watched(
    fd: BorrowedFd<'static>,
    interest: Interest,
) -> io::Result<AsyncFd<BorrowedFd<'static>>> {
    // SAFETY: a borrow that never ends says that nobody closes the descriptor, so it names the same
    // open file for as long as it is registered.
    let registered = unsafe { AsyncFd::register_with_interest(fd, interest) };
    registered.map_err(io::Error::from)
}
