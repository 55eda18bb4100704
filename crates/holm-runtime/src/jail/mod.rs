//! PID 1 before it becomes the guest: it builds its own root and gives up everything it does not
//! need. Runs in a fork of the launcher, inside all namespaces, single-threaded.

mod confine;
pub(crate) mod image;
mod kernel;
mod root;
mod shown;
mod target;
#[cfg(test)]
mod tests;

pub(crate) use confine::{KEPT, drop_capabilities, limit};
pub(crate) use root::pivot;

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::process::DumpableBehavior;
use rustix::thread::{Gid, Uid};

use crate::channel::Channel;
use crate::driver::DriverErrorKind;
use crate::failure::{Attempt, Failure};
use crate::helper;
use crate::ids::IdMap;
use crate::message::{Answer, Base, Identity, Order, Preparation};
use crate::network::{self, Gate};
use crate::options::Lifetime;
use crate::seccomp::Program;
use crate::step::{Fault, Step, perform};
use crate::sys;

/// What PID 1 inherits from the launcher's memory.
pub(crate) struct Start<'a> {
    /// Into its groups; the unified hierarchy takes PID 1 in as it is born.
    pub doors: Vec<File>,
    pub lifetime: Lifetime,
    /// An egress gate is wanted.
    pub gate: bool,
    pub fault: Option<Fault>,
    pub filter: &'a Program,
}

/// Runs in the child. Returns only by becoming the guest.
pub(crate) fn main(channel: &Channel, start: &Start<'_>) -> ! {
    let doors = start.doors.iter().map(AsRawFd::as_raw_fd);
    let kept: Vec<_> = [0, 1, 2, channel.as_raw_fd()].into_iter().chain(doors).collect();
    sys::fds::close_others(&kept);
    let _ = rustix::thread::set_name(c"holm-blank");
    if start.fault.is_some() {
        crate::step::call_through(channel);
    }
    let failure = match become_guest(channel, start) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    // When nobody listens any more there is nobody to tell.
    let _ = channel.send(&Answer::Failed(failure), &[]);
    sys::process::exit_now(1)
}

/// A value that cannot exist.
enum Never {}

fn become_guest(channel: &Channel, start: &Start<'_>) -> Result<Never, Failure> {
    let fault = start.fault;
    perform(fault, Step::Join, || {
        crate::cgroup::go_through(&start.doors).tried("enter the cgroups")
    })?;
    let gate = connect(channel, start)?;
    let (preparation, fds) = match receive(channel)? {
        (Order::Prepare(preparation), fds) => (*preparation, fds),
        (other, _) => return Err(unexpected(&other)),
    };
    take_ids(preparation.ids)?;
    if !start.lifetime.outlives_launcher() {
        // Set after the last change of ids, which clears it.
        helper::die_with_launcher()?;
    }
    leave_with_launcher(channel);
    confine::shared_counters(preparation.ids)?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mounts = prepare(fault, &gate, &preparation, fds)?;
    let (identity, fds) = match receive(channel)? {
        (Order::Become(identity), fds) => (*identity, fds),
        (other, _) => return Err(unexpected(&other)),
    };
    let Ok([guest, socket]) = <[OwnedFd; 2]>::try_from(fds) else {
        return Err(Failure::internal("PID 1 was not given guest and socket"));
    };
    perform(fault, Step::Identity, || root::name(&identity.hostname))?;
    perform(fault, Step::Mounts, || shown::attach(&preparation.mounts, mounts))?;
    hand_over(channel, start, &preparation, &identity, &guest, &socket)
}

/// Everything that does not depend on which sandbox this will be. Answers the mounts to show.
fn prepare(
    fault: Option<Fault>,
    gate: &Gate,
    preparation: &Preparation,
    fds: Vec<OwnedFd>,
) -> Result<Vec<OwnedFd>, Failure> {
    let mut layers = root::Layers::sort(preparation, fds)?;
    let mounts = std::mem::take(&mut layers.mounts);
    let mounts = perform(fault, Step::Staging, || {
        let mounts = shown::open(preparation, mounts)?;
        root::enter_staging(preparation, &layers)?;
        Ok(mounts)
    })?;
    let new_root = perform(fault, Step::Overlay, || root::mount_overlays(preparation))?;
    let etc = perform(fault, Step::Kernel, || {
        // Before anything is mounted that a link could lead into.
        let etc = match &preparation.base {
            Base::Host { over, .. } if over.is_empty() => None,
            Base::Host { .. } => {
                image::own_places(&new_root, !preparation.ids.is_single())?;
                Some(image::prepare(&new_root)?)
            }
            Base::Layers(_) => Some(image::prepare(&new_root)?),
        };
        kernel::mount(&new_root, preparation.ids)?;
        Ok(etc)
    })?;
    perform(fault, Step::Pivot, || {
        match etc {
            Some(etc) => network::resolver::write(gate, &etc)?,
            None => {
                let etc = target::directory(&new_root, "etc").tried("find /etc")?;
                network::resolver::correct(gate, &etc)?;
            }
        }
        root::pivot_over(&new_root)
    })?;
    Ok(mounts)
}

/// The network, which needs nothing that the builder has still to give. The gate's sockets go to the
/// launcher, and none stays here.
fn connect(channel: &Channel, start: &Start<'_>) -> Result<Gate, Failure> {
    let fault = start.fault;
    perform(fault, Step::Loopback, || sys::thread::loopback_up().tried("bring loopback up"))?;
    perform(fault, Step::Gate, || {
        let (gate, sockets) = network::prepare(start.gate)?;
        let fds: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        let answer = Answer::Gate(gate.clone());
        channel.send(&answer, &fds).tried("hand the gate's sockets over")?;
        Ok(gate)
    })
}

fn hand_over(
    channel: &Channel,
    start: &Start<'_>,
    preparation: &Preparation,
    identity: &Identity,
    guest: &OwnedFd,
    socket: &OwnedFd,
) -> Result<Never, Failure> {
    perform(start.fault, Step::Privileges, || confine::privileges(&identity.cpus))?;
    perform(start.fault, Step::Seccomp, || confine::system_calls(start.filter))?;
    perform(start.fault, Step::Exec, || {
        channel.send(&Answer::Starting, &[]).tried("report the start")?;
        Err(confine::execute(channel, guest, socket, preparation.ids, identity.max_processes))
    })
}

fn receive(channel: &Channel) -> Result<(Order, Vec<OwnedFd>), Failure> {
    match channel.receive().tried("wait for orders")? {
        Some(order) => Ok(order),
        // Whoever made us gave up, or is gone.
        None => sys::process::exit_now(0),
    }
}

fn unexpected(order: &Order) -> Failure {
    Failure::internal(format!("unexpected order {order:?}"))
}

/// Becomes root inside (or `sandbox`, where that is all that there is).
pub(crate) fn take_ids(ids: IdMap) -> Result<(), Failure> {
    let (uid, gid) = if ids.is_single() { (1000, 1000) } else { (0, 0) };
    if !ids.is_single() {
        rustix::thread::set_thread_groups(&[]).tried("drop supplementary groups")?;
    }
    let gid = Gid::from_raw(gid);
    let uid = Uid::from_raw(uid);
    rustix::thread::set_thread_res_gid(gid, gid, gid).tried("set the group")?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).tried("set the user")?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .tried("make PID 1 unreadable")
}

/// The launcher may have died before. Its descriptors are closed before its children learn of its
/// death, so in that case the channel shows it now.
fn leave_with_launcher(channel: &Channel) {
    if channel.is_closed() {
        sys::process::exit_now(0);
    }
}

/// The failure for a layer of isolation that the host does not give.
pub(crate) fn unavailable(text: &str, cause: impl std::fmt::Display) -> Failure {
    Failure::of(DriverErrorKind::IsolationUnavailable, text).because(cause)
}
