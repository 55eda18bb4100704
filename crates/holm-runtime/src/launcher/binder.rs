//! Binding the gate's sockets again in a sandbox that runs: after it was adopted, or when the owner
//! has lost those that it had. A child steps into the sandbox's network, because there may be no way
//! back from there, and lives for nothing else.

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

/// The child, and who waits for it.
#[derive(Debug)]
pub(super) struct Binder {
    pid: i32,
    seq: u64,
    report: Channel,
}

/// What the child says. Descriptors: the sockets.
#[derive(Debug, Serialize, Deserialize)]
struct Outcome(Result<(), Failure>);

impl Binder {
    fn start(seq: u64, init: &OwnedFd, gate: &Gate) -> Result<Self, Failure> {
        let (report, theirs) = Channel::pair().tried("make a channel")?;
        let keep = [init.as_raw_fd(), theirs.as_raw_fd()];
        let pid = helper::start(c"holm-binder", &keep, || {
            helper::die_with_launcher()?;
            sys::process::end_after(SECONDS);
            let bound = enter(init).and_then(|()| network::bind(gate));
            let (outcome, sockets) = match bound {
                Ok(sockets) => (Ok(()), sockets),
                Err(failure) => (Err(failure), Vec::new()),
            };
            let fds: Vec<_> = sockets.iter().map(|socket| socket.as_fd()).collect();
            theirs.send(&Outcome(outcome), &fds).tried("hand the sockets over")
        });
        Ok(Self { pid: pid.tried("start the binder")?, seq, report })
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
    /// Has the sockets of that sandbox bound again.
    pub(super) fn bind_gate(&mut self, seq: u64, sandbox: &str) {
        let found = self.find(sandbox).and_then(|id| self.slots.get_mut(&id));
        let started = match found {
            Some(slot) if slot.binder.is_some() => {
                Err(Failure::internal("its sockets are being bound already"))
            }
            Some(slot) if slot.running && !slot.ending => match (&slot.init, &slot.gate) {
                (Some(init), Some(gate)) => {
                    Binder::start(seq, init, gate).map(|binder| slot.binder = Some(binder))
                }
                _ => Err(Failure::internal("a sandbox without a process")),
            },
            _ => Err(Failure::internal(format!("{sandbox} does not run"))),
        };
        if let Err(failure) = started {
            self.tell(&Event::Gate { seq, failure: Some(for_caller(failure)) });
        }
    }

    /// A child is gone: if it was a binder, what it has bound goes to the owner.
    pub(super) fn note_bound(&mut self, pid: i32) {
        let of = |binder: &mut Binder| binder.pid == pid;
        let Some(binder) = self.slots.values_mut().find_map(|slot| slot.binder.take_if(of)) else {
            return;
        };
        match binder.outcome() {
            Ok(sockets) => {
                self.tell_with(&Event::Gate { seq: binder.seq, failure: None }, sockets);
            }
            Err(failure) => {
                let failure = Some(for_caller(failure));
                self.tell(&Event::Gate { seq: binder.seq, failure });
            }
        }
    }
}

/// Nothing was to be made here, so what says that it could not be made is another text.
fn for_caller(mut failure: Failure) -> Failure {
    if failure.kind == DriverErrorKind::Internal {
        failure.public = "The sandbox's network could not be connected again, so it reaches \
                          nothing; the log has the reason."
            .into();
    }
    failure
}
