//! The root of a sandbox that stands on layers of an image.
//!
//! The image is not believed: where something of ours must be, whatever it has there gives way, in
//! the writable layer. Its links are followed for /etc alone, and never beyond the root.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::target;
use crate::failure::{Attempt, Failure};

/// What the kernel's own file systems are mounted on.
const MOUNT_POINTS: [&str; 2] = ["proc", "dev"];

/// Files that are the sandbox's own, which the guest fills.
const OWN_FILES: [&str; 2] = ["hostname", "hosts"];

/// Bytes of a value that the kernel takes from `fsconfig`.
const LONGEST_VALUE: usize = 255;

/// The name of a layer in the staging area. Short, because the kernel takes all names as one short
/// text, where it does not take them one by one.
pub(super) fn layer_name(number: usize) -> String {
    // Without the names that the staging area has for other things.
    const DIGITS: &[u8] = b"0123456789abcfghijklmnopqtuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let digit = |value: usize| char::from(DIGITS[value % DIGITS.len()]);
    match number / DIGITS.len() {
        0 => digit(number).to_string(),
        more => [digit(more - 1), digit(number)].iter().collect(),
    }
}

/// The names of so many layers, the uppermost one first.
pub(super) fn layer_names(count: usize) -> Vec<String> {
    (0..count).rev().map(layer_name).collect()
}

/// How an overlay is told its lower layers, the uppermost one first: keys and values.
pub(super) fn lowers(names: Vec<String>) -> Vec<(&'static str, String)> {
    let all = names.join(":");
    if all.len() <= LONGEST_VALUE {
        return vec![("lowerdir", all)];
    }
    // One by one, as Linux 6.7 and later can.
    names.into_iter().map(|name| ("lowerdir+", name)).collect()
}

/// Makes room for what is ours below the new root. Answers its /etc.
pub(super) fn prepare(root: &OwnedFd) -> Result<OwnedFd, Failure> {
    for name in MOUNT_POINTS {
        own_directory(root, name, 0o755).tried(&format!("make a place for /{name}"))?;
    }
    if target::directory(root, "tmp").is_err() {
        own_directory(root, "tmp", 0o1777).tried("make /tmp")?;
    }
    let etc = match target::directory(root, "etc") {
        Ok(etc) => etc,
        Err(_) => own_directory(root, "etc", 0o755).tried("make /etc")?,
    };
    for name in OWN_FILES {
        own_file(&etc, name, "").tried(&format!("make /etc/{name}"))?;
    }
    Ok(etc)
}

/// Makes what is the sandbox's own from the start and layers over the host's programs lack. `owners`:
/// there is more than one user inside.
pub(super) fn own_places(root: &OwnedFd, owners: bool) -> Result<(), Failure> {
    let home = match target::directory(root, "home") {
        Ok(home) => home,
        Err(_) => own_directory(root, "home", 0o755).tried("make /home")?,
    };
    for (above, name) in [(&home, "sandbox"), (root, "workspace")] {
        // Whatever it is by now.
        if rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            continue;
        }
        own_directory(above, name, 0o755).tried(&format!("make the user's {name}"))?;
        if owners {
            let user = Some(rustix::fs::Uid::from_raw(crate::upper::USER));
            let group = Some(rustix::fs::Gid::from_raw(crate::upper::USER));
            rustix::fs::chownat(above, name, user, group, AtFlags::SYMLINK_NOFOLLOW)
                .tried(&format!("give {name} to the user"))?;
        }
    }
    Ok(())
}

/// A directory of that name, the one that is there or an empty one in the place of what is there.
/// No link is followed.
fn own_directory(root: &OwnedFd, name: &str, mode: u32) -> Result<OwnedFd, Errno> {
    let open = || {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(root, name, flags, Mode::empty())
    };
    match rustix::fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(facts) if FileType::from_raw_mode(facts.st_mode) == FileType::Directory => {
            return open();
        }
        Ok(_) => rustix::fs::unlinkat(root, name, AtFlags::empty())?,
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    rustix::fs::mkdirat(root, name, Mode::from_raw_mode(mode))?;
    let made = open()?;
    // What the umask has taken away.
    rustix::fs::chmodat(root, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
    Ok(made)
}

/// A new file in the place of what is there. A directory that an image has there stays: then the
/// sandbox has no such file.
pub(crate) fn own_file(dir: &OwnedFd, name: &str, text: &str) -> Result<(), Errno> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(Errno::ISDIR) => return Ok(()),
        Err(errno) => return Err(errno),
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o644))?;
    rustix::io::write(&file, text.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::driver::Root;

    #[test]
    fn names_are_short_and_differ() {
        let names: BTreeSet<_> = (0..Root::MAX_LAYERS).map(layer_name).collect();
        assert_eq!(names.len(), Root::MAX_LAYERS);
        assert!(names.iter().all(|name| name.len() <= 2));
    }

    #[test]
    fn layers_are_told_in_one_text_while_the_kernel_takes_it() {
        let lowers = |count| lowers(layer_names(count));
        assert_eq!(lowers(1), [("lowerdir", "0".to_owned())]);
        assert_eq!(lowers(3), [("lowerdir", "2:1:0".to_owned())]);
        let sixty = lowers(60);
        assert!(sixty.len() == 1 && sixty[0].1.len() <= LONGEST_VALUE, "{sixty:?}");
        let all = lowers(Root::MAX_LAYERS);
        assert_eq!(all.len(), Root::MAX_LAYERS);
        assert_eq!(all.last(), Some(&("lowerdir+", "0".to_owned())));
    }
}
