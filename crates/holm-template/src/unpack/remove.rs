//! Removing what was unpacked, however deep and wide it is.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, openat, unlinkat};
use rustix::io::Errno;

use super::tree::Place;
use crate::error::{Attempt as _, Result};

/// Removes what is not a directory.
pub(super) fn file(directory: &OwnedFd, name: &CStr) -> std::result::Result<(), Errno> {
    unlinkat(directory, name, AtFlags::empty())
}

/// Removes an entry, with all that is below it.
pub(super) fn entry(directory: &OwnedFd, name: &CStr) -> Result<()> {
    match file(directory, name) {
        Err(Errno::ISDIR) => {
            let place =
                Place { directory: directory.try_clone().tried("hold")?, name: name.into() };
            everything(&open(&place.directory, name).tried("open a directory")?)?;
            unlinkat(directory, name, AtFlags::REMOVEDIR).tried("remove a directory")
        }
        other => other.tried("remove an entry"),
    }
}

/// Empties a directory. Goes down and up again in one descriptor, because hostile trees are deeper than
/// a process has descriptors or stack.
pub(super) fn everything(top: &OwnedFd) -> Result<()> {
    let mut at = top.try_clone().tried("hold a directory")?;
    // Of each directory on the way: its name, and names in it that are still to be removed.
    let mut way: Vec<(CString, Vec<CString>)> = Vec::new();
    let mut names = some(&at)?;
    loop {
        let Some(name) = names.pop() else {
            names = some(&at)?;
            if !names.is_empty() {
                continue;
            }
            let Some((own, rest)) = way.pop() else { return Ok(()) };
            at = open(&at, c"..").tried("go up")?;
            unlinkat(&at, &own, AtFlags::REMOVEDIR).tried("remove a directory")?;
            names = rest;
            continue;
        };
        match file(&at, &name) {
            Err(Errno::ISDIR) => match unlinkat(&at, &name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY) => {
                    at = open(&at, &name).tried("go down")?;
                    way.push((name, std::mem::replace(&mut names, some(&at)?)));
                }
                other => other.tried("remove a directory")?,
            },
            other => other.tried("remove an entry")?,
        }
    }
}

/// What one call gives of a directory's names; none when it is empty.
fn some(directory: &OwnedFd) -> Result<Vec<CString>> {
    // Anew from the beginning: what was removed is no longer there.
    let again = open(directory, c".").tried("read a directory")?;
    let mut buffer = Vec::with_capacity(32 << 10);
    let mut entries = RawDir::new(&again, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry.tried("read a directory")?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
        if entries.is_buffer_empty() && !names.is_empty() {
            break;
        }
    }
    Ok(names)
}

fn open(at: &OwnedFd, name: &CStr) -> std::result::Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}
