//! Signals of the launcher (as a descriptor) and their defaults for what it starts.

use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;

/// Blocks SIGCHLD and answers a non-blocking descriptor that becomes readable with it.
pub fn child_exits() -> Result<OwnedFd, Errno> {
    // SAFETY: `set` is initialised by sigemptyset before use; the calls have no other memory.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(super::last_errno());
        }
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(super::last_errno()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Makes such a descriptor quiet. What it says is less than what `wait` tells.
pub fn quiet(exits: &OwnedFd) {
    let mut info = [0_u8; 1024];
    while rustix::io::read(exits, &mut info).is_ok_and(|n| n > 0) {}
}

/// What a terminal or a service manager sends to a whole group, and the pipe signal.
const REQUESTS: [libc::c_int; 5] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE];

/// Ignores requests: only the control socket ends the launcher. All other signals get their
/// defaults, whatever whoever started us had ignored.
pub fn ignore_requests() {
    for signal in 1..=64 {
        let wanted = if REQUESTS.contains(&signal) { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: both are valid dispositions and no handler code is installed; SIGKILL, SIGSTOP
        // and libc's own two are refused, which is harmless.
        unsafe { libc::signal(signal, wanted) };
    }
}

/// Default dispositions and an empty mask in a child of the launcher, because `exec` keeps ignored
/// and blocked signals.
pub fn reset() {
    for signal in REQUESTS {
        // SAFETY: SIG_DFL is valid for all of them.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: `set` is initialised by sigemptyset before use.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}
