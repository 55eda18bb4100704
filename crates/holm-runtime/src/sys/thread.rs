//! What a process does to itself before it hands over to a sandbox's PID 1.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::checked;

/// True when this process has no other thread, so that a fork of it is whole.
pub fn is_only_one() -> bool {
    // The directory's links: itself, its parent, and one for each thread.
    rustix::fs::stat("/proc/self/task").is_ok_and(|task| task.st_nlink == 3)
}

/// Leaves this cgroup namespace for a new one rooted at the cgroups we are in now.
pub fn new_cgroup_namespace() -> Result<(), Errno> {
    // SAFETY: CLONE_NEWCGROUP shares or unshares no memory or descriptors.
    checked(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_NEWCGROUP) })?;
    Ok(())
}

/// A session keyring of our own, so that keys of whoever started us are out of reach.
pub fn new_session_keyring() -> Result<(), Errno> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
    let name = std::ptr::null::<libc::c_char>();
    // SAFETY: a null name asks for an anonymous keyring.
    checked(unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, name) })?;
    Ok(())
}

/// Installs a seccomp filter for good. `no_new_privs` must be set.
pub fn install_filter(program: &[libc::sock_filter]) -> Result<(), Errno> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::INVAL)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel only reads `len` instructions from `filter`; both outlive the call.
    checked(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    })?;
    Ok(())
}

/// Brings the loopback interface of this network namespace up.
pub fn loopback_up() -> Result<(), Errno> {
    // SAFETY: plain socket call.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(super::last_errno());
    }
    // SAFETY: the descriptor was made just now and is ours.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: ifreq is plain numbers and byte arrays, for which zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed();
    request.ifr_name[1] = b'o'.cast_signed();
    request.ifr_ifru.ifru_flags =
        libc::c_short::try_from(libc::IFF_UP).map_err(|_| Errno::INVAL)?;
    // SAFETY: the ioctl reads one ifreq, which outlives the call.
    let ret = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if ret < 0 { Err(super::last_errno()) } else { Ok(()) }
}

/// Level of Landlock that the kernel offers; 0 means none.
#[must_use]
pub fn landlock_level() -> i64 {
    const VERSION: libc::c_uint = 1;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the call only answers a number and reads nothing.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, VERSION) }.max(0)
}

/// Gives this process, which has one thread, a copy of the mounts and, of what else can be reached by
/// name, something of its own: network, IPC, host name, groups.
pub fn leave_everything() -> Result<(), Errno> {
    let all = libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    // SAFETY: none of these flags shares or unshares memory or descriptors.
    checked(unsafe { libc::syscall(libc::SYS_unshare, all) })?;
    Ok(())
}

/// Gives the calling thread a network of its own, for tests. It ends with the thread.
#[cfg(test)]
pub fn leave_network() -> Result<(), Errno> {
    // SAFETY: CLONE_NEWNET shares or unshares no memory or descriptors.
    checked(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_NEWNET) })?;
    Ok(())
}

/// Gives the calling thread mounts and a host name of its own, for tests that mount. Both end
/// with the thread.
#[cfg(test)]
pub fn leave_mounts_and_name() -> Result<(), Errno> {
    // SAFETY: CLONE_NEWNS and CLONE_NEWUTS share or unshare no memory or descriptors; the working
    // directory and root of other threads stay as they are.
    checked(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_NEWNS | libc::CLONE_NEWUTS) })?;
    Ok(())
}
