//! The root: overlays of read-only layers below the sandbox's own disk, then pivot.
//!
//! Everything is put together in a memory file system that only this mount namespace sees and that
//! goes away with the old root. All names in it are relative, so that the mount table inside shows
//! no path of the host.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

use super::{image, target};
use crate::failure::{Attempt, Failure};
use crate::message::{Base, Disk, Layer, Preparation, Tree};
use crate::sys;

/// Directories where the staging area may be mounted; one of them exists everywhere.
const PLACES: [&str; 4] = ["/tmp", "/mnt", "/run", "/var"];

/// The descriptors of a preparation, in order.
pub(super) struct Layers {
    disk: Option<OwnedFd>,
    /// Skeleton, then for each tree its lower and what hides entries of it; or an image's layers.
    read_only: Vec<OwnedFd>,
    pub mounts: Vec<OwnedFd>,
}

impl Layers {
    pub(super) fn sort(preparation: &Preparation, fds: Vec<OwnedFd>) -> Result<Self, Failure> {
        let mut fds = fds.into_iter();
        let disk = match preparation.disk {
            Disk::Fd => fds.next(),
            Disk::Memory(_) => None,
        };
        let count =
            layers(preparation).iter().filter(|(_, layer)| matches!(layer, Layer::Fd)).count();
        let read_only: Vec<_> = fds.by_ref().take(count).collect();
        let mounts: Vec<_> = fds.collect();
        let complete = read_only.len() == count
            && disk.is_some() == matches!(preparation.disk, Disk::Fd)
            && (!preparation.mounts_by_fd || mounts.len() == preparation.mounts.len());
        if complete {
            Ok(Self { disk, read_only, mounts })
        } else {
            Err(Failure::internal("PID 1 was not given all layers"))
        }
    }
}

/// All read-only layers with the names that they have in the staging area.
fn layers(preparation: &Preparation) -> Vec<(String, &Layer)> {
    match &preparation.base {
        Base::Host { skeleton, trees, over } => {
            let trees = trees.iter().flat_map(|tree| {
                let lower = (format!("l-{}", tree.name), &tree.lower);
                let hide = tree.hide.as_ref().map(|hide| (format!("h-{}", tree.name), hide));
                std::iter::once(lower).chain(hide)
            });
            let skeleton = std::iter::once(("s".to_owned(), skeleton));
            skeleton.chain(trees).chain(numbered(over)).collect()
        }
        Base::Layers(layers) => numbered(layers).collect(),
    }
}

fn numbered(layers: &[Layer]) -> impl Iterator<Item = (String, &Layer)> {
    layers.iter().enumerate().map(|(number, layer)| (image::layer_name(number), layer))
}

/// Makes the staging area the working directory, with all layers mounted in it.
pub(super) fn enter_staging(preparation: &Preparation, layers_in: &Layers) -> Result<(), Failure> {
    // Nothing that we mount may reach other namespaces, and nothing from there us.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).tried("make mounts private")?;
    // Paths of the host are opened before the staging area may hide them.
    let mut fds = layers_in.read_only.iter();
    let mut opened: Vec<(String, Option<OwnedFd>)> = Vec::new();
    for (name, layer) in layers(preparation) {
        let own = match layer {
            Layer::Fd => None,
            Layer::Path(path) => Some(open_layer(path)?),
        };
        opened.push((name, own));
    }
    mount_staging()?;
    for (name, own) in &opened {
        mkdir(name, 0o755)?;
        let mount = match own {
            Some(own) => own,
            None => fds.next().ok_or_else(|| Failure::internal("a layer is missing"))?,
        };
        attach(mount, name)?;
    }
    mkdir("d", 0o755)?;
    match (&layers_in.disk, &preparation.disk) {
        (Some(disk), _) => attach(disk, "d")?,
        (None, Disk::Memory(size)) => {
            let context = open_fs("tmpfs")?;
            set(&context, "size", &size.bytes.to_string())?;
            set(&context, "nr_inodes", &size.inodes.to_string())?;
            set(&context, "mode", "0755")?;
            let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
            attach(&mount_fs(&context, attributes)?, "d")?;
        }
        (None, Disk::Fd) => return Err(Failure::internal("the disk is missing")),
    }
    prepare_upper(preparation)
}

fn mount_staging() -> Result<(), Failure> {
    let context = open_fs("tmpfs")?;
    set(&context, "size", "65536")?;
    set(&context, "mode", "0755")?;
    let mount = mount_fs(&context, MountAttrFlags::MOUNT_ATTR_NOSUID)?;
    let place = PLACES
        .iter()
        .find(|place| Path::new(place).is_dir())
        .ok_or_else(|| Failure::internal("no directory to mount the staging area on"))?;
    attach(&mount, place)?;
    rustix::process::fchdir(&mount).tried("enter the staging area")
}

/// An ordinary user's layer, opened in our own namespace. With all mounts below it: the kernel
/// lets nobody look below a mount that came from the host's namespace.
fn open_layer(path: &Path) -> Result<OwnedFd, Failure> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
        | OpenTreeFlags::AT_RECURSIVE;
    let mount = rustix::mount::open_tree(CWD, path, flags)
        .tried(&format!("open layer {}", path.display()))?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    sys::mounts::set_attributes(&mount, attributes, None, true)
        .tried(&format!("make layer {} read-only", path.display()))?;
    Ok(mount)
}

/// Directories of the disk, and what is the sandbox's own from the start. Written into the upper
/// layer before it is an upper layer, so that nothing is copied up. An image of a disk has what a
/// root of the host template needs; the root of an image of a template gets an empty one.
fn prepare_upper(preparation: &Preparation) -> Result<(), Failure> {
    if let (Base::Host { trees, .. }, Disk::Memory(_)) = (&preparation.base, &preparation.disk) {
        let trees = trees.iter().map(|tree| tree.name.as_str());
        crate::upper::lay_out(Path::new("d"), trees, !preparation.ids.is_single())
            .tried("lay the writable layer out")?;
    }
    match &preparation.base {
        Base::Host { over, .. } if over.is_empty() => Ok(()),
        Base::Host { .. } | Base::Layers(_) => {
            ["d/image", "d/image/u", "d/image/w"].iter().try_for_each(|dir| mkdir(dir, 0o755))
        }
    }
}

/// Mounts the root's overlay and those of the host's trees on it. Answers the root.
pub(super) fn mount_overlays(preparation: &Preparation) -> Result<OwnedFd, Failure> {
    mkdir("r", 0o755)?;
    let (trees, over) = match &preparation.base {
        Base::Host { trees, over, .. } => (trees, image::layer_names(over.len())),
        Base::Layers(layers) => {
            let root = overlay(&image::lowers(image::layer_names(layers.len())), "d/image")?;
            attach(&root, "r")?;
            return Ok(root);
        }
    };
    let lowers = over.iter().cloned().chain(["s".to_owned()]).collect();
    let upper = if over.is_empty() { "d/root" } else { "d/image" };
    let root = overlay(&image::lowers(lowers), upper)?;
    attach(&root, "r")?;
    for tree in trees {
        let mount = overlay(&image::lowers(lowers_of(tree, &over)), &format!("d/{}", tree.name))?;
        let place = target::directory(&root, &tree.name)
            .tried(&format!("find the place of /{}", tree.name))?;
        target::move_to(&mount, &place).tried("mount a tree of the host")?;
    }
    Ok(root)
}

/// The lower layers of a tree of the host, the uppermost one first: what layers over the host have
/// under its name, what hides entries of it, and the tree.
fn lowers_of(tree: &Tree, over: &[String]) -> Vec<String> {
    let name = &tree.name;
    let is_directory = |layer: &&String| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A name of our own in a layer; a link there is none of its directories.
        rustix::fs::open(format!("{layer}/{name}"), flags, Mode::empty()).is_ok()
    };
    let over = over.iter().filter(is_directory).map(|layer| format!("{layer}/{name}"));
    let hide = tree.hide.as_ref().map(|_| format!("h-{name}"));
    over.chain(hide).chain([format!("l-{name}")]).collect()
}

fn overlay(lowers: &[(&str, String)], disk: &str) -> Result<OwnedFd, Failure> {
    let context = open_fs("overlay")?;
    for (key, lower) in lowers {
        set(&context, key, lower)?;
    }
    set(&context, "upperdir", &format!("{disk}/u"))?;
    set(&context, "workdir", &format!("{disk}/w"))?;
    // `userxattr`: what an overlay in a user namespace may store, and the same in all modes.
    // `volatile`: never wait for the disk; the layer is used once.
    for flag in ["userxattr", "volatile"] {
        rustix::mount::fsconfig_set_flag(&context, flag).tried(&format!("overlay {flag}"))?;
    }
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    mount_fs(&context, attributes).map_err(|failure| {
        super::unavailable(
            "The host's kernel cannot mount an overlay in a user namespace (Linux 5.11 or later \
             can; the module \"overlay\" must be loaded).",
            failure.internal,
        )
    })
}

/// Makes `root` the root and lets go of the old one.
pub(crate) fn pivot(root: &OwnedFd) -> Result<(), Failure> {
    let refused = |what: &str, errno: rustix::io::Errno| {
        super::unavailable(
            "The host does not let a process change its root (pivot_root).",
            format!("{what}: {errno}"),
        )
    };
    rustix::process::fchdir(root).map_err(|errno| refused("enter the root", errno))?;
    rustix::process::pivot_root(".", ".").map_err(|errno| refused("pivot_root", errno))?;
    // The old root lies on top of the new one now, under the same name.
    rustix::mount::unmount(".", UnmountFlags::DETACH)
        .map_err(|errno| refused("unmount the old root", errno))?;
    rustix::process::chdir("/").map_err(|errno| refused("enter /", errno))
}

/// Makes `root` the root, on top of the disk that its overlays write to, and lets go of the old one.
/// The disk becomes the root of the mount namespace. There is no path to it from what lies on it, and
/// nobody inside may take that off; a helper of the launcher does so in a copy of the namespace, to read
/// what was written (`pack::enter`).
pub(crate) fn pivot_over(root: &OwnedFd) -> Result<(), Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let disk = rustix::fs::open("d", flags, Mode::empty()).tried("open the disk")?;
    let onto = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(root, "", &disk, "", onto).tried("mount the root on the disk")?;
    pivot(&disk)?;
    // The root of this process is the disk now, with nothing but the new root on it.
    rustix::process::fchdir(root).tried("enter the root")?;
    rustix::process::chroot(".").tried("make it the root")?;
    rustix::process::chdir("/").tried("enter /")
}

/// The kernel's host name; the files that repeat it are the guest's.
pub(super) fn name(hostname: &str) -> Result<(), Failure> {
    rustix::system::sethostname(hostname.as_bytes()).tried("set the host name")
}

pub(super) fn open_fs(kind: &str) -> Result<OwnedFd, Failure> {
    rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).tried(&format!("open {kind}"))
}

pub(super) fn set(context: &OwnedFd, key: &str, value: &str) -> Result<(), Failure> {
    rustix::mount::fsconfig_set_string(context, key, value).tried(&format!("set {key}={value}"))
}

pub(super) fn mount_fs(context: &OwnedFd, attributes: MountAttrFlags) -> Result<OwnedFd, Failure> {
    rustix::mount::fsconfig_create(context).tried("make a file system")?;
    rustix::mount::fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .tried("mount a file system")
}

/// Puts a detached mount at a path of our own making.
fn attach(mount: &impl AsFd, place: &str) -> Result<(), Failure> {
    rustix::mount::move_mount(mount, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .tried(&format!("mount at {place}"))
}

fn mkdir(path: &str, mode: u32) -> Result<(), Failure> {
    rustix::fs::mkdir(path, Mode::from_raw_mode(mode)).tried(&format!("make {path}"))
}

/// Opens something below the staging area or the old root.
pub(super) fn open_path(path: &str) -> Result<OwnedFd, Failure> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .tried(&format!("open {path}"))
}
