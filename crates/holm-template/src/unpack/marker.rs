//! Whiteouts and opaque directories: how an image says what a layer takes away, and how an overlay
//! with `userxattr` says it.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, Stat, XattrFlags, fsetxattr};
use rustix::io::Errno;

use super::name::{Name, c_string, refused};
use super::tree::{Place, Tree};
use crate::error::{Attempt as _, Result, TemplateError, TemplateErrorKind};

/// What names of whiteouts begin with.
pub(super) const PREFIX: &[u8] = b".wh.";
/// The whole name of the mark of an opaque directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Other marks that a file system of long ago left in images. They say nothing.
const OLD: &[u8] = b".wh..wh.";

/// Takes an entry that is a marker. False when it is none.
pub(super) fn take(tree: &mut Tree, name: &Name) -> Result<bool> {
    let Some(hidden) = name.own.strip_prefix(PREFIX) else { return Ok(false) };
    if name.own == OPAQUE {
        let place = tree.place(&Name { above: name.above.clone(), own: b".".into() })?;
        set_opaque(&place.directory)?;
        return Ok(true);
    }
    if name.own.starts_with(OLD) {
        return Ok(true);
    }
    if matches!(hidden, b"" | b"." | b"..") {
        return Err(refused(&name.full(), "it takes nothing away that can have a name"));
    }
    let place = tree.place(name)?;
    hide(&Place { name: c_string(hidden)?, ..place })?;
    Ok(true)
}

/// Hides what lower layers have under a name. What this layer has there stays, and hides it anyway.
pub(super) fn hide(place: &Place) -> Result<()> {
    match place.stat()? {
        None => {
            rustix::fs::mknodat(
                &place.directory,
                &place.name,
                FileType::CharacterDevice,
                Mode::empty(),
                0,
            )
            .tried("make a whiteout")?;
            // Where only this layer has the directory, the kernel lists it as it is, whiteouts too,
            // unless this says that it may hold some.
            set(&place.directory, "user.overlay.origin", b"")
        }
        Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            let flags = rustix::fs::OFlags::RDONLY
                | rustix::fs::OFlags::DIRECTORY
                | rustix::fs::OFlags::NOFOLLOW
                | rustix::fs::OFlags::CLOEXEC;
            let directory = rustix::fs::openat(&place.directory, &place.name, flags, Mode::empty())
                .tried("open a directory")?;
            set_opaque(&directory)
        }
        Some(_) => Ok(()),
    }
}

/// Hides everything that lower layers have below a directory.
pub(super) fn set_opaque(directory: &OwnedFd) -> Result<()> {
    set(directory, "user.overlay.opaque", b"y")
}

fn set(directory: &OwnedFd, name: &str, value: &[u8]) -> Result<()> {
    match fsetxattr(directory, name, value, XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => Err(TemplateError::new(
            TemplateErrorKind::Unsupported,
            "the file system of the data directory has no extended attributes, without which layers \
             cannot be kept; choose another one with HOLM_DATA_DIR (ext4, xfs and btrfs have them)",
        )),
        other => other.tried("mark a directory"),
    }
}

/// True for what an overlay takes for a whiteout.
pub(super) fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}
