//! Making, ending and replacing processes.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::process::Pid;

use super::{checked, last_errno};

/// Which side of a fork this is.
pub enum Forked {
    /// The new process.
    Child,
    /// The old one, with the child's pid and a descriptor of it.
    Parent(Pid, OwnedFd),
}

/// How the child relates to us.
#[derive(Debug, Clone, Copy)]
pub enum Parentage {
    /// Our child.
    Child,
    /// Our sibling: our own parent becomes its parent and reaps it.
    Sibling,
}

/// `clone3` without shared memory: like `fork`, with new namespaces (`CLONE_NEW*` in `namespaces`).
/// The caller must be single-threaded, as everything that calls this in the crate is: then the
/// child may use the allocator.
pub fn fork_into(
    namespaces: u64,
    parentage: Parentage,
    cgroup: Option<RawFd>,
) -> Result<Forked, Errno> {
    let mut pidfd: RawFd = -1;
    // SAFETY: clone_args is plain numbers, for which zero is a valid value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = namespaces | flag(libc::CLONE_PIDFD);
    args.pidfd = (&raw mut pidfd) as u64;
    match parentage {
        Parentage::Child => args.exit_signal = libc::SIGCHLD as u64,
        // The exit signal is then the caller's own; the kernel refuses another.
        Parentage::Sibling => args.flags |= flag(libc::CLONE_PARENT),
    }
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::try_from(cgroup).map_err(|_| Errno::BADF)?;
    }
    // SAFETY: no CLONE_VM, no stack and no TLS are given, so the child runs on its own copy of this
    // stack, as after fork; `args` and `pidfd` outlive the call.
    let pid = checked(unsafe {
        libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>())
    })?;
    match i32::try_from(pid).ok().and_then(Pid::from_raw) {
        None => Ok(Forked::Child),
        // SAFETY: CLONE_PIDFD stored a descriptor that is ours alone.
        Some(pid) => Ok(Forked::Parent(pid, unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A `CLONE_*` constant as the kernel's 64-bit flags have it.
#[must_use]
pub const fn flag(value: libc::c_int) -> u64 {
    // The constants are C ints; none of those used here has the sign bit set.
    value.cast_unsigned() as u64
}

/// Ends this process at once, running no destructors.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// `execveat` of an open file. Returns only on failure.
pub fn exec_fd(file: &impl AsRawFd, argv: &[&CStr], env: &[&CStr]) -> Errno {
    let pointers = |list: &[&CStr]| -> Vec<*const libc::c_char> {
        list.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both arrays end with a null pointer and, like the empty path, outlive the call.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            file.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    last_errno()
}
