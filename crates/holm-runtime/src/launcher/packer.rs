//! Reading what a sandbox that runs has written. A child stops the sandbox's processes, steps below its
//! root and writes an archive to a pipe, whose other end the owner has. However the child ends, the
//! processes go on, unless they stood still before.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal};

use super::Launcher;
use super::slot::Slot;
use crate::cgroup::{Control as _, Group};
use crate::driver::DriverErrorKind;
use crate::failure::{Attempt, Failure};
use crate::message::Event;
use crate::pack::{self, for_caller};
use crate::{helper, sys};

/// Longest time that a sandbox stands still: an owner that does not read may not hold it for good.
const SECONDS: u32 = 900;
/// How long its processes may take to stop.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many may wait for the one that is under way.
const MOST_WAITING: usize = 4;
/// Bytes that the pipe holds, where the host lets us have so many.
const PIPE: usize = 1 << 20;

impl Launcher<'_> {
    /// Begins to read the files of that sandbox.
    pub(super) fn pack(&mut self, seq: u64, sandbox: &str) {
        let found = self.find(sandbox).and_then(|id| self.slots.get_mut(&id));
        let started = match found {
            Some(slot) if slot.packer.is_some() && slot.packs.len() < MOST_WAITING => {
                slot.packs.push_back(seq);
                return;
            }
            Some(slot) if slot.packer.is_some() => Err(Failure::of(
                DriverErrorKind::InUse,
                "The sandbox's files are being read already; try again when that is done.",
            )),
            Some(slot) => start(slot),
            None => Err(Failure::internal(format!("there is no {sandbox}"))),
        };
        self.tell_packing(seq, started);
    }

    /// A child is gone: if it was one that reads files, the processes go on, or whoever is next is served.
    pub(super) fn note_packed(&mut self, pid: i32) {
        let found = self.slots.values_mut().find(|slot| slot.packer == Some(pid));
        let Some(slot) = found else { return };
        slot.packer = None;
        // What was paused before stays paused.
        if !slot.stood_still {
            slot.thaw();
        }
        let mut answers = Vec::new();
        while slot.packer.is_none() {
            let Some(seq) = slot.packs.pop_front() else { break };
            answers.push((seq, start(slot)));
        }
        answers.into_iter().for_each(|(seq, started)| self.tell_packing(seq, started));
    }

    fn tell_packing(&mut self, seq: u64, started: Result<Vec<OwnedFd>, Failure>) {
        match started {
            Ok(fds) => self.tell_with(&Event::Sockets { seq, failure: None }, fds),
            Err(failure) => {
                self.tell(&Event::Sockets { seq, failure: Some(for_caller(failure)) });
            }
        }
    }
}

fn start(slot: &mut Slot) -> Result<Vec<OwnedFd>, Failure> {
    let runs = slot.running && !slot.ending && !slot.init_gone;
    let Some(init) = slot.init.as_ref().filter(|_| runs) else {
        return Err(Failure::internal("it does not run"));
    };
    let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).tried("make a pipe");
    let ((archive, out), (report, says)) = (pipe()?, pipe()?);
    // Less is slower, and nothing else.
    let _ = rustix::pipe::fcntl_setpipe_size(&out, PIPE);
    let keep = [init.as_raw_fd(), out.as_raw_fd(), says.as_raw_fd()];
    slot.stood_still = slot.group.as_ref().is_some_and(|group| group.is_frozen().unwrap_or(false));
    let (group, ids) = (slot.group.as_ref(), slot.ids);
    let pid = helper::start(c"holm-packer", &keep, move || {
        helper::die_with_launcher()?;
        sys::process::end_after(SECONDS);
        match stop(group) {
            Ok(paused) => pack::pack(init, ids, paused, out, says),
            Err(failure) => pack::tell(says, &Err(failure)).tried("report"),
        }
    });
    slot.packer = Some(pid.tried("start the packer")?);
    Ok(vec![archive, report])
}

/// Stops all processes of the group; false where there is none that can be stopped.
fn stop(group: Option<&Group>) -> Result<bool, Failure> {
    let Some(group) = group else { return Ok(false) };
    match group.freeze_whole(PATIENCE) {
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => return Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            let text = "The sandbox's processes do not stop: one of them waits for its disk. Try \
                        again.";
            return Err(Failure::of(DriverErrorKind::InUse, text));
        }
        other => other.tried("stop the sandbox")?,
    }
    Ok(true)
}

impl Slot {
    /// Ends the child that reads its files, whatever it does.
    pub(super) fn stop_packing(&self) {
        // Not reaped yet, so the number is still its own.
        let _ = self
            .packer
            .and_then(Pid::from_raw)
            .map(|pid| rustix::process::kill_process(pid, Signal::KILL));
    }
}
