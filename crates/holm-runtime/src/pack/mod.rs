//! What a sandbox has written, as an archive: the upper directories of its overlays, read by a process
//! that has stepped below the sandbox's root, can change nothing there and reach nothing else.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`enter`] | the way below the root, where the disk is mounted, and what is given up there |
//! | [`walk`] | entries of the archive, from what the overlay has written |
//! | [`holes`] | where the bytes of a file are |
//! | [`stream`] | the outer end, for whoever wants the archive |
//!
//! The archive is of our own form, because that of images has no room for files whose names begin with
//! `.wh.`: a whiteout is a character device 0:0, and what hides everything below it has the attribute
//! `user.overlay.opaque`. Entries come in the same order whenever the same files are read.

mod enter;
mod holes;
mod stream;
mod walk;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::ids::IdMap;

pub use stream::LayerStream;
pub(crate) use stream::for_caller;

/// What an archive of a sandbox's files has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    /// Entries, whiteouts among them.
    pub entries: u64,
    /// Bytes of files, without holes.
    pub bytes: u64,
    /// Sockets, which have no form in an archive.
    pub left_out: u64,
    /// Nothing ran inside meanwhile. Not so where the host gives no group that can be stopped.
    pub paused: bool,
}

/// What the process says at its end.
pub(crate) type Report = Result<Packed, Failure>;

/// Makes an archive of what the sandbox behind that descriptor has written, and reports. `paused` is
/// what the caller has seen to.
pub(crate) fn pack(
    init: &OwnedFd,
    ids: IdMap,
    paused: bool,
    out: OwnedFd,
    report: OwnedFd,
) -> Result<(), Failure> {
    let packed = enter::below(init, ids).and_then(|disk| {
        let mut walk = walk::Walk::new(File::from(out));
        walk.all(&disk).map_err(walk::Failed::into_failure)?;
        Ok(Packed { paused, ..walk.packed() })
    });
    tell(report, &packed).map_err(|error| Failure::internal(format!("report: {error}")))
}

/// Writes a report. Where nobody reads it any more there is nobody to tell.
pub(crate) fn tell(report: OwnedFd, packed: &Report) -> io::Result<()> {
    File::from(report).write_all(&serde_json::to_vec(packed)?)
}
