//! Places to mount on, found by descriptor and never outside the sandbox's own root, whatever
//! links a template or an image has there.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::MoveMountFlags;

/// Links count as seen from `root`; links of /proc that lead elsewhere are refused.
pub(super) fn resolve(root: &impl AsFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat2(
        root,
        path,
        flags | OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )
}

/// An existing directory.
pub(super) fn directory(root: &impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    resolve(root, path, OFlags::DIRECTORY)
}

/// A directory, made with those above it where it does not exist.
pub(super) fn make_directory(root: &impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    let mut at = directory(root, ".")?;
    let mut so_far = String::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            return Err(Errno::INVAL);
        }
        so_far.push('/');
        so_far.push_str(part);
        at = match directory(root, &so_far) {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                rustix::fs::mkdirat(&at, part, Mode::from_raw_mode(0o755))?;
                directory(root, &so_far)?
            }
            Err(errno) => return Err(errno),
        };
    }
    Ok(at)
}

/// Puts a detached mount on a place.
pub(super) fn move_to(mount: &impl AsFd, place: &impl AsFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, "", place, "", flags)
}
