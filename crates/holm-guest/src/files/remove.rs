//! Removing a tree of any depth with one open directory and no recursion: a sandbox can nest
//! directories far deeper than a thread's stack or the number of descriptors allow.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, openat, unlinkat};
use rustix::io::Errno;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// A directory on the way down: its name in the one above, and which one that was.
struct Level {
    name: CString,
    device: u64,
    inode: u64,
}

/// Removes what `path` names, with all below. Links are removed, not followed.
///
/// # Errors
/// The first thing that cannot be removed. What was removed until then is gone.
pub fn remove(path: &CStr) -> rustix::io::Result<()> {
    match unlinkat(CWD, path, AtFlags::empty()) {
        // The kernel says EISDIR for directories, other file systems EPERM.
        Err(Errno::ISDIR | Errno::PERM) => {}
        other => return other,
    }
    let facts = rustix::fs::lstat(path)?;
    if !FileType::from_raw_mode(facts.st_mode).is_dir() {
        return Err(Errno::PERM);
    }
    match empty(openat(CWD, path, DIRECTORY, Mode::empty())?) {
        Ok(()) => unlinkat(CWD, path, AtFlags::REMOVEDIR),
        Err(error) => Err(error),
    }
}

fn empty(top: OwnedFd) -> rustix::io::Result<()> {
    let mut levels: Vec<Level> = Vec::new();
    let mut current = top;
    loop {
        if let Some(name) = clear(&current)? {
            let facts = rustix::fs::fstat(&current)?;
            let below = openat(&current, &name, DIRECTORY, Mode::empty())?;
            levels.push(Level { name, device: facts.st_dev, inode: facts.st_ino });
            current = below;
            continue;
        }
        let Some(level) = levels.pop() else { return Ok(()) };
        let above = openat(&current, c"..", DIRECTORY, Mode::empty())?;
        let facts: Stat = rustix::fs::fstat(&above)?;
        if (facts.st_dev, facts.st_ino) != (level.device, level.inode) {
            // Somebody moved the directory away while it was being emptied.
            return Err(Errno::BUSY);
        }
        unlinkat(&above, &level.name, AtFlags::REMOVEDIR)?;
        current = above;
    }
}

/// Removes all entries that are not directories; gives the first directory.
fn clear(directory: &OwnedFd) -> rustix::io::Result<Option<CString>> {
    // A few passes: on some file systems removing while reading skips entries.
    loop {
        rustix::fs::seek(directory, rustix::fs::SeekFrom::Start(0))?;
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut reader = RawDir::new(directory, buffer.spare_capacity_mut());
        let mut removed = false;
        while let Some(entry) = reader.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            match unlinkat(directory, name, AtFlags::empty()) {
                Ok(()) => removed = true,
                Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => return Ok(Some(name.to_owned())),
                Err(Errno::PERM) if is_directory(directory, name) => {
                    return Ok(Some(name.to_owned()));
                }
                Err(error) => return Err(error),
            }
        }
        if !removed {
            return Ok(None);
        }
    }
}

fn is_directory(directory: &OwnedFd, name: &CStr) -> bool {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode).is_dir())
}
