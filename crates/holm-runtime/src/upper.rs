//! What a writable layer holds before anybody writes to it: for each overlay its upper and work
//! directory, and in the root's upper what is the sandbox's own. On an image all of it is there
//! from the start, because making it would cost every create half a millisecond.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

/// The sandbox user, as it is inside.
pub(crate) const USER: u32 = 1000;

/// Directories of the root's upper, and whether they are the user's.
const DIRS: [(&str, bool); 4] =
    [("etc", false), ("home", false), ("home/sandbox", true), ("workspace", true)];
/// Files of the root's upper, filled when the host name is known.
const FILES: [&str; 2] = ["etc/hostname", "etc/hosts"];

/// Makes it below `base`, for the root and for `trees`. Owners are set where there is more than
/// one: the caller is then root, here or inside.
pub(crate) fn lay_out<'a>(
    base: &Path,
    trees: impl Iterator<Item = &'a str>,
    owners: bool,
) -> io::Result<()> {
    for name in std::iter::once("root").chain(trees) {
        for dir in [name.to_owned(), format!("{name}/u"), format!("{name}/w")] {
            make_dir(&base.join(dir))?;
        }
    }
    let root = base.join("root/u");
    for (dir, is_users) in DIRS {
        let dir = root.join(dir);
        make_dir(&dir)?;
        if is_users && owners {
            chown(&dir, Some(USER), Some(USER))?;
        }
    }
    for file in FILES {
        let file = root.join(file);
        std::fs::write(&file, "")?;
        std::fs::set_permissions(&file, Permissions::from_mode(0o644))?;
    }
    Ok(())
}

/// Whatever the umask is.
fn make_dir(dir: &Path) -> io::Result<()> {
    std::fs::create_dir(dir)?;
    std::fs::set_permissions(dir, Permissions::from_mode(0o755))
}
