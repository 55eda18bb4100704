//! Small wrappers: signals, sub-reaping, waiting, terminals, bytes in a pipe.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

/// What `waitpid` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaped {
    /// This child ended with this wait status.
    Child(i32, i32),
    /// There are children, none has ended.
    NoneYet,
    /// There are no children.
    NoChildren,
}

/// Takes one ended child, without waiting.
pub fn reap() -> Reaped {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place for the duration of the call.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        match pid {
            0 => return Reaped::NoneYet,
            -1 if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            -1 => return Reaped::NoChildren,
            _ => return Reaped::Child(pid, status),
        }
    }
}

/// Sends a signal to a process (or, negative, to a group). `false` when there is none.
pub fn kill(pid: i32, signal: i32) -> bool {
    // SAFETY: kill takes plain integers. Callers never pass 0 or -1 (checked here).
    pid != 0 && pid != -1 && unsafe { libc::kill(pid, signal) } == 0
}

/// Orphaned descendants come to this process from now on.
pub fn become_subreaper() {
    // SAFETY: prctl with integer arguments.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

/// Other processes may not look into this one, also not those of the same user.
pub fn become_non_dumpable() {
    // SAFETY: prctl with integer arguments.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
}

/// True when other processes may not trace this one.
pub fn is_non_dumpable() -> bool {
    // SAFETY: prctl with integer arguments.
    unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) != 1 }
}

/// A write past a file size limit gives an error and no deadly signal.
pub fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN runs no code.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Blocks `SIGCHLD` (with `also`, one more) for this thread and those it starts, and makes it
/// readable.
pub fn child_signals(also: Option<i32>) -> io::Result<OwnedFd> {
    // SAFETY: the set lives on this stack and is initialised by sigemptyset before use.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        if let Some(also) = also {
            libc::sigaddset(&raw mut set, also);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Takes over a descriptor that the starter of this process promised to be open.
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl on a number is harmless; ownership is taken only when it is open, and main
    // calls this once, before anything else could own the number.
    unsafe {
        if libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Bytes that wait in a pipe now.
pub fn bytes_waiting(fd: BorrowedFd<'_>) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int to the given place.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    if done < 0 { 0 } else { usize::try_from(count).unwrap_or(0) }
}

/// The other side of a terminal, opened without a path.
pub fn open_terminal_peer(master: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: TIOCGPTPEER takes an integer and gives a new descriptor that nobody else owns.
    unsafe {
        let fd = libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Sets soft `RLIMIT_NOFILE` to the hard limit for the guest itself; gives back what it was, for
/// the commands.
pub fn raise_open_files() -> (u64, u64) {
    // SAFETY: both calls work on a struct on this stack.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        let before = (limit.rlim_cur, limit.rlim_max);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        before
    }
}

/// Registers a descriptor with the event loop.
pub fn watched(fd: OwnedFd) -> io::Result<tokio::io::unix::AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd names the same open descriptor for as long as it lives, and the result
    // owns it until it is taken out of the event loop again.
    let registered = unsafe { tokio::io::unix::AsyncFd::register(fd) };
    registered.map_err(io::Error::from)
}
