//! Children of the launcher for work beside its own. Each is a fork that runs one function and ends.

use std::ffi::CStr;
use std::os::fd::RawFd;

use rustix::io::Errno;

use crate::failure::{Attempt as _, Failure};
use crate::sys;
use crate::sys::process::{Forked, Parentage, fork_into};

/// In a child of the launcher: has the kernel end it with the launcher. A change of user takes that
/// back.
pub(crate) fn die_with_launcher() -> Result<(), Failure> {
    let death = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(death).tried("ask to die with the launcher")
}

/// Starts one under that name, with no descriptors but `keep`. Gives its process id; it exits with
/// 0 when the work succeeds and with 1 when it fails.
///
/// # Errors
/// When it cannot be forked.
pub(crate) fn start(
    name: &CStr,
    keep: &[RawFd],
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<i32, Errno> {
    match fork_into(0, Parentage::Child, None)? {
        Forked::Child => {
            sys::signals::reset();
            sys::fds::silence();
            let kept: Vec<RawFd> = [0, 1, 2].iter().chain(keep).copied().collect();
            sys::fds::close_others(&kept);
            // Names are for whoever looks at the process list.
            let _ = rustix::thread::set_name(name);
            sys::process::exit_now(i32::from(work().is_err()))
        }
        Forked::Parent(pid, _) => Ok(pid.as_raw_nonzero().get()),
    }
}
