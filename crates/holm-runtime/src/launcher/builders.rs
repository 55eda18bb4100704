//! Builders that a dead launcher has left to the keeper.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};

use crate::kept;

/// How long a builder may take over its last system call.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits for the builders of the launcher that died, ours by now. The kernel kills them with it, but
/// only once the call that each is in has returned: a group that is made then would come after the
/// next launcher has looked for what there is.
pub(super) fn wait_for_all() {
    let builders: Vec<OwnedFd> = children().into_iter().filter_map(builder).collect();
    let late = Instant::now() + PATIENCE;
    for builder in builders {
        let mut fds = [PollFd::new(&builder, PollFlags::IN)];
        // For lack of memory, or interrupted: asked again, as long as there is time.
        while let Some(left) = late.checked_duration_since(Instant::now()) {
            let timeout = Timespec::try_from(left).ok();
            if rustix::event::poll(&mut fds, timeout.as_ref()).is_ok() {
                break;
            }
        }
    }
}

/// Our children, as the kernel lists them.
fn children() -> Vec<Pid> {
    let own = rustix::process::getpid();
    let numbers: Vec<i32> = match std::fs::read_to_string(format!("/proc/self/task/{own}/children"))
    {
        Ok(list) => list.split_whitespace().filter_map(|word| word.parse().ok()).collect(),
        // A kernel without that list: then everybody is asked for their parent.
        Err(_) => {
            let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
            let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            numbers.filter(|pid| kept::parent(*pid) == Some(own.as_raw_nonzero().get())).collect()
        }
    };
    numbers.into_iter().filter_map(Pid::from_raw).collect()
}

/// A builder, held. PID 1s are children of ours as well, in namespaces of their own; helpers have
/// other names, and make nothing that could be left.
fn builder(pid: Pid) -> Option<OwnedFd> {
    let held = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/pid")).ok();
    let is_beside_us = namespace(&pid.to_string())? == namespace("self")?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    // The launcher's name is its own as well, at first.
    let is_builder = matches!(name.trim_end(), "holm-builder" | "holm-launcher");
    (is_beside_us && is_builder).then_some(held)
}
