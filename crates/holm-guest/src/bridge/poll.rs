//! Waiting for several descriptors at once.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Which of some descriptors can be read, or have come to their end.
pub fn ready(fds: &[Option<BorrowedFd<'_>>], wait: Option<Duration>) -> Vec<bool> {
    let there = fds.iter().flatten().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN));
    let mut polled: Vec<_> = there.collect();
    let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
    if poll(&mut polled, wait.as_ref()).is_err() {
        return vec![false; fds.len()];
    }
    let mut polled = polled.iter();
    let mut one =
        |fd: &Option<_>| fd.is_some() && polled.next().is_some_and(|one| !one.revents().is_empty());
    fds.iter().map(&mut one).collect()
}

/// The same, at most for so long.
pub fn ready_within(fds: &[Option<BorrowedFd<'_>>], wait: Duration) -> Vec<bool> {
    ready(fds, Some(wait))
}
