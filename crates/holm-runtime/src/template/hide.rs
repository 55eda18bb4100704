//! Finds entries of a host tree that not everyone may read, and makes a layer that hides them.
//!
//! Root inside a sandbox owns the mapped tree, so without this it could read what on the host only
//! root may read.

use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode};
use serde::{Deserialize, Serialize};

use super::{Draft, Fingerprint, make_dir};
use crate::failure::{Attempt, Failure};

/// After this a look is repeated even if nothing seems to have changed: a change of a file's mode
/// leaves no trace in its directory.
const MAX_AGE: Duration = Duration::from_secs(600);

/// The result of a look, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Look {
    fingerprint: u64,
    taken: SystemTime,
    /// Directory of the layer; none when nothing must be hidden.
    layer: Option<PathBuf>,
}

/// The layer of the last look if that is recent and fits. `None` when a new look is due.
#[allow(clippy::option_option, reason = "fresh or not, and with a layer or without one")]
pub(super) fn fresh(dir: &Path, tree: &str) -> Option<Option<PathBuf>> {
    let text = std::fs::read(look_file(dir, tree)).ok()?;
    let look: Look = serde_json::from_slice(&text).ok()?;
    let age = look.taken.elapsed().ok()?;
    let there = look.layer.as_ref().is_none_or(|layer| layer.is_dir());
    let fits = age < MAX_AGE && there && look.fingerprint == fingerprint(tree);
    fits.then_some(look.layer)
}

/// Looks through a tree. The caller holds the lock of the templates.
pub(super) fn scan(dir: &Path, tree: &str) -> Result<Option<PathBuf>, Failure> {
    // The state before the look, so that a change during it makes the next one due.
    let fingerprint = fingerprint(tree);
    let taken = SystemTime::now();
    let root = Path::new("/").join(tree);
    let mut hidden = Vec::new();
    look(&root, Path::new(""), &mut hidden);
    hidden.sort();
    let layer = if hidden.is_empty() { None } else { Some(make_layer(dir, tree, &root, &hidden)?) };
    let look = Look { fingerprint, taken, layer: layer.clone() };
    let text = serde_json::to_vec(&look).tried("encode a look")?;
    let draft = dir.join(format!("draft-{tree}.json"));
    let mut options = std::fs::File::options();
    options.create(true).write(true).truncate(true).mode(0o600);
    let mut file = options.open(&draft).tried("write a look")?;
    io::Write::write_all(&mut file, &text).tried("write a look")?;
    std::fs::rename(&draft, look_file(dir, tree)).tried("keep a look")?;
    Ok(layer)
}

fn look_file(dir: &Path, tree: &str) -> PathBuf {
    dir.join(format!("hidden-{tree}.json"))
}

/// Changes with entries of the tree's first two levels and with installed packages.
fn fingerprint(tree: &str) -> u64 {
    let root = Path::new("/").join(tree);
    let mut print = Fingerprint::new();
    print.add_path(&root);
    print.add_path(Path::new("/var/lib/dpkg/status"));
    print.add_path(Path::new("/usr/lib/sysimage/rpm"));
    let mut first: Vec<PathBuf> = below(&root);
    first.sort();
    for path in first {
        print.add_path(&path);
        // The large flat directories are covered by their own time.
        if path.file_name().is_some_and(|name| name == "local") {
            let mut second = below(&path);
            second.sort();
            second.iter().for_each(|path| print.add_path(path));
        }
    }
    print.0
}

fn below(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir)
        .map(|list| list.flatten().map(|e| e.path()).collect())
        .unwrap_or_default()
}

/// Collects paths below `root` that must be hidden. What cannot be looked at is hidden too.
fn look(root: &Path, at: &Path, hidden: &mut Vec<PathBuf>) {
    let Ok(list) = std::fs::read_dir(root.join(at)) else {
        hidden.push(at.to_owned());
        return;
    };
    for entry in list.flatten() {
        let path = at.join(entry.file_name());
        let Ok(kind) = entry.file_type() else {
            hidden.push(path);
            continue;
        };
        if kind.is_symlink() {
            continue;
        }
        let mode = entry.metadata().map_or(0, |meta| meta.mode());
        let open = if kind.is_dir() { mode & 0o005 == 0o005 } else { mode & 0o004 != 0 };
        if !open || !(kind.is_dir() || kind.is_file()) {
            hidden.push(path);
        } else if kind.is_dir() {
            look(root, &path, hidden);
        }
    }
}

/// A directory with a whiteout for every hidden path, below directories that look like the
/// originals, because theirs are the attributes that the merged view shows.
fn make_layer(dir: &Path, tree: &str, root: &Path, hidden: &[PathBuf]) -> Result<PathBuf, Failure> {
    let mut print = Fingerprint::new();
    hidden.iter().for_each(|path| print.add(path.as_os_str().as_encoded_bytes()));
    print.add(&fingerprint(tree).to_le_bytes());
    let layer = dir.join(format!("hide-{tree}-{:016x}", print.0));
    if layer.is_dir() {
        return Ok(layer);
    }
    let draft = Draft::new(dir, &format!("hide-{tree}"))?;
    look_like(root, &draft.path).tried("copy attributes")?;
    for path in hidden {
        // The tree itself cannot be looked at: then there is nothing that could be shown.
        let Some(parent) = path.parent() else { continue };
        make_parents(root, &draft.path, parent).tried("copy directories")?;
        rustix::fs::mknodat(
            rustix::fs::CWD,
            draft.path.join(path),
            FileType::CharacterDevice,
            Mode::empty(),
            0,
        )
        .tried("make a whiteout")?;
    }
    // Adding entries changed the times of directories: set them once more.
    for path in hidden {
        for parent in path.ancestors().skip(1) {
            look_like(&root.join(parent), &draft.path.join(parent)).tried("copy attributes")?;
        }
    }
    draft.keep(&layer)?;
    Ok(layer)
}

fn make_parents(root: &Path, layer: &Path, parent: &Path) -> io::Result<()> {
    let target = layer.join(parent);
    if target.is_dir() {
        return Ok(());
    }
    if let Some(above) = parent.parent() {
        make_parents(root, layer, above)?;
    }
    make_dir(&target, 0o755)?;
    look_like(&root.join(parent), &target)
}

fn look_like(original: &Path, copy: &Path) -> io::Result<()> {
    let meta = std::fs::metadata(original)?;
    // An ordinary user cannot give directories away; there the host's ids are not mapped anyway.
    let _ = chown(copy, Some(meta.uid()), Some(meta.gid()));
    std::fs::set_permissions(copy, std::fs::Permissions::from_mode(meta.mode() & 0o7777))?;
    let time =
        |seconds, nanoseconds| rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = rustix::fs::Timestamps {
        last_access: time(meta.atime(), meta.atime_nsec()),
        last_modification: time(meta.mtime(), meta.mtime_nsec()),
    };
    rustix::fs::utimensat(rustix::fs::CWD, copy, &times, AtFlags::empty())?;
    Ok(())
}
