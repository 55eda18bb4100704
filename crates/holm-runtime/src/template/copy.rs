//! Copies parts of the host's /etc into a template: only what everyone may read, and bounded.

use std::io;
use std::path::Path;

use super::{make_dir, make_file};

/// No configuration file of the kinds that we copy is larger.
const MAX_FILE: u64 = 4 << 20;
/// Bound on all that is copied.
const MAX_ENTRIES: usize = 20_000;
/// Bound on the depth.
const MAX_DEPTH: usize = 12;

/// Copies `from` (a file, link or tree; absent is fine) to `to`. `keep` decides on names.
pub(super) fn tree(
    from: &Path,
    to: &Path,
    keep: &dyn Fn(&str) -> bool,
    entries: &mut usize,
) -> io::Result<()> {
    walk(from, to, keep, entries, 0)
}

fn walk(
    from: &Path,
    to: &Path,
    keep: &dyn Fn(&str) -> bool,
    entries: &mut usize,
    depth: usize,
) -> io::Result<()> {
    let Ok(meta) = std::fs::symlink_metadata(from) else { return Ok(()) };
    *entries += 1;
    if *entries > MAX_ENTRIES
        || depth > MAX_DEPTH
        || to.symlink_metadata().is_ok_and(|m| !m.is_dir())
    {
        return Ok(());
    }
    let kind = meta.file_type();
    if kind.is_symlink() {
        return std::os::unix::fs::symlink(std::fs::read_link(from)?, to);
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&meta.permissions());
    if kind.is_file() {
        if mode & 0o004 == 0 || meta.len() > MAX_FILE {
            return Ok(());
        }
        return make_file(to, &std::fs::read(from)?, if mode & 0o001 == 0 { 0o644 } else { 0o755 });
    }
    if !kind.is_dir() || mode & 0o005 != 0o005 {
        return Ok(());
    }
    if !to.is_dir() {
        make_dir(to, 0o755)?;
    }
    for entry in std::fs::read_dir(from)? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(keep) {
            walk(&from.join(&name), &to.join(&name), keep, entries, depth + 1)?;
        }
    }
    Ok(())
}
