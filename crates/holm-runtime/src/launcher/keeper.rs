//! The keeper: the parent of a service's launchers. When one dies it starts the next, which takes
//! over what the dead one had; so the service's own process, which has threads, never forks.

use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, WaitOptions, WaitStatus};

use crate::channel::Channel;
use crate::failure::{Attempt, Failure};
use crate::message::Event;
use crate::options::Settings;
use crate::sys;
use crate::sys::process::{Forked, Parentage, fork_into};

/// Longest pause before a launcher follows one that died at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Until the owner is gone, or a launcher says that it cannot work here.
pub(super) fn keep(owner: &Channel, mut settings: Settings, guest: &'static [u8]) -> ! {
    let _ = rustix::thread::set_name(c"holm-keeper");
    // PID 1s come to us when their builder has left. Elsewhere, as in a container without an init,
    // nobody might take note of their end.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let mut pause = Duration::ZERO;
    loop {
        let began = std::time::Instant::now();
        let ended = start(owner, &settings, guest).and_then(wait_for);
        match ended {
            // The next one is not to fall into the same hole.
            Ok(status) if status.signaled() => settings.fault = None,
            _ => sys::process::exit_now(i32::from(ended.is_err())),
        }
        if began.elapsed() > LONGEST_PAUSE {
            pause = Duration::ZERO;
        }
        if is_gone(owner, pause) {
            sys::process::exit_now(0);
        }
        pause = (pause * 2).clamp(Duration::from_millis(10), LONGEST_PAUSE);
    }
}

fn start(owner: &Channel, settings: &Settings, guest: &'static [u8]) -> Result<Pid, Failure> {
    let (ours, control) = Channel::pair().tried("make the control socket")?;
    match fork_into(0, Parentage::Child, None).tried("fork the launcher")? {
        Forked::Child => {
            use std::os::fd::AsRawFd as _;
            sys::fds::close_others(&[0, 1, 2, control.as_raw_fd()]);
            let _ = rustix::thread::set_name(c"holm-launcher");
            super::serve(&control, settings.clone(), guest)
        }
        Forked::Parent(pid, _) => {
            let event = Event::Launcher { pid: pid.as_raw_nonzero().get().unsigned_abs() };
            // An owner that is gone closes the socket with the message in it.
            let _ = owner.send(&event, &[ours.as_fd()]);
            Ok(pid)
        }
    }
}

/// Waits for the launcher's end, and takes note of others on the way.
fn wait_for(launcher: Pid) -> Result<WaitStatus, Failure> {
    loop {
        let ended = rustix::io::retry_on_intr(|| rustix::process::wait(WaitOptions::empty()));
        if let Some((pid, status)) = ended.tried("wait for the launcher")?
            && pid == launcher
        {
            return Ok(status);
        }
    }
}

/// True when the owner is gone, after waiting for that for `pause`.
fn is_gone(owner: &Channel, pause: Duration) -> bool {
    let mut ready = [PollFd::new(owner, PollFlags::IN)];
    let pause = Timespec::try_from(pause).ok();
    rustix::event::poll(&mut ready, pause.as_ref()).is_ok_and(|count| count > 0)
}
