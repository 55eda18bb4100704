//! Host files and directories that `holm run --mount-ro` shows inside, read-only.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::target;
use crate::builder::shown_mount;
use crate::driver::{DriverErrorKind, MountRo};
use crate::failure::{Attempt, Failure};
use crate::message::Preparation;

/// Mounts of the sources: given by the builder, or opened here, before the old root goes.
pub(super) fn open(
    preparation: &Preparation,
    given: Vec<OwnedFd>,
) -> Result<Vec<OwnedFd>, Failure> {
    if preparation.mounts_by_fd {
        return Ok(given);
    }
    preparation.mounts.iter().map(|mount| shown_mount(&mount.host)).collect()
}

/// Puts them in their places.
pub(super) fn attach(mounts: &[MountRo], fds: Vec<OwnedFd>) -> Result<(), Failure> {
    if mounts.is_empty() {
        return Ok(());
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty()).tried("open the root")?;
    for (mount, fd) in mounts.iter().zip(fds) {
        attach_one(&root, &mount.inside, &fd).map_err(|errno| {
            let text = format!(
                "The --mount-ro target {:?} cannot be used ({errno}): choose a path that is not part \
                 of the system's tree, such as /src or below /workspace.",
                mount.inside
            );
            Failure::of(DriverErrorKind::BadMount, text)
        })?;
    }
    Ok(())
}

/// Targets that would hide what the sandbox stands on.
const REFUSED: [&str; 4] = ["proc", "dev", "sys", "etc"];

fn attach_one(root: &OwnedFd, inside: &str, fd: &OwnedFd) -> Result<(), Errno> {
    let parts: Vec<&str> = inside.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
    let (Some(last), Some(first)) = (parts.last(), parts.first()) else { return Err(Errno::INVAL) };
    let whole = parts.len() == 1 && ["usr", "bin", "lib", "lib64", "sbin"].contains(first);
    let below = REFUSED.contains(first) && (*first != "etc" || parts.len() == 1);
    if !inside.starts_with('/') || whole || below || parts.contains(&"..") {
        return Err(Errno::INVAL);
    }
    let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
    if kind == FileType::Directory {
        let place = target::make_directory(root, inside)?;
        return target::move_to(fd, &place);
    }
    let parent = target::make_directory(root, &parts[..parts.len() - 1].join("/"))?;
    let path = parts.join("/");
    let place = match target::resolve(root, &path, OFlags::empty()) {
        Err(Errno::NOENT) => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(&parent, *last, flags, Mode::from_raw_mode(0o644))?;
            target::resolve(root, &path, OFlags::empty())?
        }
        other => other?,
    };
    target::move_to(fd, &place)
}
