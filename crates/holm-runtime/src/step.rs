//! The steps of which a sandbox is made. Each has an undo (`launcher::undo`), which is also what
//! ends a running sandbox and what cleans up after a crash: one way out for all.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::failure::Failure;
use crate::message::Answer;

/// A step, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Launcher: what the next one must know, on disk. The last thing that is removed.
    Record,
    /// Builder: the template's tree and the list of hidden files are there and fresh.
    Template,
    /// Builder: the sandbox's cgroups.
    Cgroup,
    /// Builder: an image of the right size behind a loop device.
    Image,
    /// Builder: its file system, mounted nowhere.
    Disk,
    /// Builder: PID 1 in its namespaces.
    Clone,
    /// PID 1: in its cgroups.
    Join,
    /// PID 1: loopback. This and the next while the builder goes on with what follows.
    Loopback,
    /// PID 1: what leads to the egress gate, and its sockets, handed to the launcher.
    Gate,
    /// Builder: the user namespace's id map.
    IdMap,
    /// Builder: the read-only layers, their ids mapped; handed to PID 1.
    Layers,
    /// PID 1: a private place to build the root in.
    Staging,
    /// PID 1: overlays of the root and of the host's trees.
    Overlay,
    /// PID 1: /proc and /dev.
    Kernel,
    /// PID 1: the new root, the old one gone.
    Pivot,
    /// Launcher: PID 1 is named in the record, before it can become the guest.
    Enter,
    /// Launcher: the limits that were asked for.
    Limits,
    /// Launcher: the guest's socket.
    Socket,
    /// PID 1: host name and the files that repeat it.
    Identity,
    /// PID 1: host directories shown read-only.
    Mounts,
    /// PID 1: capabilities, limits, keyring, cgroup namespace.
    Privileges,
    /// PID 1: the system call filter.
    Seccomp,
    /// PID 1: the guest takes over.
    Exec,
    /// A helper of the launcher: the host name of a sandbox that was a blank.
    Name,
    /// Launcher: the record says whose it is now, where it may outlive its owner.
    Owner,
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Self; 25] = [
        Self::Record,
        Self::Template,
        Self::Cgroup,
        Self::Image,
        Self::Disk,
        Self::Clone,
        Self::Join,
        Self::Loopback,
        Self::Gate,
        Self::IdMap,
        Self::Layers,
        Self::Staging,
        Self::Overlay,
        Self::Kernel,
        Self::Pivot,
        Self::Enter,
        Self::Limits,
        Self::Socket,
        Self::Identity,
        Self::Mounts,
        Self::Privileges,
        Self::Seccomp,
        Self::Exec,
        Self::Name,
        Self::Owner,
    ];
}

/// A fault that a test asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Where.
    pub step: Step,
    /// Before the step's work or after it.
    pub when: When,
    /// What happens.
    pub mode: FaultMode,
}

/// Before or after a step's work, or its undo's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum When {
    Before,
    After,
    BeforeUndo,
    AfterUndo,
}

/// What an injected fault does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultMode {
    /// The step answers an error.
    Error,
    /// The process that runs the step is killed.
    KillSelf,
    /// The launcher is killed.
    KillLauncher,
    /// The driver's owner is killed, the process of that number.
    KillOwner(i32),
    /// Both.
    KillBoth(i32),
}

/// Runs one step and, in tests, lets it fail.
pub fn perform<T>(
    fault: Option<Fault>,
    step: Step,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    inject(fault, step, When::Before)?;
    let value = work().map_err(|failure| failure.in_step(step))?;
    inject(fault, step, When::After)?;
    Ok(value)
}

/// Lets a test's fault happen if this is its moment.
pub(crate) fn inject(fault: Option<Fault>, step: Step, when: When) -> Result<(), Failure> {
    let Some(fault) = fault.filter(|fault| fault.step == step && fault.when == when) else {
        return Ok(());
    };
    if fault.mode == FaultMode::Error {
        return Err(Failure::internal("fault asked for by a test").in_step(step));
    }
    // PID 1 of a namespace can kill nobody outside of it: it has it done and stays where it is.
    let done = LINE.with_borrow(|line| {
        let line = line.as_ref().filter(|_| fault.mode != FaultMode::KillSelf)?;
        line.send(&Answer::Fault(fault.mode), &[]).ok()?;
        if !matches!(fault.mode, FaultMode::KillOwner(_)) {
            line.wait_for_end();
        }
        Some(())
    });
    if done.is_none() {
        happen(fault.mode);
    }
    Ok(())
}

/// Kills whom a fault wants killed; for those of our processes that see the host's.
pub(crate) fn happen(mode: FaultMode) {
    use rustix::process::{Pid, Signal, getpid, getppid, kill_process};
    if let FaultMode::KillOwner(owner) | FaultMode::KillBoth(owner) = mode
        && let Some(owner) = Pid::from_raw(owner)
    {
        let _ = kill_process(owner, Signal::KILL);
    }
    if matches!(mode, FaultMode::KillOwner(_)) {
        return;
    }
    if let FaultMode::KillLauncher | FaultMode::KillBoth(_) = mode
        && let Some(launcher) = getppid()
        && !is_launcher()
    {
        let _ = kill_process(launcher, Signal::KILL);
    }
    let _ = kill_process(getpid(), Signal::KILL);
    // PID 1 of a namespace cannot kill itself by signal: it leaves.
    crate::sys::process::exit_now(86);
}

thread_local! {
    static LINE: RefCell<Option<Channel>> = const { RefCell::new(None) };
}

/// For PID 1: how it reaches the launcher when a test wants that killed.
pub(crate) fn call_through(channel: &Channel) {
    let copy = rustix::io::fcntl_dupfd_cloexec(channel, 3).map(Channel::from_fd);
    LINE.set(copy.ok());
}

/// Builders are the launcher's children and share its program's arguments; only the launcher holds
/// the control socket.
fn is_launcher() -> bool {
    LAUNCHER.with(|launcher| launcher.get() == Some(rustix::process::getpid()))
}

thread_local! {
    static LAUNCHER: std::cell::Cell<Option<rustix::process::Pid>> = const { std::cell::Cell::new(None) };
}

/// Remembers that this process is the launcher.
pub(crate) fn this_is_the_launcher() {
    LAUNCHER.with(|launcher| launcher.set(Some(rustix::process::getpid())));
}
