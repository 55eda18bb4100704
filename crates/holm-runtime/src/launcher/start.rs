//! Making sandboxes: the way from an order, or from the wish for a blank, to a running guest.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use super::Launcher;
use super::slot::{Order, Slot};
use crate::builder::{self, Plan};
use crate::cgroup::{Control as _, Limits};
use crate::channel::Channel;
use crate::driver::{MountRo, Root, SandboxSpec};
use crate::failure::{Attempt, Failure};
use crate::message::{Answer, Event, Identity, Report};
use crate::step::{Step, perform};
use crate::sys::process::{Forked, Parentage, fork_into};

/// After a request, how long nothing must be asked before a blank is made.
const QUIET: Duration = Duration::from_millis(30);
/// Sandboxes' names are this and a number.
pub(super) const NAME: &str = "sandbox-";
/// Host name of a blank.
const BLANK_NAME: &str = "holm";

impl Launcher<'_> {
    /// A blank that fits: one that is ready, else one that is on its way, which is still nearer to
    /// the goal than a new one.
    pub(super) fn best_blank(&self, spec: &SandboxSpec) -> Option<u64> {
        // Their roots are made: that of the host template, with nothing else in it.
        if !spec.mounts.is_empty() || spec.root != Root::Host {
            return None;
        }
        let shape = spec.shape();
        let fits = |slot: &Slot| slot.is_blank() && slot.shape == shape;
        let blanks = self.slots.iter().filter(|(_, slot)| fits(slot));
        blanks.max_by_key(|(_, slot)| slot.is_ready_blank()).map(|(id, _)| *id)
    }

    /// Makes blanks until there are enough. One at a time, and only when no create is under way,
    /// so that none has to share a processor with it. Unless there is none left it also waits for
    /// a quiet moment, because whoever has just got a sandbox is about to use it.
    pub(super) fn refill(&mut self) {
        if self.until_refill().is_some_and(|left| left.is_zero()) {
            self.build(None);
        }
    }

    /// How long until another blank may be made. None when none is wanted, or an event comes first.
    pub(super) fn until_refill(&self) -> Option<Duration> {
        let blanks = self.slots.values().filter(|slot| slot.is_blank()).count();
        let busy = self.slots.values().any(|slot| !slot.ending && !slot.running);
        let enough = blanks >= self.host.settings.blanks;
        let was_one = self.next_slot > 0 && !self.host.settings.refill;
        if enough || was_one || busy || self.blanks_fail || self.closing {
            return None;
        }
        let wait = if blanks == 0 { Duration::ZERO } else { QUIET };
        Some(wait.saturating_sub(self.last_request.elapsed()))
    }

    /// Starts a builder, for an order or for a blank.
    pub(super) fn build(&mut self, order: Option<Order>) {
        let seq = order.as_ref().map(|order| order.seq);
        if let Err(failure) = self.try_build(order) {
            match seq {
                Some(seq) => self.tell(&Event::Failed { seq, failure }),
                None => self.blanks_fail = true,
            }
        }
    }

    fn try_build(&mut self, order: Option<Order>) -> Result<(), Failure> {
        let ids = self.host.take_ids()?;
        let number = self.next_slot;
        self.next_slot += 1;
        let spec = order.as_ref().map(|order| &order.spec);
        let name = format!("{NAME}{number}");
        let shape = spec.map_or(self.host.settings.blank, SandboxSpec::shape);
        let mounts = spec.map(|spec| spec.mounts.clone()).unwrap_or_default();
        let root = spec.map(|spec| spec.root.clone()).unwrap_or_default();
        let group = self.host.cgroups.as_ref().map(|tree| tree.group(&name));
        let settings = &self.host.settings;
        let instance = &self.host.instance;
        let socket = instance.runtime_dir.join(format!("{name}.sock"));
        let record = settings.lifetime.outlives_launcher().then(|| instance.kept_dir.join(&name));
        let mut slot = Slot::new(name, group, shape, ids, socket, order);
        slot.record = record;
        let begun = perform(settings.fault, Step::Record, || slot.keep(false))
            .and_then(|()| self.fork_builder(&mut slot, root, mounts));
        if let Err(failure) = begun {
            slot.end(Some(failure));
        }
        self.slots.insert(number, slot);
        Ok(())
    }

    fn fork_builder(
        &mut self,
        slot: &mut Slot,
        root: Root,
        mounts: Vec<MountRo>,
    ) -> Result<(), Failure> {
        let (ours, init) = Channel::pair().tried("make a channel")?;
        let (report, builders) = Channel::pair().tried("make a channel")?;
        // Nobody but this builder may wait for it.
        let ahead = self.host.disk_ahead.take_if(|ahead| ahead.fits(slot.shape));
        match fork_into(0, Parentage::Child, None).map_err(builder::no_namespaces)? {
            Forked::Child => builder::main(&Plan {
                settings: &self.host.settings,
                group: slot.group.clone(),
                disk: &self.host.disk,
                disk_ahead: ahead.as_ref(),
                size: slot.shape.into(),
                ids: slot.ids,
                root,
                mounts,
                init,
                launcher: &ours,
                report: builders,
                filter: &self.host.filter,
            }),
            Forked::Parent(pid, _) => {
                slot.builder = Some(pid.as_raw_nonzero().get());
                slot.report = Some(report);
                slot.channel = Some(ours);
                Ok(())
            }
        }
    }

    /// Something from a builder.
    pub(super) fn read_report(&mut self, id: u64) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let Some(report) = &slot.report else { return };
        match report.try_receive::<Report>() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(Some((Report::Cloned { pid, mounts }, fds))) => {
                let mut fds = fds.into_iter();
                slot.init = fds.next();
                slot.mounts = if mounts { fds.next() } else { None };
                slot.disk = fds.next();
                slot.init_pid = Some(pid);
                slot.report = None;
                slot.look_at_init();
                if let Some(init) = &slot.init
                    && let Err(failure) = self.host.watch(init, id)
                {
                    slot.end(Some(failure));
                }
                self.begin(id);
            }
            Ok(Some((Report::Failed(failure), _))) => {
                slot.report = None;
                // Where PID 1 has failed, so does the builder, and PID 1 has the reason.
                let reason = slot.channel.as_ref().and_then(last_words);
                slot.end(reason.or(Some(failure)));
            }
            Ok(None) | Err(_) => {
                slot.report = None;
                slot.end(Some(Failure::internal("the builder died")));
            }
        }
    }

    /// Tells PID 1 to go on to the guest, once it is known by number and has its network. A blank goes on too: what is only found
    /// out later is its host name.
    pub(super) fn begin(&mut self, id: u64) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if slot.ending || slot.told || slot.init_pid.is_none() || slot.gate.is_none() {
            return;
        }
        slot.told = true;
        slot.nameless = slot.order().is_none();
        let cpus = self.host.choose_cpus(slot.shape.vcpus);
        slot.cpus.clone_from(&cpus);
        let outcome = tell_identity(slot, &mut self.host, cpus);
        if let Err(failure) = outcome {
            slot.end(Some(failure));
        }
    }

    /// Something from PID 1.
    pub(super) fn read_init(&mut self, id: u64) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let Some(channel) = &slot.channel else { return };
        match channel.try_receive::<Answer>() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(Some((Answer::Gate(gate), sockets))) => {
                slot.gate = Some(gate);
                slot.gate_sockets = sockets;
                self.begin(id);
            }
            Ok(Some((Answer::Starting, _))) => slot.starting = true,
            Ok(Some((Answer::Failed(failure), _))) => slot.end(Some(failure)),
            Ok(Some((Answer::Fault(mode), _))) => crate::step::happen(mode),
            Ok(None) | Err(_) => {
                slot.channel = None;
                if slot.ending {
                    return;
                }
                if slot.starting {
                    slot.running = true;
                    self.hand_over(id);
                } else {
                    slot.end(Some(Failure::internal("PID 1 died before the guest started")));
                }
            }
        }
    }

    /// Answers the order of a sandbox that runs, after a blank has got its host name.
    pub(super) fn hand_over(&mut self, id: u64) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if !slot.running || slot.ending || slot.namer.is_some() {
            return;
        }
        if slot.nameless && slot.order().is_some() {
            if let Err(failure) = self.host.name(slot) {
                slot.end(Some(failure));
            }
            if slot.nameless {
                return;
            }
        }
        let settings = &self.host.settings;
        // An owner that does not go before its sandboxes knows itself which it has.
        let told = settings.lifetime.outlives_owner();
        let own = || if told { slot.keep(true) } else { Ok(()) };
        if slot.order().is_some()
            && let Err(failure) = perform(settings.fault, Step::Owner, own)
        {
            slot.end(Some(failure));
            return;
        }
        let Some(sandbox) = slot.created() else { return };
        let Some(order) = slot.take_order() else { return };
        let sockets = std::mem::take(&mut slot.gate_sockets);
        let gone = slot.init_gone;
        self.blanks_fail = false;
        self.tell_with(&Event::Created { seq: order.seq, sandbox }, sockets);
        if gone {
            // It died between its last word and now; nobody else will say so.
            self.tell(&Event::Exited { id: order.spec.id, out_of_memory: false });
        }
    }
}

/// Why PID 1 has failed, if it has said so.
fn last_words(channel: &Channel) -> Option<Failure> {
    loop {
        match channel.try_receive::<Answer>() {
            Ok(Some((Answer::Failed(failure), _))) => return Some(failure),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Limits, socket, and the message to PID 1.
fn tell_identity(slot: &Slot, host: &mut super::Host, cpus: Vec<usize>) -> Result<(), Failure> {
    let fault = host.settings.fault;
    let hostname = slot.order().map_or(BLANK_NAME, |order| &order.spec.hostname).to_owned();
    // Before it can become the guest: from then on it does not end by itself when we do.
    perform(fault, Step::Enter, || slot.keep(false))?;
    let shape = slot.shape;
    let limits = Limits {
        memory_bytes: shape.memory_bytes,
        vcpus: shape.vcpus,
        max_processes: shape.max_processes,
    };
    perform(fault, Step::Limits, || match &slot.group {
        Some(group) => group.limit(&limits).tried("set the limits"),
        None => Ok(()),
    })?;
    let socket = perform(fault, Step::Socket, || listen(&slot.socket))?;
    let max_processes = shape.max_processes;
    let identity = Identity { hostname, cpus, max_processes };
    let channel = slot.channel.as_ref().ok_or_else(|| Failure::internal("PID 1 has left"))?;
    let message = crate::message::Order::Become(Box::new(identity));
    // The first time this takes a moment, for which PID 1 does not wait: it makes its root.
    let guest = host.guest()?;
    send_to_init(channel, &message, &[guest.as_fd(), socket.as_fd()]).tried("tell PID 1 who it is")
}

/// A PID 1 that is gone has left its reason in the channel, which is read next; that it cannot be
/// told any more is not the reason.
fn send_to_init(
    channel: &Channel,
    order: &crate::message::Order,
    fds: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    match channel.send(order, fds) {
        Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        other => other,
    }
}

/// The guest's socket, bound outside of the sandbox so that nothing inside can take its place.
fn listen(path: &Path) -> Result<OwnedFd, Failure> {
    let listener = std::os::unix::net::UnixListener::bind(path).tried("make the guest's socket")?;
    Ok(listener.into())
}
