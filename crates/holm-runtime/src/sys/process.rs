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
    let forked = checked(unsafe {
        libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>())
    });
    let pid = match forked {
        // Filters of containers hide clone3, because they cannot look into its arguments. Without
        // a cgroup the older call does the same, and says which namespace is refused.
        Err(Errno::NOSYS) if cgroup.is_none() => {
            // SAFETY: as above; CLONE_PIDFD stores the descriptor where the third argument points.
            checked(unsafe {
                libc::syscall(
                    libc::SYS_clone,
                    args.flags | args.exit_signal,
                    0_usize,
                    &raw mut pidfd,
                    0_usize,
                    0_usize,
                )
            })?
        }
        other => other?,
    };
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

/// True when the process behind the descriptor is gone.
pub fn is_gone(process: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut ready = [PollFd::new(process, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut ready, Some(&now)).is_ok() && !ready[0].revents().is_empty()
}

/// Has the kernel end this process after that many seconds, whatever it does by then.
pub fn end_after(seconds: u32) {
    // SAFETY: alarm has no preconditions, and no handler is installed for its signal.
    unsafe { libc::alarm(seconds) };
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

#[cfg(test)]
mod tests {
    #![allow(clippy::print_stdout, reason = "skips are reported on standard output")]

    use std::path::{Path, PathBuf};

    use rustix::fs::{Mode, OFlags};
    use rustix::process::{WaitOptions, geteuid, waitpid};

    use super::*;
    use crate::cgroup::{Control as _, Tree, V2Tree};

    /// Where the unified hierarchy is mounted, on hosts of either version.
    fn unified() -> Option<PathBuf> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
        line.split(' ').nth(4).map(PathBuf::from)
    }

    fn open(dir: &Path) -> OwnedFd {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(dir, flags, Mode::empty()).unwrap()
    }

    /// On the kernel's own tree, with or without controllers, and as the builder does it.
    #[test]
    fn a_child_starts_in_the_cgroup() {
        let Some(root) = unified() else {
            println!("SKIP cgroup: no unified hierarchy is mounted");
            return;
        };
        if !geteuid().is_root() {
            println!("SKIP cgroup: only root may make groups there");
            return;
        }
        let parent = root.join(format!("holm-unit-{}", std::process::id()));
        let tree = Tree::V2(V2Tree::without_controllers(parent.clone()));
        tree.prepare().unwrap();
        let group = tree.group("one");
        group.make().unwrap();
        let dir = open(group.dirs()[0]);
        let forked = fork_into(0, Parentage::Child, Some(dir.as_raw_fd()));
        let seen = match forked {
            // Other threads of this program hold locks that the child has a copy of: it may do
            // nothing but this.
            Ok(Forked::Child) => loop {
                // SAFETY: pause takes no arguments and touches no memory of ours.
                unsafe { libc::pause() };
            },
            Ok(Forked::Parent(pid, _pidfd)) => {
                let place = std::fs::read_to_string(format!("/proc/{pid}/cgroup"));
                let members = std::fs::read_to_string(group.dirs()[0].join("cgroup.procs"));
                let killed = group.kill();
                let reaped = waitpid(Some(pid), WaitOptions::empty());
                Ok((pid, place, members, killed, reaped))
            }
            Err(error) => Err(error),
        };
        // Its last process is reaped, so it can go at once.
        let removed = group.remove();
        std::fs::remove_dir(&parent).unwrap();
        let (pid, place, members, killed, reaped) = seen.unwrap();
        let place = place.unwrap();
        let name = parent.file_name().unwrap().to_str().unwrap();
        let line = format!("0::/{name}/one");
        assert!(place.lines().any(|found| found == line), "{line} is not in {place}");
        assert_eq!(members.unwrap(), format!("{pid}\n"), "the only member");
        killed.unwrap();
        let (_, status) = reaped.unwrap().expect("it is our child");
        assert_eq!(status.terminating_signal(), Some(libc::SIGKILL));
        assert!(removed.unwrap(), "the group is empty");
    }

    #[test]
    fn what_is_no_cgroup_is_refused() {
        let dir = open(Path::new("/"));
        let forked = fork_into(0, Parentage::Child, Some(dir.as_raw_fd()));
        match forked {
            Ok(Forked::Child) => exit_now(0),
            Ok(Forked::Parent(..)) => panic!("it was forked into no group"),
            Err(error) => assert_eq!(error, Errno::BADF),
        }
        assert_eq!(fork_into(0, Parentage::Child, Some(-1)).err(), Some(Errno::BADF));
    }
}
