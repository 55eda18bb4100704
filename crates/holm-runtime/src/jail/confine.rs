//! The last steps before the guest: what it may do, and its start.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, CpuSet};

use crate::channel::Channel;
use crate::failure::{Attempt, Failure};
use crate::ids::IdMap;
use crate::seccomp::Program;
use crate::sys;

/// All that even root inside may ever have: to own, read and change the sandbox's own files, to
/// switch to its own users and end their processes, to serve low ports, and to drop more.
pub(crate) const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT);

/// Most open files of a process.
const OPEN_FILES: u64 = 1 << 20;

/// Most queued signals of a user inside: all sandboxes of an ordinary user share that user's.
const PENDING_SIGNALS: u64 = 8192;
/// Bytes of message queues for each user inside: the kernel counts them against the maker of the user
/// namespace as well, who has 800 KiB for all of its sandboxes where that is an ordinary user.
const QUEUE_BYTES: u64 = 128 << 10;

/// What the kernel counts by user and an ordinary user's sandboxes share with that user: they get a
/// part, so that the user's own programs still work.
const SHARED: [(&str, &str); 2] =
    [("max_inotify_instances", "32"), ("max_inotify_watches", "32768")];

/// Bounds what is counted against the user who made the namespace, where that is not one of the
/// sandbox's own (`IdMap::owner`).
pub(super) fn shared_counters(ids: IdMap) -> Result<(), Failure> {
    if ids.owner().is_some() {
        return Ok(());
    }
    for (name, most) in SHARED {
        let path = format!("/proc/sys/user/{name}");
        match std::fs::write(&path, most) {
            // A kernel without inotify, or a container that shows /proc/sys read-only.
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound
                        | std::io::ErrorKind::ReadOnlyFilesystem
                        | std::io::ErrorKind::PermissionDenied
                ) => {}
            other => other.tried(&format!("write {path}"))?,
        }
    }
    Ok(())
}

/// Session, keyring, processors, cgroup namespace, limits, capabilities.
pub(super) fn privileges(cpus: &[usize]) -> Result<(), Failure> {
    rustix::process::setsid().tried("start a session")?;
    sys::thread::new_session_keyring().tried("make a session keyring")?;
    if !cpus.is_empty() {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        rustix::thread::sched_setaffinity(None, &set).tried("choose processors")?;
    }
    // Now that the cgroups are joined they become the top of what can be seen.
    sys::thread::new_cgroup_namespace().tried("make a cgroup namespace")?;
    limit(Resource::Core, 0, 1)?;
    limit(Resource::Nofile, 65_536, OPEN_FILES)?;
    limit(Resource::Sigpending, PENDING_SIGNALS, PENDING_SIGNALS)?;
    limit(Resource::Msgqueue, QUEUE_BYTES, QUEUE_BYTES)?;
    drop_capabilities(KEPT)
}

/// Sets a limit without ever raising a hard one, for which we may lack the privilege.
pub(crate) fn limit(resource: Resource, soft: u64, hard: u64) -> Result<(), Failure> {
    let now = rustix::process::getrlimit(resource);
    let hard = now.maximum.map_or(hard, |most| most.min(hard));
    let limit = Rlimit { current: Some(soft.min(hard)), maximum: Some(hard) };
    rustix::process::setrlimit(resource, limit).tried(&format!("limit {resource:?}"))
}

/// Leaves this process, and what it starts, with no capability but those.
pub(crate) fn drop_capabilities(kept: CapabilitySet) -> Result<(), Failure> {
    for capability in (0..64).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        if kept.contains(capability) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // A capability that this kernel does not know.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(errno) => return Err(errno).tried("drop a capability for good"),
        }
    }
    rustix::thread::clear_ambient_capability_set().tried("drop ambient capabilities")?;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).tried("drop capabilities")?;
    rustix::thread::set_no_new_privs(true).tried("set no_new_privs")
}

/// Installs the system call filter.
pub(super) fn system_calls(filter: &Program) -> Result<(), Failure> {
    sys::thread::install_filter(filter.instructions()).map_err(|errno| {
        super::unavailable(
            "The host's kernel cannot filter system calls (CONFIG_SECCOMP_FILTER).",
            errno,
        )
    })
}

/// Where the guest finds its listening socket.
const SOCKET_FD: i32 = 3;

/// Becomes the guest. Returns only on failure.
pub(super) fn execute(
    channel: &Channel,
    guest: &OwnedFd,
    socket: &OwnedFd,
    ids: IdMap,
    max_processes: u64,
) -> Failure {
    let guest = match place_descriptors(channel, guest, socket) {
        Ok(guest) => guest,
        Err(failure) => return failure,
    };
    let argv = [c"holm-guest", c"init"];
    // What the guest has to know before anybody can tell it.
    let Ok(processes) = CString::new(format!("HOLM_GUEST_PROCESSES={max_processes}")) else {
        return Failure::internal("a number with a NUL");
    };
    let all = [processes.as_c_str(), c"HOLM_GUEST_ROOTLESS=1"];
    let env = if ids.is_single() { &all[..] } else { &all[..1] };
    let errno = sys::process::exec_fd(&guest, &argv, env);
    Failure::internal(format!("start the guest: {errno}"))
}

fn place_descriptors(
    channel: &Channel,
    guest: &OwnedFd,
    socket: &OwnedFd,
) -> Result<OwnedFd, Failure> {
    // First everything moves away from the numbers that are about to be taken.
    let above = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 10).tried("move a descriptor");
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .tried("open /dev/null")?;
    let (socket, guest, high) = (above(socket)?, above(guest)?, above(&null)?);
    // It may have the socket's number, and would close that when it is dropped later.
    drop(null);
    let null = high;
    for number in 0..=2 {
        sys::fds::place(&null, number).tried("place a standard descriptor")?;
    }
    sys::fds::place(&socket, SOCKET_FD).tried("place the socket")?;
    let keep = [0, 1, 2, SOCKET_FD, channel.as_raw_fd(), guest.as_raw_fd()];
    sys::fds::close_others(&keep);
    Ok(guest)
}
