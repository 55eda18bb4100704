//! The way below the root of a sandbox that runs. Its disk is the root of its mount namespace, and the
//! overlay that everybody inside has as root lies on top of that (`jail::root::pivot_over`): there is
//! no path to it. In a copy of the namespace, which nobody else has, the overlay is taken off.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountAttrFlags, UnmountFlags};
use rustix::process::{PidfdFlags, Resource};
use rustix::thread::{CapabilitySet, ThreadNameSpaceType};

use crate::failure::{Attempt as _, Failure};
use crate::ids::IdMap;
use crate::seccomp::Program;
use crate::{helper, jail, sys};

/// Bytes of memory that it may map: names of files with several names are remembered.
const MEMORY: u64 = 1 << 30;
/// Most open files: one for each directory on the way, and a handful.
const OPEN_FILES: u64 = 1024;

/// Steps there, gives up everything but reading, and answers the disk's directory.
pub(super) fn below(init: &OwnedFd, ids: IdMap) -> Result<OwnedFd, Failure> {
    // Made before memory is bounded and calls are few.
    let filter = Program::compile_confined()?;
    // Both at once: who is in the sandbox's user namespace alone may not enter its mounts.
    let both = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT;
    rustix::thread::move_into_thread_name_spaces(init.as_fd(), both)
        .tried("enter the sandbox's mounts")?;
    jail::take_ids(ids)?;
    // After the last change of ids, which clears it.
    helper::die_with_launcher()?;
    // A copy of the mounts, and a network and the like that nobody is in.
    sys::thread::leave_everything().tried("leave the sandbox's mounts")?;
    rustix::mount::unmount("/", UnmountFlags::DETACH).tried("take the root off")?;
    // Our root is what was taken off; who enters anew has the one that is left.
    let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())
        .tried("hold this process")?;
    rustix::thread::move_into_thread_name_spaces(own.as_fd(), ThreadNameSpaceType::MOUNT)
        .tried("enter the own mounts anew")?;
    drop(own);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let disk = rustix::fs::openat(CWD, "/", flags, Mode::empty()).tried("open the disk")?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    sys::mounts::set_attributes(&disk, attributes, None, false).tried("bound the disk")?;
    for (resource, most) in [
        (Resource::As, MEMORY),
        (Resource::Nofile, OPEN_FILES),
        // 1, not 0: a program that the host runs for core files takes them at 0 too.
        (Resource::Core, 1),
    ] {
        jail::limit(resource, most, most)?;
    }
    // To read what its owners let nobody read.
    jail::drop_capabilities(CapabilitySet::DAC_OVERRIDE)?;
    sys::thread::install_filter(filter.instructions()).map_err(|errno| {
        jail::unavailable(
            "The host's kernel cannot filter system calls (CONFIG_SECCOMP_FILTER).",
            errno,
        )
    })?;
    Ok(disk)
}
