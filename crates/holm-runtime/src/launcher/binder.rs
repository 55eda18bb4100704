//! Making sockets in the network of a sandbox that runs: the gate's, after it was adopted or when the
//! owner has lost those that it had, and those by which the owner connects to ports inside. A child
//! steps into the sandbox's network, because there may be no way back from there, and lives for
//! nothing else.

use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use rustix::thread::ThreadNameSpaceType;
use serde::{Deserialize, Serialize};

use super::Launcher;
use crate::channel::Channel;
use crate::driver::DriverErrorKind;
use crate::failure::{Attempt, Failure};
use crate::message::Event;
use crate::network::{self, Gate};
use crate::{helper, ids, sys};

/// Longest time that it may take. There is nothing in it that could wait for a program inside.
const SECONDS: u32 = 10;

/// What it makes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errand {
    /// The sockets of the egress gate.
    Gate,
    /// Sockets that are to be connected to ports.
    Ports,
}

/// The child, and who waits for it.
#[derive(Debug)]
pub(super) struct Binder {
    errand: Errand,
    pid: i32,
    seq: u64,
    report: Channel,
}

/// What the child says. Descriptors: the sockets.
#[derive(Debug, Serialize, Deserialize)]
struct Outcome(Result<(), Failure>);

impl Binder {
    fn start(errand: Errand, seq: u64, init: &OwnedFd, gate: &Gate) -> Result<Self, Failure> {
        let (report, theirs) = Channel::pair().tried("make a channel")?;
        let keep = [init.as_raw_fd(), theirs.as_raw_fd()];
        let pid = helper::start(c"holm-binder", &keep, || {
            helper::die_with_launcher()?;
            sys::process::end_after(SECONDS);
            let made = enter(init).and_then(|()| match errand {
                Errand::Gate => network::bind(gate),
                Errand::Ports => network::unconnected(),
            });
            let (outcome, sockets) = match made {
                Ok(sockets) => (Ok(()), sockets),
                Err(failure) => (Err(failure), Vec::new()),
            };
            let fds: Vec<_> = sockets.iter().map(|socket| socket.as_fd()).collect();
            theirs.send(&Outcome(outcome), &fds).tried("hand the sockets over")
        });
        Ok(Self { errand, pid: pid.tried("start the binder")?, seq, report })
    }

    /// Ends it, whatever it does.
    pub(super) fn kill(&self) {
        // Not reaped yet, so the number is still its own.
        let _ = Pid::from_raw(self.pid).map(|pid| rustix::process::kill_process(pid, Signal::KILL));
    }

    /// What it has said, once it is gone.
    fn outcome(&self) -> Result<Vec<OwnedFd>, Failure> {
        match self.report.try_receive::<Outcome>() {
            Ok(Some((Outcome(outcome), sockets))) => outcome.map(|()| sockets),
            Ok(None) | Err(Errno::AGAIN) => Err(Failure::internal("the binder died")),
            Err(errno) => Err(errno).tried("hear of the binder"),
        }
    }
}

/// Into the network of the sandbox behind that descriptor, which is the very process that was
/// recorded. An ordinary user has a say there only in the sandbox's user namespace.
fn enter(init: &OwnedFd) -> Result<(), Failure> {
    let network = ThreadNameSpaceType::NETWORK;
    let all = if ids::is_machine_root() { network } else { network | ThreadNameSpaceType::USER };
    rustix::thread::move_into_thread_name_spaces(init.as_fd(), all)
        .tried("enter the sandbox's network")
}

impl Launcher<'_> {
    /// Has sockets made in the network of that sandbox.
    pub(super) fn make_sockets(&mut self, errand: Errand, seq: u64, sandbox: &str) {
        let found = self.find(sandbox).and_then(|id| self.slots.get_mut(&id));
        let started = match found {
            Some(slot) if slot.binders.iter().any(|binder| binder.errand == errand) => {
                Err(Failure::internal("such sockets are being made already"))
            }
            Some(slot) if slot.running && !slot.ending => match (&slot.init, &slot.gate) {
                (Some(init), Some(gate)) => {
                    Binder::start(errand, seq, init, gate).map(|binder| slot.binders.push(binder))
                }
                _ => Err(Failure::internal("a sandbox without a process")),
            },
            _ => Err(Failure::internal(format!("{sandbox} does not run"))),
        };
        if let Err(failure) = started {
            self.tell(&Event::Sockets { seq, failure: Some(for_caller(errand, failure)) });
        }
    }

    /// A child is gone: if it was a binder, what it has made goes to the owner.
    pub(super) fn note_bound(&mut self, pid: i32) {
        let mut all = self.slots.values_mut();
        let found = all.find_map(|slot| {
            let at = slot.binders.iter().position(|binder| binder.pid == pid)?;
            Some(slot.binders.swap_remove(at))
        });
        let Some(binder) = found else { return };
        let seq = binder.seq;
        match binder.outcome() {
            Ok(sockets) => self.tell_with(&Event::Sockets { seq, failure: None }, sockets),
            Err(failure) => {
                let failure = Some(for_caller(binder.errand, failure));
                self.tell(&Event::Sockets { seq, failure });
            }
        }
    }
}

/// Nothing was to be made here, so what says that it could not be made is another text.
fn for_caller(errand: Errand, mut failure: Failure) -> Failure {
    if failure.kind == DriverErrorKind::Internal {
        failure.public = match errand {
            Errand::Gate => {
                "The sandbox's network could not be connected again, so it reaches nothing; the \
                 log has the reason."
            }
            Errand::Ports => {
                "There is no direct way to the sandbox's ports for now; the log has the reason."
            }
        }
        .into();
    }
    failure
}
