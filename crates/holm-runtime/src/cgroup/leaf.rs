//! A place for our own processes below their group of the unified hierarchy: a group that hands
//! controllers down may have none itself.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::discover::make_dir;
use super::{processes, write};

/// It stays, because nobody in it can remove it. A service manager or a container removes it with
/// the group that it is in.
pub(super) const NAME: &str = "holm.leaf";

/// Moves all processes of a group into its leaf. False when there are others than ours: these are
/// not for us to move, and all stay.
pub(super) fn enter(own: &Path, is_ours: impl Fn(u32) -> bool) -> io::Result<bool> {
    let members = processes(own)?;
    if members.is_empty() || !members.iter().all(|pid| is_ours(*pid)) {
        return Ok(false);
    }
    let leaf = own.join(NAME);
    make_dir(&leaf)?;
    for pid in members {
        match write(&leaf, "cgroup.procs", pid) {
            // It has ended.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            other => other?,
        }
    }
    Ok(true)
}

/// True for a process of the very program that this one runs.
pub(super) fn is_ours(pid: u32) -> bool {
    let program =
        |pid: &str| std::fs::metadata(format!("/proc/{pid}/exe")).map(|m| (m.dev(), m.ino()));
    matches!((program("self"), program(&pid.to_string())), (Ok(own), Ok(other)) if own == other)
}
