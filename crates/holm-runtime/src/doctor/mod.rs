//! What this host can enforce, found by making one sandbox and looking at it from outside. Where
//! that fails, each kind of namespace is tried on its own, so that the missing one has a name.

mod table;

use crate::channel::Channel;
use crate::driver::{Enforcement, Layer, LayerState, Root, SandboxSpec};
use crate::failure::Failure;
use crate::linux::Child;
use crate::message::{Created, Event, Facts, Request};
use crate::options::LinuxOptions;
use crate::sys::process::{Forked, Parentage, exit_now, flag, fork_into};

/// Tries every layer and says how it went. Takes as long as making a sandbox does.
#[must_use]
pub fn report(options: &LinuxOptions) -> Enforcement {
    attempt(options).0
}

/// The same, and whether a sandbox could be made: what stopped it may pass.
pub(crate) fn attempt(options: &LinuxOptions) -> (Enforcement, bool) {
    let mut options = options.clone();
    options.blanks = 0;
    options.lifetime = crate::options::Lifetime::Launcher;
    match Trial::new(&options) {
        Ok(trial) => {
            let observed = trial.created.as_ref().map(table::Observed::of);
            let failed = trial.failure.as_ref();
            let missing = if failed.is_some() { ask_for_namespaces(&options) } else { Vec::new() };
            let found = table::fill(&trial.facts, observed.as_ref(), failed, &missing);
            // One that died meanwhile was not seen whole.
            (found, observed.is_some_and(|observed| observed.is_whole()))
        }
        Err(failure) => (table::unusable(&failure), false),
    }
}

/// The same table from a sandbox that was made anyway. `None` when it is gone already.
pub(crate) fn seen(facts: &Facts, sandbox: &Created) -> Option<Enforcement> {
    let observed = table::Observed::of(sandbox);
    observed.is_whole().then(|| table::fill(facts, Some(&observed), None, &[]))
}

pub(crate) use table::pausing;

/// How a layer will stand, where that shows before a sandbox is made: that of [`Layer::EXCUSABLE`].
pub(crate) fn foreseen(layer: Layer, facts: &Facts) -> Option<LayerState> {
    Layer::EXCUSABLE.contains(&layer).then(|| table::foresee(layer, facts))
}

/// A launcher and, if it could be made, a sandbox. Dropping it removes both.
struct Trial {
    facts: Facts,
    created: Option<Created>,
    failure: Option<Failure>,
    channel: Option<Channel>,
    child: Child,
}

impl Trial {
    fn new(options: &LinuxOptions) -> Result<Self, Failure> {
        let start = Request::Start(Box::new(options.settings()));
        let (channel, child) = crate::linux::spawn(options, &start)?;
        let facts = match channel.receive::<Event>() {
            Ok(Some((Event::Ready(facts), _))) => facts,
            Ok(Some((Event::Unusable(failure), _))) => return Err(failure),
            _ => return Err(Failure::internal("the launcher did not start")),
        };
        let spec = SandboxSpec {
            id: "sbx_doctor".into(),
            hostname: "doctor".into(),
            root: Root::Host,
            vcpus: 1,
            memory_bytes: 256 << 20,
            disk_bytes: options.blank.disk_bytes,
            disk_inodes: options.blank.disk_inodes,
            max_processes: 64,
            mounts: Vec::new(),
        };
        let asked = channel.send(&Request::Create { seq: 1, spec: Box::new(spec) }, &[]);
        let (created, failure) = match asked.and_then(|()| channel.receive::<Event>()) {
            Ok(Some((Event::Created { sandbox, .. }, _))) => (Some(sandbox), None),
            Ok(Some((Event::Failed { failure, .. }, _))) => (None, Some(failure)),
            _ => (None, Some(Failure::internal("the launcher ended"))),
        };
        Ok(Self { facts, created, failure, channel: Some(channel), child })
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // The launcher removes everything when its socket closes, and then ends.
        self.channel = None;
        self.child.wait();
    }
}

/// Kinds of namespaces, each with its flag.
const NAMESPACES: [(Layer, libc::c_int); 7] = [
    (Layer::UserNamespace, 0),
    (Layer::MountNamespace, libc::CLONE_NEWNS),
    (Layer::PidNamespace, libc::CLONE_NEWPID),
    (Layer::NetNamespace, libc::CLONE_NEWNET),
    (Layer::IpcNamespace, libc::CLONE_NEWIPC),
    (Layer::UtsNamespace, libc::CLONE_NEWUTS),
    (Layer::CgroupNamespace, libc::CLONE_NEWCGROUP),
];

/// Has a launcher try each kind.
fn ask_for_namespaces(options: &LinuxOptions) -> Vec<(Layer, String)> {
    let Ok((channel, child)) = crate::linux::spawn(options, &Request::Try) else {
        return Vec::new();
    };
    let answer = channel.receive::<Event>();
    drop(channel);
    child.wait();
    match answer {
        Ok(Some((Event::Tried(missing), _))) => missing,
        _ => Vec::new(),
    }
}

/// In a launcher: makes a process in a namespace of each kind. Answers those that failed.
pub(crate) fn try_namespaces() -> Vec<(Layer, String)> {
    let attempt = |(layer, kind): &(Layer, libc::c_int)| match fork_into(
        flag(libc::CLONE_NEWUSER | *kind),
        Parentage::Child,
        None,
    ) {
        Ok(Forked::Child) => exit_now(0),
        Ok(Forked::Parent(..)) => None,
        Err(errno) => {
            let failure = crate::builder::no_namespaces(errno);
            Some((*layer, failure.public))
        }
    };
    NAMESPACES.iter().filter_map(attempt).collect()
}
