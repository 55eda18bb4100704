//! The writable layer: a sparse image with its own file system, so that bytes and inodes end where
//! the sandbox's limit is. The image file never has a name, so nothing can be left behind.

mod device;
mod image;
#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::driver::DriverErrorKind;
use crate::failure::{Attempt, Failure};
use crate::options::DiskSize;
use crate::step::{Fault, Step, perform};

/// Loop devices work in units of this; mkfs would take smaller ones for small images.
const BLOCK: u32 = 4096;

/// Which kind of writable layer this host gives, and why not the better one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Image on a loop device.
    Image,
    /// Memory file system, counted as memory.
    Memory {
        /// What an image would need.
        why: String,
    },
}

/// Finds out which kind can be had.
pub(crate) fn kind() -> Kind {
    let memory = |why: &str| Kind::Memory { why: why.into() };
    if !crate::ids::is_machine_root() {
        return memory("an ordinary user may not mount an image");
    }
    if let Err(errno) = device::open_control() {
        return memory(&format!("/dev/loop-control: {errno}"));
    }
    if image::find_mkfs().is_none() {
        return memory("mkfs.ext4 is missing");
    }
    Kind::Image
}

/// Refuses when the disk of the data directory is too full for one more sandbox.
pub(crate) fn check_reserve(data_dir: &Path, reserve: u64) -> Result<(), Failure> {
    let stat = rustix::fs::statvfs(data_dir).tried("ask for free space of the data directory")?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free >= reserve {
        return Ok(());
    }
    Err(Failure::of(
        DriverErrorKind::HostExhausted,
        "The host's disk is nearly full; end other sandboxes or free some space.",
    )
    .because(format!("{free} bytes free, reserve {reserve}")))
}

/// A writable layer that is not part of any sandbox yet.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Its file system, mounted nowhere.
    pub mount: OwnedFd,
    /// A directory of it.
    pub root: OwnedFd,
}

/// Makes one on an image: the steps [`Step::Image`] and [`Step::Disk`].
pub(crate) fn make(data_dir: &Path, size: DiskSize, fault: Option<Fault>) -> Result<Disk, Failure> {
    let trees = crate::template::host_trees();
    let trees: Vec<&str> = trees.iter().map(String::as_str).collect();
    let device = perform(fault, Step::Image, || attach_image(data_dir, size, &trees))?;
    perform(fault, Step::Disk, || {
        let mount = mount_detached(&device.1)?;
        let root = open_root(&mount)?;
        Ok(Disk { mount, root })
    })
}

/// A fresh image of that size, attached to a loop device. The device goes with its last user.
fn attach_image(
    data_dir: &Path,
    size: DiskSize,
    trees: &[&str],
) -> Result<(OwnedFd, PathBuf), Failure> {
    let mut template = image::template(data_dir, size, trees, image::format)?;
    device::attach(&image::copy(data_dir, &mut template, size)?)
}

/// Mounts the device's file system nowhere: only the descriptor refers to it.
fn mount_detached(device: &Path) -> Result<OwnedFd, Failure> {
    let failed = |what| move |errno| unmountable(what, errno);
    let context =
        rustix::mount::fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed("open ext4"))?;
    rustix::mount::fsconfig_set_string(&context, "source", device).tried("set the device")?;
    // No background zeroing of inode tables, which would fill the sparse image. No write barriers:
    // what a disposable disk holds need not survive a power cut. For the same reason nothing is
    // written out only because a file takes another one's name.
    for option in ["noinit_itable", "nobarrier", "noauto_da_alloc"] {
        rustix::mount::fsconfig_set_flag(&context, option).tried(option)?;
    }
    rustix::mount::fsconfig_create(&context).map_err(failed("mount the disk image"))?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .map_err(failed("mount the disk image"))
}

fn unmountable(what: &str, errno: Errno) -> Failure {
    let failure = match errno {
        Errno::NODEV => Failure::of(
            DriverErrorKind::IsolationUnavailable,
            "The host's kernel has no ext4, in which the disks of sandboxes are; load it \
             (modprobe ext4).",
        ),
        Errno::NOMEM | Errno::NOSPC | Errno::MFILE | Errno::NFILE => Failure::of(
            DriverErrorKind::HostExhausted,
            "The host has no room for one more mount; end other sandboxes.",
        ),
        Errno::PERM | Errno::ACCESS => Failure::of(
            DriverErrorKind::IsolationUnavailable,
            "The host does not let a sandbox's disk be mounted; inside a container, holm needs one \
             that may mount (CAP_SYS_ADMIN).",
        ),
        // What ext4 says of an image that it cannot read.
        Errno::INVAL | Errno::IO | Errno::UCLEAN | Errno::NOTBLK => Failure::of(
            DriverErrorKind::Internal,
            "The disk of a sandbox could not be mounted. The image that disks are copied from may \
             be damaged: remove the directory `images` in the data directory, then it is made \
             anew.",
        ),
        _ => Failure::internal(""),
    };
    failure.because(format!("{what}: {errno}"))
}

/// What failed because the host's disk is full is no fault of ours.
fn io_failure(what: &str, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => disk_full(),
        // `RLIMIT_FSIZE`, or the most that the file system takes.
        std::io::ErrorKind::FileTooLarge => Failure::of(
            DriverErrorKind::HostExhausted,
            "The host's file system or a limit of the process (ulimit -f) has no room for a disk \
             of that size.",
        ),
        _ => Failure::internal(""),
    }
    .because(format!("{what}: {error}"))
}

fn disk_full() -> Failure {
    Failure::of(
        DriverErrorKind::HostExhausted,
        "The host's disk is full; end other sandboxes or free some space.",
    )
}

/// A directory of the file system, through which it is given up at the end.
fn open_root(mount: &impl AsFd) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(mount, ".", flags, Mode::empty()).tried("open the disk's root")
}
