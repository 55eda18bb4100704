//! The builder: a short-lived child of the launcher that does one sandbox's slow steps with the
//! host's privileges, clones PID 1 (as the launcher's child, or the keeper's), and ends. It undoes
//! nothing itself: its descriptors go with it, and the launcher undoes the rest by name
//! (`launcher::undo`).

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, OpenTreeFlags};

use crate::cgroup::{Control as _, Group};
use crate::channel::Channel;
use crate::disk;
use crate::disk_ahead::DiskAhead;
use crate::driver::{DriverErrorKind, MountRo, Root};
use crate::failure::{Attempt, Failure};
use crate::ids::IdMap;
use crate::message::{Base, Disk, Layer, Order, Preparation, Report, Tree};
use crate::options::{DiskSize, Settings};
use crate::seccomp::Program;
use crate::step::{Step, perform};
use crate::sys::process::{Forked, Parentage, flag, fork_into};
use crate::{helper, jail, sys, template};

/// What is to be built, and with what.
pub(crate) struct Plan<'a> {
    pub settings: &'a Settings,
    pub group: Option<Group>,
    pub disk: &'a disk::Kind,
    /// One that is being made already.
    pub disk_ahead: Option<&'a DiskAhead>,
    pub size: DiskSize,
    pub ids: IdMap,
    pub root: Root,
    pub mounts: Vec<MountRo>,
    /// PID 1's end of its channel.
    pub init: Channel,
    /// A copy of the launcher's end.
    pub launcher: &'a Channel,
    /// Where to report.
    pub report: Channel,
    pub filter: &'a Program,
}

/// Runs in the child.
pub(crate) fn main(plan: &Plan<'_>) -> ! {
    sys::signals::reset();
    let mut kept =
        vec![0, 1, 2, plan.init.as_raw_fd(), plan.launcher.as_raw_fd(), plan.report.as_raw_fd()];
    kept.extend(plan.disk_ahead.map(AsRawFd::as_raw_fd));
    sys::fds::close_others(&kept);
    // Names are for whoever looks at the process list.
    let _ = rustix::thread::set_name(c"holm-builder");
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let outcome = helper::die_with_launcher().and_then(|()| build(plan));
    if let Err(failure) = outcome {
        // When the launcher is gone there is nobody to tell.
        let _ = plan.report.send(&Report::Failed(failure), &[]);
    }
    sys::process::exit_now(0)
}

fn build(plan: &Plan<'_>) -> Result<(), Failure> {
    let fault = plan.settings.fault;
    let data_dir = &plan.settings.data_dir;
    let template = perform(fault, Step::Template, || {
        disk::check_reserve(data_dir, plan.settings.disk_reserve_bytes)?;
        match &plan.root {
            Root::Host => template::ensure(data_dir).map(Some),
            Root::Layers(layers) => template::layers::usable(layers).map(|_| None),
            Root::Over(layers) => {
                template::layers::usable(layers)?;
                template::ensure(data_dir).map(Some)
            }
        }
    })?;
    if let Some(group) = &plan.group {
        perform(fault, Step::Cgroup, || group.make().tried("make the cgroup"))?;
    }
    let made = match (plan.disk, plan.disk_ahead) {
        (disk::Kind::Image, None) => Some(disk::make(data_dir, plan.size, fault)?),
        (disk::Kind::Memory { .. }, _) | (disk::Kind::Image, Some(_)) => None,
    };
    let (pid, pidfd) = perform(fault, Step::Clone, || clone_init(plan))?;
    perform(fault, Step::IdMap, || plan.ids.apply(pid))?;
    // One that is on its way is waited for as late as possible.
    let ahead = plan.disk_ahead.filter(|_| matches!(plan.disk, disk::Kind::Image));
    let disk = ahead.map_or(Ok(made), |ahead| ahead.take().map(Some))?;
    perform(fault, Step::Layers, || {
        let mount = disk.as_ref().map(|disk| disk.mount.as_fd());
        hand_over_layers(plan, template.as_ref(), pid, mount)
    })?;
    let mounts = hold_mounts(pid);
    let mut fds = vec![pidfd.as_fd()];
    fds.extend(mounts.as_ref().map(AsFd::as_fd));
    fds.extend(disk.as_ref().map(|disk| disk.root.as_fd()));
    let cloned = Report::Cloned { pid, mounts: mounts.is_some() };
    plan.report.send(&cloned, &fds).tried("report PID 1")?;
    Ok(())
}

/// PID 1's mounts, which live on for as long as somebody holds them: it can end without waiting for
/// the kernel to take them down. None where the kernel does not show them to us.
fn hold_mounts(pid: i32) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(format!("/proc/{pid}/ns/mnt"), flags, Mode::empty()).ok()
}

/// All namespaces but the cgroup one, which PID 1 makes itself once it is in its groups.
const NAMESPACES: u64 = flag(libc::CLONE_NEWUSER)
    | flag(libc::CLONE_NEWNS)
    | flag(libc::CLONE_NEWPID)
    | flag(libc::CLONE_NEWNET)
    | flag(libc::CLONE_NEWUTS)
    | flag(libc::CLONE_NEWIPC);

fn clone_init(plan: &Plan<'_>) -> Result<(i32, OwnedFd), Failure> {
    let cgroup = match &plan.group {
        Some(group @ Group::V2(_)) => Some(open_group(group)?),
        _ => None,
    };
    let into = cgroup.as_ref().map(AsRawFd::as_raw_fd);
    let doors = plan.group.as_ref().map_or(Ok(Vec::new()), Group::doors);
    let jail = jail::Start {
        doors: doors.tried("open the cgroups")?,
        lifetime: plan.settings.lifetime,
        gate: !plan.settings.without_gate,
        fault: plan.settings.fault,
        filter: plan.filter,
    };
    if let Some(owner) = plan.ids.owner() {
        act_as(owner)?;
    }
    let parentage = match plan.settings.lifetime.outlives_launcher() {
        false => Parentage::Sibling,
        // The keeper's, once we have left.
        true => Parentage::Child,
    };
    let forked = fork_into(NAMESPACES, parentage, into).map_err(no_namespaces);
    if let Ok(Forked::Child) = forked {
        jail::main(&plan.init, &jail)
    }
    if plan.ids.owner().is_some() {
        act_as(0)?;
    }
    match forked? {
        Forked::Parent(pid, pidfd) => Ok((pid.as_raw_nonzero().get(), pidfd)),
        Forked::Child => Err(Failure::internal("a child that went on")),
    }
}

/// Changes the effective user and nothing else: all capabilities stay in force, and so does the
/// signal at the launcher's death, which the kernel takes back with every change of user.
fn act_as(user: u32) -> Result<(), Failure> {
    use rustix::thread::{CapabilitySets, Uid, capabilities, set_capabilities};
    let (real, effective) = (rustix::process::getuid(), Uid::from_raw(user));
    let now = capabilities(None).tried("ask for capabilities")?;
    rustix::thread::set_thread_res_uid(real, effective, Uid::ROOT).map_err(not_another_user)?;
    set_capabilities(None, CapabilitySets { effective: now.permitted, ..now })
        .tried("keep the capabilities")?;
    helper::die_with_launcher()
}

fn not_another_user(errno: Errno) -> Failure {
    let failure = match errno {
        Errno::PERM => Failure::of(
            DriverErrorKind::IsolationUnavailable,
            "The host does not let this root act as the user of a sandbox; inside a container, holm \
             needs one that may do so (CAP_SETUID) and may mount (CAP_SYS_ADMIN).",
        ),
        _ => Failure::internal(""),
    };
    failure.because(format!("change the user: {errno}"))
}

fn open_group(group: &Group) -> Result<OwnedFd, Failure> {
    let dirs = group.dirs();
    let dir = dirs.first().ok_or_else(|| Failure::internal("a group without a directory"))?;
    rustix::fs::open(*dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .tried("open the cgroup")
}

/// Says what is missing and how to mend it.
pub(crate) fn no_namespaces(errno: Errno) -> Failure {
    let mend = match errno {
        Errno::NOSPC | Errno::USERS => {
            "The host allows no (further) user namespaces: raise the sysctl user.max_user_namespaces \
             and its siblings, user.max_*_namespaces."
        }
        Errno::PERM | Errno::ACCESS => {
            "The host does not let this user make namespaces: set the sysctl \
             kernel.unprivileged_userns_clone=1 (Debian) or \
             kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or in a container start it \
             with a profile that allows user namespaces."
        }
        Errno::INVAL | Errno::NOSYS => {
            "The host's kernel lacks namespaces of some kind (user, mount, pid, net, uts, ipc), or \
             a container's filter hides the calls that make them: start the container with a \
             profile that allows user namespaces."
        }
        Errno::AGAIN | Errno::NOMEM => {
            return Failure::of(
                DriverErrorKind::HostExhausted,
                "The host has no room for further processes.",
            )
            .because(errno);
        }
        _ => "The host's kernel refused new namespaces.",
    };
    Failure::of(DriverErrorKind::IsolationUnavailable, mend).because(errno)
}

/// Sends PID 1 its layers. As root they are detached mounts with mapped ids; an ordinary user
/// cannot make such mounts here, so PID 1 opens the paths in its own namespace.
fn hand_over_layers(
    plan: &Plan<'_>,
    template: Option<&template::Ready>,
    pid: i32,
    disk: Option<BorrowedFd<'_>>,
) -> Result<(), Failure> {
    let as_root = matches!(plan.ids, IdMap::Range { .. });
    let mut fds: Vec<OwnedFd> = Vec::new();
    let userns = if as_root {
        let path = format!("/proc/{pid}/ns/user");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Some(rustix::fs::open(path, flags, Mode::empty()).tried("open the user namespace")?)
    } else {
        None
    };
    let mut layer = |path: &Path| -> Result<Layer, Failure> {
        let Some(userns) = &userns else { return Ok(Layer::Path(path.to_owned())) };
        fds.push(mapped_layer(path, userns.as_fd())?);
        Ok(Layer::Fd)
    };
    let base = match (&plan.root, template) {
        (Root::Layers(layers), _) => {
            let layers = template::layers::usable(layers)?;
            Base::Layers(layers.into_iter().map(&mut layer).collect::<Result<_, _>>()?)
        }
        (Root::Host, Some(template)) => host_base(template, &[], &mut layer)?,
        (Root::Over(layers), Some(template)) => {
            host_base(template, &template::layers::usable(layers)?, &mut layer)?
        }
        (Root::Host | Root::Over(_), None) => return Err(Failure::internal("no host template")),
    };
    if let (Some(disk), Some(userns)) = (disk, &userns) {
        sys::mounts::set_attributes(disk, MountAttrFlags::empty(), Some(userns.as_fd()), false)
            .tried("map the ids of the disk")?;
    }
    if as_root {
        for mount in &plan.mounts {
            fds.push(shown_mount(&mount.host)?);
        }
    }
    let message = Order::Prepare(Box::new(Preparation {
        ids: plan.ids,
        base,
        disk: if disk.is_some() { Disk::Fd } else { Disk::Memory(plan.size) },
        mounts: plan.mounts.clone(),
        mounts_by_fd: as_root,
    }));
    let mut all: Vec<BorrowedFd<'_>> = disk.into_iter().collect();
    all.extend(fds.iter().map(AsFd::as_fd));
    plan.launcher.send(&message, &all).tried("hand the layers to PID 1")
}

fn host_base(
    template: &template::Ready,
    over: &[&Path],
    mut layer: impl FnMut(&Path) -> Result<Layer, Failure>,
) -> Result<Base, Failure> {
    let skeleton = layer(&template.skeleton)?;
    let mut trees = Vec::new();
    for tree in &template.trees {
        let lower = layer(&Path::new("/").join(&tree.name))?;
        let hide = tree.hide.as_deref().map(&mut layer).transpose()?;
        trees.push(Tree { name: tree.name.clone(), lower, hide });
    }
    let over = over.iter().map(|path| layer(path)).collect::<Result<_, _>>()?;
    Ok(Base::Host { skeleton, trees, over })
}

fn mapped_layer(path: &Path, userns: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let mount = rustix::mount::open_tree(CWD, path, flags)
        .tried(&format!("open layer {}", path.display()))?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    sys::mounts::set_attributes(&mount, attributes, Some(userns), false)
        .tried(&format!("map the ids of layer {}", path.display()))?;
    Ok(mount)
}

/// A host path that the user asked to see inside, as a detached read-only mount.
pub(crate) fn shown_mount(path: &Path) -> Result<OwnedFd, Failure> {
    let bad = |errno: Errno| {
        let text = format!("The --mount-ro source {} cannot be used: {errno}.", path.display());
        Failure::of(DriverErrorKind::BadMount, text)
    };
    // The path is passed on as it is; a NUL in it is the caller's mistake.
    let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| bad(Errno::INVAL))?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let mount = rustix::mount::open_tree(CWD, name.as_c_str(), flags).map_err(bad)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    sys::mounts::set_attributes(&mount, attributes, None, true).map_err(bad)?;
    Ok(mount)
}
