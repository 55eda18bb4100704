//! The worker, before it begins: it makes the directory its root and gives everything else up.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};
use rustix::process::Resource;
use rustix::thread::CapabilitySet;

use super::{Order, warden};
use crate::failure::{Attempt as _, Failure};
use crate::ids::IdMap;
use crate::seccomp::Program;
use crate::sys::process::exit_now;
use crate::{helper, jail, sys};

/// What it may do with the directory's files, as their namespace's root.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETFCAP);

/// Most open files: the work needs a handful.
const OPEN_FILES: u64 = 64;

/// What the work has.
#[derive(Debug)]
pub struct Inside {
    /// The directory, which is also the root.
    pub root: OwnedFd,
    /// What the caller sends, to its end.
    pub input: File,
    /// [`Order::task`].
    pub task: String,
}

/// Runs in the child.
pub(super) fn run(order: &Order, ids: IdMap, wait: OwnedFd, work: fn(Inside) -> String) -> ! {
    let mut word = [0; 2];
    let read = rustix::io::retry_on_intr(|| rustix::io::read(&wait, &mut word));
    drop(wait);
    if read != Ok(word.len()) {
        exit_now(1);
    }
    let report = confine(order, ids).map(work);
    let failed = report.is_err();
    warden::report(&report);
    exit_now(i32::from(failed))
}

fn confine(order: &Order, ids: IdMap) -> Result<Inside, Failure> {
    // The filter is made before the worker's memory is bounded and its calls are few.
    let filter = Program::compile_confined()?;
    jail::take_ids(ids)?;
    // After the last change of ids, which clears it.
    helper::die_with_launcher()?;
    let _ = rustix::thread::set_name(c"holm-worker");
    enter(order)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty()).tried("open the directory")?;
    let input = File::from(warden::stdin()?);
    // The work says itself what modes are.
    rustix::process::umask(Mode::empty());
    for (resource, most) in [
        (Resource::As, order.memory_bytes),
        (Resource::Nofile, OPEN_FILES),
        // 1, not 0: a program that the host runs for core files takes them at 0 too.
        (Resource::Core, 1),
    ] {
        jail::limit(resource, most, most)?;
    }
    jail::drop_capabilities(KEPT)?;
    sys::thread::install_filter(filter.instructions()).map_err(|errno| {
        jail::unavailable(
            "The host's kernel cannot filter system calls (CONFIG_SECCOMP_FILTER).",
            errno,
        )
    })?;
    Ok(Inside { root, input, task: order.task.clone() })
}

/// Makes the directory the root of a mount namespace that has nothing else.
fn enter(order: &Order) -> Result<(), Failure> {
    // Nothing that is mounted here may reach other namespaces, and nothing from there this one.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).tried("make mounts private")?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let directory = order.directory.as_path();
    let mount = rustix::mount::open_tree(CWD, directory, flags).tried("open the directory")?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    sys::mounts::set_attributes(&mount, attributes, None, false).tried("bound the directory")?;
    // A root must be a mount; where it lies is seen by nobody.
    let empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&mount, "", CWD, directory, empty).tried("mount the directory")?;
    jail::pivot(&mount)
}
