//! Which extended attributes of an image are kept.
//!
//! | name | |
//! | --- | --- |
//! | `user.overlay.*`, `trusted.*` | refused: they would steer the overlay, or belong to the host. What a //! sandbox has written says of a directory that it hides what is below it (`user.overlay.opaque`) |
//! | other `user.*` | kept, on files and directories |
//! | `security.capability` | kept on files, where owners can be kept; without effect in sandboxes, whose mounts are nosuid |
//! | all else | left out |

use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fsetxattr};
use rustix::io::Errno;

use super::name::{refused, show};
use super::task::Form;
use crate::error::{Attempt as _, Result};
use crate::tar::{Entry, Kind};

const OPAQUE: &[u8] = b"user.overlay.opaque";

/// True of a directory that hides what lower layers have below it; images say that otherwise.
pub(super) fn is_opaque(entry: &Entry) -> bool {
    entry.xattrs.iter().any(|(name, value)| name == OPAQUE && value == b"y")
}

/// Refuses an entry with one that must not be.
pub(super) fn check(entry: &Entry, form: Form) -> Result<()> {
    let known = form == Form::Overlay && entry.kind == Kind::Directory;
    let bad = |name: &[u8]| {
        let overlays = name.starts_with(b"user.overlay.") && !(known && name == OPAQUE);
        overlays || name.starts_with(b"trusted.")
    };
    match entry.xattrs.iter().find(|(name, _)| bad(name)) {
        Some((name, _)) => {
            let text = format!("it has the extended attribute `{}`", show(name));
            Err(refused(&entry.path, &text))
        }
        None => Ok(()),
    }
}

/// Sets those that are kept.
pub(super) fn set(entry: &Entry, file: impl AsFd, capabilities: bool) -> Result<()> {
    for (name, value) in &entry.xattrs {
        let capability = name == b"security.capability";
        let kept = (name.starts_with(b"user.") && name != OPAQUE)
            || (capability && capabilities && entry.kind == Kind::File);
        if !kept {
            continue;
        }
        match fsetxattr(&file, name.as_slice(), value, XattrFlags::empty()) {
            Err(Errno::INVAL | Errno::RANGE | Errno::TOOBIG | Errno::NOSPC) => {
                let text = format!("its extended attribute `{}` cannot be kept", show(name));
                return Err(refused(&entry.path, &text));
            }
            // A file system without capabilities; they have no effect in a sandbox anyway.
            Err(Errno::PERM | Errno::OPNOTSUPP) if capability => {}
            other => other.tried("set an extended attribute")?,
        }
    }
    Ok(())
}
