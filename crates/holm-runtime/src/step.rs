//! The steps of which a sandbox is made. Each has an undo (`launcher::undo`), which is also what
//! ends a running sandbox and what cleans up after a crash: one way out for all.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// A step, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
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
    /// PID 1: loopback.
    Loopback,
    /// PID 1: the new root, the old one gone.
    Pivot,
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
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Self; 21] = [
        Self::Template,
        Self::Cgroup,
        Self::Image,
        Self::Disk,
        Self::Clone,
        Self::Join,
        Self::IdMap,
        Self::Layers,
        Self::Staging,
        Self::Overlay,
        Self::Kernel,
        Self::Loopback,
        Self::Pivot,
        Self::Limits,
        Self::Socket,
        Self::Identity,
        Self::Mounts,
        Self::Privileges,
        Self::Seccomp,
        Self::Exec,
        Self::Name,
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

/// Before or after a step's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum When {
    Before,
    After,
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

fn inject(fault: Option<Fault>, step: Step, when: When) -> Result<(), Failure> {
    let Some(fault) = fault.filter(|fault| fault.step == step && fault.when == when) else {
        return Ok(());
    };
    use rustix::process::{Signal, getpid, getppid, kill_process};
    match (fault.mode, getppid()) {
        (FaultMode::Error, _) => {
            return Err(Failure::internal("fault asked for by a test").in_step(step));
        }
        (FaultMode::KillLauncher, Some(launcher)) if !is_launcher() => {
            let _ = kill_process(launcher, Signal::KILL);
        }
        // PID 1 of a namespace sees no parent and cannot kill itself by signal: it leaves.
        (FaultMode::KillSelf, _) | (FaultMode::KillLauncher, _) => {
            let _ = kill_process(getpid(), Signal::KILL);
            crate::sys::process::exit_now(86);
        }
    }
    Ok(())
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
