//! The undo of every step: how a sandbox ends, whether its making failed, a process of ours was
//! killed in the middle, or somebody asked for it. Each undo works from what the slot holds and
//! from names, and is fine with a step that never ran.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Launcher;
use super::binder::Binder;
use super::slot::Slot;
use crate::cgroup::Control as _;
use crate::failure::{Attempt, Failure};
use crate::message::Event;
use crate::step::{Step, When, inject};

/// What became of an undo.
enum Undone {
    /// Nothing of the step is left.
    Yes,
    /// An event will tell when to go on.
    Wait,
    /// To be tried again in a moment.
    Retry,
}

/// After this the caller is told that something could not be removed; it is tried on and on.
const PATIENCE: Duration = Duration::from_secs(10);

impl Launcher<'_> {
    /// Moves everything on that can move.
    pub(super) fn advance(&mut self) {
        let ending: Vec<u64> =
            self.slots.iter().filter(|(_, slot)| slot.ending).map(|(id, _)| *id).collect();
        for id in ending {
            self.advance_undo(id);
        }
        if !self.closing {
            self.refill();
        }
        if self.closing && self.slots.is_empty() {
            for seq in std::mem::take(&mut self.shutdown) {
                self.host.finish_disks();
                self.tell(&Event::Done { seq, failure: None });
            }
        }
    }

    fn advance_undo(&mut self, id: u64) {
        loop {
            let Some(slot) = self.slots.get_mut(&id) else { return };
            slot.retry = false;
            let Some(step) = slot.next_undo() else { break };
            match undo_one(step, slot, &mut self.host) {
                Ok(Undone::Yes) => {
                    slot.undone += 1;
                    if step == Step::Clone {
                        self.note_processes_gone(id);
                    }
                }
                Ok(Undone::Wait) => return,
                Ok(Undone::Retry) => {
                    slot.retry = true;
                    self.complain_if_stuck(id, step, "still in use");
                    return;
                }
                Err(failure) => {
                    slot.retry = true;
                    self.complain_if_stuck(id, step, &failure.internal);
                    return;
                }
            }
        }
        self.finish(id);
    }

    /// No process of a sandbox is left. Whoever has only this one waits for no more than that.
    fn note_processes_gone(&mut self, id: u64) {
        if !self.host.settings.refill {
            self.answer_waiters(id);
        }
    }

    fn answer_waiters(&mut self, id: u64) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        for seq in std::mem::take(&mut slot.waiters) {
            self.tell(&Event::Done { seq, failure: None });
        }
    }

    /// Everything of a sandbox is gone: say so.
    fn finish(&mut self, id: u64) {
        let Some(mut slot) = self.slots.remove(&id) else { return };
        if let Some(former) = slot.former {
            self.leave_former(former);
        }
        if let Some(range) = slot.range.take() {
            self.host.ranges.give_back(range);
        }
        self.host.release_cpus(&slot.cpus);
        let failure = slot.failure.take();
        match slot.take_order() {
            Some(order) => {
                let failure = failure.unwrap_or_else(|| Failure::internal("create was given up"));
                self.tell(&Event::Failed { seq: order.seq, failure });
            }
            // A blank that cannot be made would be tried for ever.
            None if failure.is_some() && slot.sandbox().is_none() => self.blanks_fail = true,
            None => {}
        }
        for seq in slot.waiters {
            self.tell(&Event::Done { seq, failure: None });
        }
    }

    fn complain_if_stuck(&mut self, id: u64, step: Step, why: &str) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let since = *slot.stuck_since.get_or_insert_with(Instant::now);
        if since.elapsed() < PATIENCE {
            return;
        }
        slot.stuck_since = None;
        let failure = Failure::internal(format!("{}: {why}", slot.name)).in_step(step);
        for seq in std::mem::take(&mut slot.waiters) {
            self.tell(&Event::Done { seq, failure: Some(failure.clone()) });
        }
    }
}

/// An undo that is not finished is begun again, and so are its faults.
fn undo_one(step: Step, slot: &mut Slot, host: &mut super::Host) -> Result<Undone, Failure> {
    let fault = host.settings.fault;
    inject(fault, step, When::BeforeUndo)?;
    let undone = undo(step, slot, host)?;
    if matches!(undone, Undone::Yes) {
        inject(fault, step, When::AfterUndo)?;
    }
    Ok(undone)
}

fn undo(step: Step, slot: &mut Slot, host: &mut super::Host) -> Result<Undone, Failure> {
    match step {
        // Inside PID 1, in its namespaces, or held by its descriptors: gone with it.
        Step::Exec
        | Step::Seccomp
        | Step::Privileges
        | Step::Mounts
        | Step::Identity
        | Step::Limits
        | Step::Pivot
        | Step::Loopback
        | Step::Kernel
        | Step::Overlay
        | Step::Staging
        | Step::Join
        | Step::Layers
        | Step::IdMap
        // In the record, which goes last.
        | Step::Enter
        | Step::Owner => Ok(Undone::Yes),
        Step::Gate => Ok(undo_gate(slot)),
        Step::Name => Ok(undo_name(slot)),
        Step::Socket => remove_file(&slot.socket, "remove the socket"),
        Step::Record => match &slot.record {
            Some(record) => remove_file(record, "remove the record"),
            None => Ok(Undone::Yes),
        },
        Step::Clone => Ok(undo_clone(slot)),
        Step::Disk => {
            // Nobody inside can reach either any more; to take them down takes a moment.
            host.give_up(slot.disk.take().into_iter().chain(slot.mounts.take()));
            Ok(Undone::Yes)
        }
        // The file never had a name, and its loop device goes with the mount.
        Step::Image => Ok(Undone::Yes),
        Step::Cgroup => {
            let Some(group) = &slot.group else { return Ok(Undone::Yes) };
            if group.remove().tried("remove the cgroup")? {
                return Ok(Undone::Yes);
            }
            // Normally only the kernel is not done yet with a process that is gone.
            group.kill().tried("kill what is left in the cgroup")?;
            Ok(Undone::Retry)
        }
        // Shared by all sandboxes.
        Step::Template => Ok(Undone::Yes),
    }
}

fn remove_file(path: &Path, what: &str) -> Result<Undone, Failure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).tried(what),
        _ => Ok(Undone::Yes),
    }
}

/// Kills the helper that sets the host name, and waits for it: it may hold the sandbox's
/// namespaces.
fn undo_name(slot: &Slot) -> Undone {
    use rustix::process::{Pid, Signal};
    let Some(pid) = slot.namer.and_then(Pid::from_raw) else { return Undone::Yes };
    // Not reaped yet, so the number is still its own.
    let _ = rustix::process::kill_process(pid, Signal::KILL);
    Undone::Wait
}

/// From here on nobody inside reaches the gate by us. Helpers that make sockets inside, or read files,
/// may hold the sandbox's namespaces, so they are killed and waited for; processes that stood still for
/// the latter go on, because some could not be killed before.
fn undo_gate(slot: &mut Slot) -> Undone {
    slot.gate_sockets.clear();
    slot.binders.iter().for_each(Binder::kill);
    slot.stop_packing();
    if slot.binders.is_empty() && slot.packer.is_none() { Undone::Yes } else { Undone::Wait }
}

/// Kills builder and PID 1, and waits for both. A PID 1 whose builder died before it could report
/// it is not known by number: it ends when its channel does, and then the channel's other end is
/// closed.
fn undo_clone(slot: &mut Slot) -> Undone {
    use rustix::process::{Pid, Signal};
    if let Some(pid) = slot.builder.and_then(Pid::from_raw) {
        // Not reaped yet, so the number is still its own.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
    slot.look_at_init();
    if let Some(init) = &slot.init
        && !slot.init_gone
    {
        let _ = rustix::process::pidfd_send_signal(init, Signal::KILL);
        // One that stands still dies when it goes on (cgroup v1), before it does anything.
        slot.thaw();
    }
    if let Some(channel) = &slot.channel {
        channel.close_sending();
    }
    let unknown_init = slot.init_pid.is_none() && slot.channel.is_some();
    let known_init = slot.init_pid.is_some() && !slot.init_gone;
    if slot.builder.is_some() || unknown_init || known_init {
        return Undone::Wait;
    }
    slot.report = None;
    slot.channel = None;
    slot.init = None;
    Undone::Yes
}
