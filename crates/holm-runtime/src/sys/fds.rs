//! Descriptors by number: what is inherited at a fixed place, and closing all others.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;

/// The control socket's place in the launcher.
pub const CONTROL_FD: RawFd = 3;

/// Takes over the descriptor that the parent left at [`CONTROL_FD`]. `None` when nothing is there.
pub fn take_control() -> Option<OwnedFd> {
    // SAFETY: F_GETFD only asks whether the number is open.
    if unsafe { libc::fcntl(CONTROL_FD, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: it is open, and the launcher's main calls this once, before it opens anything else.
    Some(unsafe { OwnedFd::from_raw_fd(CONTROL_FD) })
}

/// Lets `command` start with a copy of `control` at [`CONTROL_FD`].
pub fn pass_control(command: &mut Command, control: OwnedFd) {
    let place = move || {
        let from = control.as_raw_fd();
        // SAFETY: dup2 and fcntl are async-signal-safe and touch only the child's own table.
        let ret = unsafe {
            if from == CONTROL_FD {
                libc::fcntl(CONTROL_FD, libc::F_SETFD, 0)
            } else {
                libc::dup2(from, CONTROL_FD)
            }
        };
        if ret < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: `place` neither allocates nor takes a lock, so it may run between fork and exec.
    unsafe { command.pre_exec(place) };
}

/// In a fork that becomes the launcher: `control` at its place, standard input and output at
/// /dev/null, standard error as it was, nothing else.
pub fn only_control(control: RawFd) -> Result<(), Errno> {
    // SAFETY: plain descriptor calls. The fork does not return to code that owns descriptors.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if null < 0
            || libc::dup2(null, 0) < 0
            || libc::dup2(null, 1) < 0
            || (control != CONTROL_FD && libc::dup2(control, CONTROL_FD) < 0)
        {
            return Err(super::last_errno());
        }
    }
    close_others(&[0, 1, 2, CONTROL_FD]);
    Ok(())
}

/// Closes every descriptor but `keep`. Only for a child that never returns to code whose owned
/// descriptors are among the closed ones.
pub fn close_others(keep: &[RawFd]) {
    let mut keep: Vec<u32> = keep.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    keep.sort_unstable();
    let mut next = 0_u32;
    for fd in keep {
        if fd > next {
            close_range(next, fd - 1);
        }
        next = fd + 1;
    }
    close_range(next, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    // SAFETY: only closes descriptors; the caller's contract is that nobody uses them any more.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Replaces standard error by standard input, which is /dev/null in all our processes.
pub fn silence() {
    // SAFETY: plain descriptor call; should it fail, standard error only stays what it was.
    unsafe { libc::dup2(0, 2) };
}

/// Puts `fd` at the number `target`, without close-on-exec.
pub fn place(fd: &impl AsRawFd, target: RawFd) -> Result<(), Errno> {
    let from = fd.as_raw_fd();
    // SAFETY: plain descriptor calls; whatever was at `target` is replaced on purpose.
    let ret = unsafe {
        if from == target {
            libc::fcntl(target, libc::F_SETFD, 0)
        } else {
            libc::dup2(from, target)
        }
    };
    if ret < 0 { Err(super::last_errno()) } else { Ok(()) }
}
