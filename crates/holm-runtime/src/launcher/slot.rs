//! A sandbox on its way from nothing, over a blank, to a running one, and back to nothing.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::io::Errno;

use super::binder::Binder;
use crate::cgroup::{Control as _, Group};
use crate::channel::Channel;
use crate::driver::{SandboxSpec, Shape};
use crate::failure::{Attempt as _, Failure};
use crate::ids::IdMap;
use crate::kept::{Init, Kept};
use crate::message::Created;
use crate::network::Gate;
use crate::step::Step;
use crate::sys;

/// Who asked for a sandbox, and what for.
#[derive(Debug)]
pub(super) struct Order {
    pub seq: u64,
    pub spec: SandboxSpec,
}

/// Everything of one sandbox that the launcher holds.
#[derive(Debug)]
pub(super) struct Slot {
    /// Name of its cgroup and socket.
    pub name: String,
    pub group: Option<Group>,
    pub shape: Shape,
    /// The start of its id range, to be given back.
    pub range: Option<u32>,
    pub ids: IdMap,
    pub builder: Option<i32>,
    /// The builder's reports.
    pub report: Option<Channel>,
    /// To PID 1, until the guest has taken over.
    pub channel: Option<Channel>,
    pub init_pid: Option<i32>,
    pub init: Option<OwnedFd>,
    pub init_gone: bool,
    /// Where its record is kept, if it does not end with us.
    pub record: Option<PathBuf>,
    /// The instance of an earlier launcher that it belongs to.
    pub former: Option<usize>,
    /// Its mounts, which PID 1's end does not wait for while this is held.
    pub mounts: Option<OwnedFd>,
    /// A directory of its disk.
    pub disk: Option<OwnedFd>,
    pub socket: PathBuf,
    /// Once PID 1 has said what it has of one.
    pub gate: Option<Gate>,
    /// The gate's sockets, until the owner is there to have them.
    pub gate_sockets: Vec<OwnedFd>,
    /// Helpers that make sockets inside.
    pub binders: Vec<Binder>,
    /// The helper that reads its files, while its processes stand still.
    pub packer: Option<i32>,
    /// Its processes did before that one began.
    pub stood_still: bool,
    /// Who waits for that one's end.
    pub packs: VecDeque<u64>,
    /// PID 1 was told to go on to the guest.
    pub told: bool,
    /// The host name inside is still a blank's.
    pub nameless: bool,
    /// The helper that sets the host name.
    pub namer: Option<i32>,
    /// PID 1 has said that the guest comes next.
    pub starting: bool,
    /// The guest has taken over.
    pub running: bool,
    /// It is being undone.
    pub ending: bool,
    /// The last steps that are already undone.
    pub undone: usize,
    /// Undoing must be tried again soon.
    pub retry: bool,
    /// When undoing got stuck for good.
    pub stuck_since: Option<std::time::Instant>,
    pub failure: Option<Failure>,
    order: Option<Order>,
    /// Number of the order, also after it was answered.
    pub seq: Option<u64>,
    sandbox: Option<String>,
    /// Processors that it was given.
    pub cpus: Vec<usize>,
    pub waiters: Vec<u64>,
}

impl Slot {
    pub(super) fn new(
        name: String,
        group: Option<Group>,
        shape: Shape,
        ids: IdMap,
        socket: PathBuf,
        order: Option<Order>,
    ) -> Self {
        let seq = order.as_ref().map(|order| order.seq);
        let sandbox = order.as_ref().map(|order| order.spec.id.clone());
        let range = if let IdMap::Range { start } = ids { Some(start) } else { None };
        Self {
            name,
            group,
            shape,
            range,
            ids,
            builder: None,
            report: None,
            channel: None,
            init_pid: None,
            init: None,
            init_gone: false,
            record: None,
            former: None,
            mounts: None,
            disk: None,
            socket,
            gate: None,
            gate_sockets: Vec::new(),
            binders: Vec::new(),
            packer: None,
            stood_still: false,
            packs: VecDeque::new(),
            told: false,
            nameless: false,
            namer: None,
            starting: false,
            running: false,
            ending: false,
            undone: 0,
            retry: false,
            stuck_since: None,
            failure: None,
            order,
            seq,
            sandbox,
            cpus: Vec::new(),
            waiters: Vec::new(),
        }
    }

    /// True when a create that takes it has nothing left to wait for.
    pub(super) fn is_ready_blank(&self) -> bool {
        self.is_blank() && self.running
    }

    /// True when it belongs to nobody yet.
    pub(super) fn is_blank(&self) -> bool {
        self.sandbox.is_none() && !self.ending
    }

    pub(super) fn is_named(&self, sandbox: &str) -> bool {
        self.sandbox.as_deref() == Some(sandbox)
    }

    pub(super) fn sandbox(&self) -> Option<&str> {
        self.sandbox.as_deref()
    }

    /// One that was found has an owner.
    pub(super) fn take_owner(&mut self, sandbox: String) {
        self.sandbox = Some(sandbox);
    }

    /// What its owner is told of it. None while there is nothing to tell.
    pub(super) fn created(&self) -> Option<Created> {
        Some(Created {
            id: self.sandbox.clone()?,
            pid: self.init_pid?.unsigned_abs(),
            socket: self.socket.clone(),
            cgroup: self.group.clone(),
            gate: self.gate.clone()?,
        })
    }

    pub(super) fn claim(&mut self, order: Order) {
        self.seq = Some(order.seq);
        self.sandbox = Some(order.spec.id.clone());
        self.order = Some(order);
    }

    /// A sandbox of an earlier launcher, as it was kept. It runs if its PID 1 does.
    pub(super) fn kept(name: String, record: PathBuf, kept: Kept, init: Option<OwnedFd>) -> Self {
        let mut slot = Self::new(name, kept.group, kept.shape, kept.ids, kept.socket, None);
        slot.record = Some(record);
        slot.sandbox = kept.sandbox;
        slot.init_pid = kept.init.filter(|_| init.is_some()).map(|init| init.pid);
        slot.running = init.is_some();
        slot.init_gone = init.is_none();
        slot.told = true;
        slot.init = init;
        slot.cpus = kept.cpus;
        slot.gate = Some(kept.gate);
        slot
    }

    /// Writes down what it is now, where somebody after us may need that. `runs`: it has become
    /// the sandbox that was ordered.
    pub(super) fn keep(&self, runs: bool) -> Result<(), Failure> {
        let Some(record) = &self.record else { return Ok(()) };
        let mut kept = Kept::new(self.shape, self.ids, self.group.clone(), self.socket.clone());
        kept.cpus.clone_from(&self.cpus);
        kept.gate = self.gate.clone().unwrap_or_default();
        // One that is gone by now is nothing to look for.
        // Asked last: while it is not gone, the number is its own.
        let lives = |_: &Init| !self.init.as_ref().is_some_and(sys::process::is_gone);
        kept.init = self.init_pid.and_then(Init::of).filter(lives);
        kept.sandbox = self.sandbox.clone().filter(|_| runs);
        kept.write(record).tried("keep what a sandbox is")
    }

    /// True when PID 1 is not our child, and does not end with us.
    pub(super) fn is_detached(&self) -> bool {
        self.record.is_some()
    }

    /// True when its owner has it and it goes on without us.
    pub(super) fn is_kept(&self) -> bool {
        self.is_detached()
            && self.running
            && !self.ending
            && self.sandbox.is_some()
            && self.order.is_none()
    }

    pub(super) fn order(&self) -> Option<&Order> {
        self.order.as_ref()
    }

    /// The order, once it is to be answered.
    pub(super) fn take_order(&mut self) -> Option<Order> {
        self.order.take()
    }

    /// Begins to undo it. The first reason counts.
    pub(super) fn end(&mut self, failure: Option<Failure>) {
        if self.failure.is_none() && !self.ending {
            self.failure = failure;
        }
        self.ending = true;
    }

    /// One of its processes may be gone.
    pub(super) fn note_exit(&mut self, pid: i32) {
        if self.builder == Some(pid) {
            self.builder = None;
        }
        if self.init_pid == Some(pid) {
            self.init_gone = true;
        }
    }

    /// Takes note of a PID 1 that was reaped before we knew that it was ours: it may die, and its
    /// death be seen, before the builder's report of it is read.
    pub(super) fn look_at_init(&mut self) {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let Some(init) = &self.init else { return };
        if self.is_detached() {
            self.init_gone |= sys::process::is_gone(init);
            return;
        }
        let only_look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if waitid(WaitId::PidFd(init.as_fd()), only_look).err() == Some(Errno::CHILD) {
            self.init_gone = true;
        }
    }

    /// Lets its processes go on, where they were stopped.
    pub(super) fn thaw(&self) {
        // What fails here has no such group, or none any more.
        let _ = self.group.as_ref().map(|group| group.freeze(false));
    }

    pub(super) fn was_out_of_memory(&self) -> bool {
        self.group.as_ref().and_then(Group::oom_kills).is_some_and(|kills| kills > 0)
    }

    /// The step that is undone next, from the last to the first.
    pub(super) fn next_undo(&self) -> Option<Step> {
        Step::ALL.iter().rev().nth(self.undone).copied()
    }
}
