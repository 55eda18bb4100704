//! The keeper: the parent of launchers that may be outlived. When one dies it starts the next, which
//! takes over what the dead one had; so the owner's own process, which has threads, never forks.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, WaitOptions, WaitStatus};

use super::Guest;
use crate::channel::Channel;
use crate::failure::{Attempt, Failure};
use crate::instance::{self, Instance};
use crate::message::Event;
use crate::options::Settings;
use crate::sys;
use crate::sys::process::{Forked, Parentage, fork_into};

/// Longest pause before a launcher follows one that died at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How many launchers in a row may die over ending what an owner that is gone has left. The rest
/// is the next start's.
const LAST_TRIES: usize = 10;

struct Keeper<'a> {
    owner: &'a Channel,
    settings: Settings,
    guest: Guest,
    /// Where sandboxes end with the owner: all launchers have the same, and nobody takes it for
    /// dead between two of them.
    instance: Option<Instance>,
    exits: OwnedFd,
}

/// Until a launcher has ended in order: the owner is gone, or it cannot work here.
pub(super) fn keep(owner: &Channel, settings: Settings, guest: Guest) -> ! {
    let _ = rustix::thread::set_name(c"holm-keeper");
    // PID 1s come to us when their builder has left. Elsewhere, as in a container without an init,
    // nobody might take note of their end.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let kept = Keeper::new(owner, settings, guest).and_then(Keeper::keep);
    if let Err(failure) = &kept {
        // An owner that is gone needs no reason.
        let _ = owner.send(&Event::Unusable(failure.clone()), &[]);
    }
    sys::process::exit_now(i32::from(kept.is_err()))
}

impl<'a> Keeper<'a> {
    fn new(owner: &'a Channel, settings: Settings, guest: Guest) -> Result<Self, Failure> {
        let instance = if settings.lifetime.outlives_owner() {
            None
        } else {
            instance::make_dirs(&settings)?;
            Some(Instance::new(&settings)?)
        };
        let exits = sys::signals::child_exits().tried("watch for exits")?;
        Ok(Self { owner, settings, guest, instance, exits })
    }

    fn keep(mut self) -> Result<(), Failure> {
        let mut pause = Duration::ZERO;
        let mut last_tries = LAST_TRIES;
        loop {
            let began = Instant::now();
            let launcher = self.start()?;
            if !self.wait_for(launcher)?.signaled() {
                return Ok(());
            }
            super::builders::wait_for_all();
            // The next one is not to fall into the same hole.
            self.settings.fault = None;
            if began.elapsed() > LONGEST_PAUSE {
                pause = Duration::ZERO;
            }
            if self.owner.is_closed_within(pause) {
                // What outlives the owner is for the next one; the rest a last launcher ends.
                if self.settings.lifetime.outlives_owner() || last_tries == 0 {
                    return Ok(());
                }
                last_tries -= 1;
            }
            pause = (pause * 2).clamp(Duration::from_millis(10), LONGEST_PAUSE);
        }
    }

    fn start(&self) -> Result<Pid, Failure> {
        let (ours, control) = Channel::pair().tried("make the control socket")?;
        match fork_into(0, Parentage::Child, None).tried("fork the launcher")? {
            Forked::Child => {
                sys::fds::close_others(&[0, 1, 2, control.as_raw_fd()]);
                let _ = rustix::thread::set_name(c"holm-launcher");
                let instance = self.instance.as_ref().map(|instance| instance.id.as_str());
                super::serve(&control, self.settings.clone(), self.guest, instance)
            }
            Forked::Parent(pid, _) => {
                let event = Event::Launcher { pid: pid.as_raw_nonzero().get().unsigned_abs() };
                // An owner that is gone closes the socket with the message in it.
                let _ = self.owner.send(&event, &[ours.as_fd()]);
                Ok(pid)
            }
        }
    }

    /// Waits for the launcher's end, and takes note of others on the way.
    fn wait_for(&self, launcher: Pid) -> Result<WaitStatus, Failure> {
        let mut owned = true;
        loop {
            let mut fds = vec![PollFd::new(&self.exits, PollFlags::IN)];
            if owned {
                fds.push(PollFd::new(self.owner, PollFlags::empty()));
            }
            // Interrupted, or no memory at this moment: then it is tried again.
            let _ = rustix::event::poll(&mut fds, None);
            if fds.get(1).is_some_and(|owner| owner.revents().contains(PollFlags::HUP)) {
                owned = false;
                // Whoever reads what the owner wrote there must not wait for us.
                sys::fds::silence();
            }
            sys::signals::quiet(&self.exits);
            loop {
                match rustix::process::wait(WaitOptions::NOHANG).tried("wait for the launcher")? {
                    Some((pid, status)) if pid == launcher => return Ok(status),
                    Some(_) => {}
                    None => break,
                }
            }
        }
    }
}
