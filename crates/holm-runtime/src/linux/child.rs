//! The launcher as a child of this process.

use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use rustix::process::{Pid, WaitOptions};

use crate::channel::Channel;
use crate::failure::{Attempt, Failure};
use crate::launcher::Guest;
use crate::options::LinuxOptions;
use crate::sys;
use crate::sys::process::{Forked, Parentage, fork_into};

/// A launcher's process. Dropping it neither ends it nor waits.
#[derive(Debug)]
pub(crate) struct Child(Pid);

impl Child {
    /// Starts a launcher with `control` as its control socket.
    pub(super) fn start(options: &LinuxOptions, control: Channel) -> Result<Self, Failure> {
        match options.forked_with {
            Some(guest) if sys::thread::is_only_one() => Self::fork(guest, control),
            _ => Self::exec(options, control),
        }
    }

    fn exec(options: &LinuxOptions, control: Channel) -> Result<Self, Failure> {
        let mut command = Command::new(&options.program);
        command
            .arg("__launcher")
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .current_dir("/");
        sys::fds::pass_control(&mut command, control.into_fd());
        let child = command.spawn().tried("start the launcher")?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        pid.map(Self).ok_or_else(|| Failure::internal("a child without a number"))
    }

    fn fork(guest: Guest, control: Channel) -> Result<Self, Failure> {
        match fork_into(0, Parentage::Child, None).tried("fork the launcher")? {
            Forked::Child => {
                // What exec would have done.
                let placed = sys::fds::only_control(control.as_raw_fd());
                if placed.is_err() {
                    sys::process::exit_now(2);
                }
                // It is at its place now, and must not be closed there.
                std::mem::forget(control);
                let _ = rustix::thread::set_name(c"holm-launcher");
                crate::launcher::main(guest)
            }
            Forked::Parent(pid, _) => Ok(Self(pid)),
        }
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.0.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits for its end.
    pub(crate) fn wait(&self) {
        let wait = || rustix::process::waitpid(Some(self.0), WaitOptions::empty());
        // Somebody who reaped it before us knows as well that it is gone.
        let _ = rustix::io::retry_on_intr(wait);
    }
}
