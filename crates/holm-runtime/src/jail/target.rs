//! Places to mount on, found by descriptor and never outside the sandbox's own root, whatever
//! links a template or an image has there.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::MoveMountFlags;

/// How often the kernel may say that it could not tell.
const TRIES: usize = 1000;

/// Links count as seen from `root`; links of /proc that lead elsewhere are refused.
pub(super) fn resolve(root: &impl AsFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    again(|| {
        rustix::fs::openat2(
            root,
            path,
            flags | OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        )
    })
}

/// A step upwards (`..`) is refused with EAGAIN while somebody anywhere on the host mounts or
/// renames, because the kernel cannot tell then whether it led out of the root.
fn again<T>(mut open: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 1..TRIES {
        match open() {
            Err(Errno::AGAIN) => std::thread::yield_now(),
            other => return other,
        }
    }
    open()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_is_tried_again_and_nothing_else() {
        for (answers, want, calls) in [
            (vec![Err(Errno::AGAIN), Err(Errno::AGAIN), Ok(1)], Ok(1), 3),
            (vec![Err(Errno::AGAIN), Err(Errno::XDEV)], Err(Errno::XDEV), 2),
            (vec![Err(Errno::NOENT)], Err(Errno::NOENT), 1),
            (vec![Err(Errno::AGAIN); TRIES + 1], Err(Errno::AGAIN), TRIES),
        ] {
            let mut called = 0;
            let got = again(|| {
                called += 1;
                answers[called - 1]
            });
            assert_eq!((got, called), (want, calls));
        }
    }
}
