//! The built-in `host` template: the host's own programs below a root that we write ourselves.
//!
//! It is kept in the data directory and made again when what it was made from changes. Making it
//! is atomic (a draft that is renamed) and locked, because two holms may start at once.
//! What it replaces is removed when nobody can use it any more (`old`).

mod copy;
mod etc;
mod hide;
pub(crate) mod layers;
mod old;
mod skeleton;

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::failure::{Attempt, Failure};

/// Changes with every change to what is written into the template.
const VERSION: u32 = 1;

/// A file in the data directory with a certificate that sandboxes trust besides the host's: that of
/// the egress gate of a service that keeps secrets. In the directory, so that all who make sandboxes
/// there make the same template.
pub const AUTHORITY: &str = "gate-ca.crt";

/// A template, ready to be mounted.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    /// The root's lowest layer.
    pub skeleton: PathBuf,
    /// Trees of the host.
    pub trees: Vec<HostTree>,
}

impl Ready {
    /// All directories of the template.
    fn in_use(&self) -> BTreeSet<PathBuf> {
        let hides = self.trees.iter().filter_map(|tree| tree.hide.clone());
        hides.chain([self.skeleton.clone()]).collect()
    }
}

/// A tree of the host that is shown below the root.
#[derive(Debug, Clone)]
pub(crate) struct HostTree {
    /// Its name below the root: `usr`, and on hosts without a merged /usr also `bin`, ….
    pub name: String,
    /// A layer above it that hides what only its owner may read.
    pub hide: Option<PathBuf>,
}

/// Makes the `host` template if it is not there or no longer fits the host.
pub(crate) fn ensure(data_dir: &Path) -> Result<Ready, Failure> {
    let dir = data_dir.join("templates");
    let skeleton = skeleton_path(data_dir, &dir);
    let names = host_trees();
    let fresh = |name: &String| hide::fresh(&dir, name).map(|hide| (name.clone(), hide));
    // In this order, see `old`.
    if !old::is_marked(&skeleton)
        && skeleton.is_dir()
        && let Some(trees) = names.iter().map(fresh).collect::<Option<Vec<_>>>()
    {
        return Ok(ready(skeleton, trees));
    }
    let _lock = lock(&dir)?;
    if !skeleton.is_dir() {
        let draft = Draft::new(&dir, "host")?;
        skeleton::write(&draft.path, &names, &data_dir.join(AUTHORITY))
            .tried("write the host template")?;
        draft.keep(&skeleton)?;
    }
    let mut trees = Vec::new();
    for name in names {
        let hide = match hide::fresh(&dir, &name) {
            Some(hide) => hide,
            None => hide::scan(&dir, &name)?,
        };
        trees.push((name, hide));
    }
    let ready = ready(skeleton, trees);
    old::prune(data_dir, &dir, &ready.in_use());
    Ok(ready)
}

fn skeleton_path(data_dir: &Path, dir: &Path) -> PathBuf {
    let print = skeleton::fingerprint(&data_dir.join(AUTHORITY));
    dir.join(format!("host-v{VERSION}-{print:016x}"))
}

/// Looks through the host's trees again, whatever the age of the last look.
pub(crate) fn refresh(data_dir: &Path) -> Result<(), Failure> {
    let dir = data_dir.join("templates");
    let _lock = lock(&dir)?;
    let scan = |name: String| hide::scan(&dir, &name).map(|hide| (name, hide));
    let trees = host_trees().into_iter().map(scan).collect::<Result<Vec<_>, _>>()?;
    old::prune(data_dir, &dir, &ready(skeleton_path(data_dir, &dir), trees).in_use());
    Ok(())
}

fn ready(skeleton: PathBuf, trees: Vec<(String, Option<PathBuf>)>) -> Ready {
    let trees = trees.into_iter().map(|(name, hide)| HostTree { name, hide }).collect();
    Ready { skeleton, trees }
}

/// `usr`, and what a host without a merged /usr has beside it.
pub(crate) fn host_trees() -> Vec<String> {
    let is_dir =
        |name: &&str| std::fs::symlink_metadata(format!("/{name}")).is_ok_and(|meta| meta.is_dir());
    ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"]
        .iter()
        .filter(|name| is_dir(name))
        .map(|name| (*name).to_owned())
        .collect()
}

fn lock(dir: &Path) -> Result<File, Failure> {
    std::fs::create_dir_all(dir).tried("make the directory of templates")?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(dir.join("lock"))
        .tried("open the lock of templates")?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive).tried("lock the templates")?;
    Ok(file)
}

/// A directory that is not yet what it will be. One that is left by a crash is removed by the next.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn new(dir: &Path, name: &str) -> Result<Self, Failure> {
        let path = dir.join(format!("draft-{name}"));
        if path.exists() {
            std::fs::remove_dir_all(&path).tried("remove an old draft")?;
        }
        make_dir(&path, 0o755).tried("make a draft")?;
        Ok(Self { path })
    }

    fn keep(&self, target: &Path) -> Result<(), Failure> {
        std::fs::rename(&self.path, target).tried("keep a template")
    }
}

/// Makes a directory with exactly that mode, whatever the umask.
fn make_dir(path: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::create_dir(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Writes a file with exactly that mode.
fn make_file(path: &Path, text: &[u8], mode: u32) -> std::io::Result<()> {
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// FNV-1a over numbers and texts: names a state of the host, protects nothing.
struct Fingerprint(u64);

impl Fingerprint {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Adds what changes when a path is replaced or, for a directory, gains or loses entries.
    fn add_path(&mut self, path: &Path) {
        self.add(path.as_os_str().as_encoded_bytes());
        if let Ok(meta) = std::fs::symlink_metadata(path) {
            let times = [meta.mtime(), meta.mtime_nsec()];
            let ids = [meta.dev(), meta.ino(), meta.size(), u64::from(meta.mode())];
            times.iter().for_each(|number| self.add(&number.to_le_bytes()));
            ids.iter().for_each(|number| self.add(&number.to_le_bytes()));
        }
    }
}
