//! The kernel's own file systems: a fresh /proc with what concerns the host hidden, and a /dev of
//! a few devices. There is no /sys.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, OpenTreeFlags};

use super::root::{mount_fs, open_fs, open_path, set};
use super::target;
use crate::failure::{Attempt, Failure};
use crate::ids::IdMap;
use crate::sys;

/// Entries of /proc that tell about the host or other sandboxes, or act on the host. Covered.
const COVERED: [&str; 24] = [
    "acpi",
    "asound",
    "bus",
    "cmdline",
    "config.gz",
    "diskstats",
    "driver",
    "fs",
    "interrupts",
    "iomem",
    "ioports",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "latency_stats",
    "locks",
    "modules",
    "partitions",
    "sched_debug",
    "schedstat",
    "scsi",
    "timer_list",
];

/// Entries that programs read but that nobody inside may write.
const READ_ONLY: [&str; 3] = ["irq", "sys", "sysrq-trigger"];

/// Device files, each the host's own.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Links in /dev.
const LINKS: [(&str, &str); 5] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// Mounts /proc and /dev below `root`.
pub(super) fn mount(root: &OwnedFd, ids: IdMap) -> Result<(), Failure> {
    let null = open_path("/dev/null")?;
    mount_proc(root, &null)?;
    mount_dev(root, ids)
}

const PLAIN: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

fn mount_proc(root: &OwnedFd, null: &OwnedFd) -> Result<(), Failure> {
    let context = open_fs("proc")?;
    let proc = mount_fs(&context, PLAIN).map_err(|failure| {
        super::unavailable(
            "The host does not let a sandbox have its own /proc. Inside a container, parts of its \
             /proc are hidden: start it with an unmasked /proc (docker: --security-opt \
             systempaths=unconfined).",
            failure.internal,
        )
    })?;
    let place = target::directory(root, "proc").tried("find /proc")?;
    target::move_to(&proc, &place).tried("mount /proc")?;
    let empty = empty_directory()?;
    for name in COVERED {
        let Some((place, kind)) = find(&proc, name)? else { continue };
        let cover = if kind == FileType::Directory { copy(&empty)? } else { copy(null)? };
        target::move_to(&cover, &place).tried(&format!("cover /proc/{name}"))?;
    }
    for name in READ_ONLY {
        let Some((place, _)) = find(&proc, name)? else { continue };
        let view = copy(&place)?;
        let attributes = PLAIN | MountAttrFlags::MOUNT_ATTR_RDONLY;
        sys::mounts::set_attributes(&view, attributes, None, false)
            .tried(&format!("make /proc/{name} read-only"))?;
        target::move_to(&view, &place).tried(&format!("make /proc/{name} read-only"))?;
    }
    Ok(())
}

fn find(proc: &OwnedFd, name: &str) -> Result<Option<(OwnedFd, FileType)>, Failure> {
    match target::resolve(proc, name, OFlags::NOFOLLOW) {
        Ok(place) => {
            let stat = rustix::fs::fstat(&place).tried(&format!("look at /proc/{name}"))?;
            Ok(Some((place, FileType::from_raw_mode(stat.st_mode))))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno).tried(&format!("find /proc/{name}")),
    }
}

/// A mount of its own of what a descriptor refers to.
fn copy(of: &impl AsFd) -> Result<OwnedFd, Failure> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    rustix::mount::open_tree(of, "", flags).tried("copy a mount")
}

/// An empty, read-only directory, mounted in the staging area so that it can be copied.
fn empty_directory() -> Result<OwnedFd, Failure> {
    let context = open_fs("tmpfs")?;
    set(&context, "size", "4096")?;
    set(&context, "nr_inodes", "2")?;
    set(&context, "mode", "0555")?;
    let empty = mount_fs(&context, PLAIN | MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    rustix::fs::mkdir("e", Mode::from_raw_mode(0o755)).tried("make the empty directory")?;
    let place = open_path("e")?;
    target::move_to(&empty, &place).tried("mount the empty directory")?;
    Ok(empty)
}

fn mount_dev(root: &OwnedFd, ids: IdMap) -> Result<(), Failure> {
    let context = open_fs("tmpfs")?;
    for (key, value) in [("size", "65536"), ("nr_inodes", "64"), ("mode", "0755")] {
        set(&context, key, value)?;
    }
    let noexec = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let dev = mount_fs(&context, noexec)?;
    let place = target::directory(root, "dev").tried("find /dev")?;
    target::move_to(&dev, &place).tried("mount /dev")?;
    for name in DEVICES {
        bind_device(&dev, name).map_err(|failure| failure.because(format!("/dev/{name}")))?;
    }
    for (name, to) in LINKS {
        rustix::fs::symlinkat(to, &dev, name).tried(&format!("link /dev/{name}"))?;
    }
    let pts = open_fs("devpts")?;
    // The machine has 4096 terminals for all.
    for (key, value) in [("ptmxmode", "0666"), ("mode", "0620"), ("max", "64")] {
        set(&pts, key, value)?;
    }
    if !ids.is_single() {
        // The group `tty`.
        set(&pts, "gid", "5")?;
    }
    let pts = mount_fs(&pts, noexec)?;
    mount_below(&dev, "pts", &pts)?;
    // Shared memory is memory: small, and counted as such by the cgroup.
    let shm = open_fs("tmpfs")?;
    for (key, value) in [("size", "67108864"), ("nr_inodes", "16384"), ("mode", "1777")] {
        set(&shm, key, value)?;
    }
    let shm = mount_fs(&shm, MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV)?;
    mount_below(&dev, "shm", &shm)?;
    sys::mounts::set_attributes(&dev, MountAttrFlags::MOUNT_ATTR_RDONLY, None, false)
        .tried("make /dev read-only")
}

fn bind_device(dev: &OwnedFd, name: &str) -> Result<(), Failure> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let device = rustix::mount::open_tree(CWD, format!("/dev/{name}"), flags)
        .tried("open a device of the host")?;
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(dev, name, flags, Mode::from_raw_mode(0o666)).tried("make its place")?;
    let place = target::resolve(dev, name, OFlags::empty()).tried("find its place")?;
    target::move_to(&device, &place).tried("mount it")
}

fn mount_below(dev: &OwnedFd, name: &str, mount: &OwnedFd) -> Result<(), Failure> {
    rustix::fs::mkdirat(dev, name, Mode::from_raw_mode(0o755))
        .tried(&format!("make /dev/{name}"))?;
    let place = target::directory(dev, name).tried(&format!("find /dev/{name}"))?;
    target::move_to(mount, &place).tried(&format!("mount /dev/{name}"))
}
