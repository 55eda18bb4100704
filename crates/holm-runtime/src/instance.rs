//! One running holm on this machine: its directories, its lock, and what dead ones have left.
//!
//! Every holm has an id. The lock file of an id is held by the launcher for as long as it lives, so
//! an id without a holder is dead, and whatever carries it may be removed by the next start. Where
//! sandboxes outlive their launcher but not their owner, the keeper holds it too, and its launchers
//! have the instance one after the other. Where they outlive the owner, each has a record in its
//! instance's directory, and while there is one the instance belongs to the next service of that
//! data directory (`former`). What else carries an id is written in the lock file itself: every
//! further file would cost each start.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::cgroup::{self, Tree};
use crate::driver::{DriverError, DriverErrorKind};
use crate::failure::{Attempt, Failure};
use crate::kept;
use crate::options::{Lifetime, Settings};
use crate::private::{self, Purpose};

/// This holm.
#[derive(Debug)]
pub(crate) struct Instance {
    pub id: String,
    /// Holds the sockets.
    pub runtime_dir: PathBuf,
    pub data_dir: PathBuf,
    /// The records of its sandboxes, where they outlive the launcher.
    pub kept_dir: PathBuf,
    /// Held until we are gone.
    lock: File,
}

/// The records of sandboxes: below an instance's directory for those that outlive their owner,
/// elsewhere beside the sockets, which is quicker where that is in memory.
const KEPT: &str = "sandboxes";

/// What the next start must know to remove what is left.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    runtime_dir: PathBuf,
    cgroups: Vec<PathBuf>,
}

impl Instance {
    /// Makes an id, its directories and its lock, below what [`make_dirs`] has made.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Failure> {
        let all = settings.data_dir.join("instances");
        private::make(&all, Purpose::Data)?;
        // Held so that nobody takes the new directory for a dead one before its lock is held.
        let _guard = lock_all(&all)?;
        let id = random_id()?;
        private::make_new(&all.join(&id))?;
        let instance = Self::again(settings, &id)?;
        instance.record(None)?;
        private::make_new(&instance.runtime_dir)?;
        if settings.lifetime.outlives_launcher() {
            private::make_new(&instance.kept_dir)?;
        }
        Ok(instance)
    }

    /// One that is there already: the keeper has made it for its launchers.
    pub(crate) fn again(settings: &Settings, id: &str) -> Result<Self, Failure> {
        let data_dir = settings.data_dir.join("instances").join(id);
        let runtime_dir = settings.runtime_dir.join(id);
        let lock = open_lock(&data_dir).tried("open the instance's lock")?;
        live_in(&lock).tried("lock the instance")?;
        let kept_dir = match settings.lifetime {
            Lifetime::Detached => data_dir.join(KEPT),
            Lifetime::Owner | Lifetime::Launcher => runtime_dir.join(KEPT),
        };
        Ok(Self { id: id.to_owned(), runtime_dir, data_dir, kept_dir, lock })
    }

    /// Name of the parent of its cgroups.
    pub(crate) fn cgroup_name(&self) -> String {
        format!("holm-{}", self.id)
    }

    /// Keeps what must be removed if we die. Each record is at least as long as the one before, so
    /// that a death in between leaves one of them whole.
    pub(crate) fn record(&self, tree: Option<&Tree>) -> Result<(), Failure> {
        let cgroups = tree.map(|tree| tree.dirs().iter().map(|dir| (*dir).to_owned()).collect());
        let record =
            Record { runtime_dir: self.runtime_dir.clone(), cgroups: cgroups.unwrap_or_default() };
        let text = serde_json::to_vec(&record).tried("encode the record")?;
        self.lock.write_all_at(&text, 0).tried("write the record")
    }

    /// Removes its directories. Sandboxes are gone by now.
    pub(crate) fn remove(&self) {
        // What cannot be removed now, the next start tries again.
        let _ = std::fs::remove_dir_all(&self.runtime_dir);
        let _ = std::fs::remove_dir_all(&self.data_dir);
    }
}

/// Makes the directories that all instances share, or looks whether they are for us alone.
pub(crate) fn make_dirs(settings: &Settings) -> Result<(), Failure> {
    private::make(&settings.data_dir, Purpose::Data)?;
    private::make(&settings.runtime_dir, Purpose::Runtime)
}

/// True when another instance's directory is there, so that a sweep may find something.
pub(crate) fn others(settings: &Settings, own: &str) -> bool {
    let list = std::fs::read_dir(settings.data_dir.join("instances"));
    list.is_ok_and(|list| {
        list.flatten().any(|e| e.file_name() != own && e.file_type().is_ok_and(|t| t.is_dir()))
    })
}

/// Ids of all instances of a data directory that live. `None` when that cannot be told at this
/// moment, because one is starting or a sweep is under way. Not for a launcher itself, which would
/// see its own lock as free and let go of it; its children may.
pub(crate) fn living(data_dir: &Path) -> Option<BTreeSet<String>> {
    let all = data_dir.join("instances");
    if !all.exists() {
        return Some(BTreeSet::new());
    }
    // Without it, our look at a lock could make the start of its instance fail.
    let guard = open_lock(&all).ok()?;
    rustix::fs::flock(&guard, FlockOperation::NonBlockingLockExclusive).ok()?;
    let mut living = BTreeSet::new();
    for entry in std::fs::read_dir(&all).ok()? {
        let dir = entry.ok()?.path();
        if dir.is_dir() {
            let lock = open_lock(&dir).ok()?;
            if keeps_sandboxes(&dir) || take(&lock).is_err() {
                living.insert(dir.file_name()?.to_str()?.to_owned());
            }
        }
    }
    Some(living)
}

/// Removes what dead instances of the same directories have left.
pub(crate) fn sweep(settings: &Settings) -> Result<(), Failure> {
    let all = settings.data_dir.join("instances");
    if !all.is_dir() {
        return Ok(());
    }
    let _guard = lock_all(&all)?;
    let list = std::fs::read_dir(&all).tried("list the instances")?;
    for entry in list.flatten() {
        let dir = entry.path();
        if dir.is_dir()
            && !keeps_sandboxes(&dir)
            && let Ok(lock) = open_lock(&dir)
            && take(&lock).is_ok()
        {
            remove_dead(&dir, &lock, PATIENCE);
        }
    }
    Ok(())
}

/// True when an instance has sandboxes that outlive their owner.
fn keeps_sandboxes(dir: &Path) -> bool {
    std::fs::read_dir(dir.join(KEPT)).is_ok_and(|mut list| list.next().is_some())
}

/// True when there may be sandboxes of an instance with that directory, or of a service with that
/// data directory, also while no launcher of theirs runs.
pub(crate) fn may_have_sandboxes(dir: &Path) -> bool {
    let list = std::fs::read_dir(dir.join("instances"));
    let service = list.is_ok_and(|list| list.flatten().any(|entry| keeps_sandboxes(&entry.path())));
    service || dir.join(LOCK).exists()
}

/// True when sandboxes run that nobody looks after at this moment: those of a service that does not.
/// What they use cannot be told, so nothing that they could use should be taken away.
///
/// # Errors
/// When it cannot be looked at.
pub fn has_unattended(data_dir: &Path) -> Result<bool, DriverError> {
    let all = data_dir.join("instances");
    if !all.is_dir() {
        return Ok(false);
    }
    // Without it, our look at a lock could make the start of its instance fail.
    let _guard = lock_all(&all)?;
    let list = std::fs::read_dir(&all).tried("list the instances")?;
    let mut dirs = list.flatten().map(|entry| entry.path()).filter(|dir| keeps_sandboxes(dir));
    Ok(dirs.any(|dir| open_lock(&dir).is_ok_and(|lock| take(&lock).is_ok())))
}

/// Instances of the same data directory whose launcher is gone and whose sandboxes are not. Waits
/// for launchers that are about to end. The caller is the one service of the data directory.
pub(crate) fn former(settings: &Settings) -> Result<Vec<Former>, Failure> {
    let all = settings.data_dir.join("instances");
    let mut found = Vec::new();
    if !all.is_dir() {
        return Ok(found);
    }
    // Listed under the lock of all, so that none is about to get its own lock; waited for without
    // it, because a launcher that is about to end may need it for that.
    let guard = lock_all(&all)?;
    let list: Vec<_> = std::fs::read_dir(&all).tried("list the instances")?.flatten().collect();
    drop(guard);
    for dir in list.iter().map(std::fs::DirEntry::path).filter(|dir| dir.join(KEPT).is_dir()) {
        found.extend(Former::take(dir)?);
    }
    Ok(found)
}

/// An instance whose sandboxes were taken over.
#[derive(Debug)]
pub(crate) struct Former {
    dir: PathBuf,
    record: Record,
    /// Held until nothing is left of it.
    lock: File,
}

/// How long a launcher whose owner is gone may take to remove what is half made.
const LAST_WORK: Duration = Duration::from_secs(60);

impl Former {
    fn take(dir: PathBuf) -> Result<Option<Self>, Failure> {
        let lock = match open_lock(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.tried("open an instance's lock")?,
        };
        let start = std::time::Instant::now();
        while take(&lock).is_err() {
            if start.elapsed() > LAST_WORK {
                return Err(Failure::of(
                    DriverErrorKind::Internal,
                    "An earlier launcher of this data directory still runs and does not end.",
                )
                .because(dir.display()));
            }
            // There is no event for another process's lock that would not block for ever.
            std::thread::sleep(Duration::from_millis(2));
        }
        // It may have removed itself meanwhile.
        if !dir.join(KEPT).is_dir() {
            let _ = std::fs::remove_dir_all(&dir);
            return Ok(None);
        }
        let record = Record::read(&lock);
        Ok(Some(Self { dir, record, lock }))
    }

    /// The directory of its sandboxes' records.
    pub(crate) fn kept_dir(&self) -> PathBuf {
        self.dir.join(KEPT)
    }

    /// Kills and removes everything in its groups and sockets but what belongs to `names`. False
    /// when something is not gone yet.
    pub(crate) fn remove_others(&self, names: &BTreeSet<String>) -> bool {
        let others = |path: &PathBuf| {
            let stem = path.file_stem().and_then(|name| name.to_str());
            stem.is_none_or(|name| !names.contains(name))
        };
        for entry in std::fs::read_dir(&self.record.runtime_dir).into_iter().flatten().flatten() {
            if others(&entry.path()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        let mut gone = true;
        for parent in &self.record.cgroups {
            for group in cgroup::subgroups(parent).unwrap_or_default() {
                if others(&group) {
                    let _ = cgroup::kill_all(&group);
                    gone &= cgroup::remove_dirs([group.as_path()]).unwrap_or(false);
                }
            }
        }
        gone
    }

    /// Removes what is left of it. Its sandboxes are gone by now.
    pub(crate) fn remove(&self) {
        remove_dead(&self.dir, &self.lock, Duration::ZERO);
    }
}

/// How long a sweep waits for killed processes to go.
const PATIENCE: Duration = Duration::from_secs(10);

impl Record {
    /// What is in a lock that we hold. Through its own descriptor: to close another one of the same
    /// file would let go of the lock.
    fn read(mut lock: &File) -> Self {
        let mut text = Vec::new();
        let read = lock.rewind().and_then(|()| lock.read_to_end(&mut text));
        read.ok().and_then(|_| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }
}

fn remove_dead(dir: &Path, lock: &File, patience: Duration) {
    let record = Record::read(lock);
    // Below a recorded path only what has our own form is believed and removed, and what nobody else
    // can have put there since.
    let is_ours =
        record.runtime_dir.file_name() == dir.file_name() && private::is_ours(&record.runtime_dir);
    let kept_dir = Some(record.runtime_dir.join(KEPT)).filter(|_| is_ours);
    let start = std::time::Instant::now();
    let mut pause = Duration::from_millis(1);
    // Where there are no groups, only its record leads to a PID 1 that outlived its launcher.
    while !(kept_dir.as_deref().is_none_or(kept::end_all) & remove_groups(&record.cgroups)) {
        if start.elapsed() >= patience {
            // The directory stays, so that the next start tries again.
            return;
        }
        // There is no event for "a cgroup of the old interface is empty".
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
    if is_ours {
        let _ = std::fs::remove_dir_all(&record.runtime_dir);
    }
    let _ = std::fs::remove_dir_all(dir);
}

/// How long a launcher that ends waits for groups that should be gone.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// Removes the parents of a launcher's groups, which are gone unless something has gone wrong. False
/// when something is left.
pub(crate) fn remove_parents(parents: &[&Path]) -> bool {
    let start = std::time::Instant::now();
    while !cgroup::remove_dirs(parents.iter().copied()).unwrap_or(false) {
        if start.elapsed() >= LAST_PATIENCE {
            return false;
        }
        remove_groups(parents);
        // There is no event for "a cgroup of the old interface is empty".
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Kills what is in the groups and removes them. True when nothing is left.
fn remove_groups(parents: &[impl AsRef<Path>]) -> bool {
    let mut gone = true;
    for parent in parents.iter().map(AsRef::as_ref).filter(|parent: &&Path| parent.is_dir()) {
        let _ = cgroup::kill_all(parent);
        let below = cgroup::subgroups(parent).unwrap_or_default();
        let dirs = below.iter().map(PathBuf::as_path).chain([parent]);
        gone &= cgroup::remove_dirs(dirs).unwrap_or(false);
    }
    gone
}

/// Says by an instance's lock that this process lives in it. A lock of the kind that forks do not
/// inherit: a child that outlives the launcher by a moment would pass for it.
fn live_in(lock: &File) -> Result<(), Errno> {
    rustix::fs::fcntl_lock(lock, FlockOperation::NonBlockingLockShared)
}

/// Takes an instance's lock from everybody else, or fails at once: somebody lives in it.
fn take(lock: &File) -> Result<(), Errno> {
    rustix::fs::fcntl_lock(lock, FlockOperation::NonBlockingLockExclusive)
}

/// The name of a lock's file in the directory that it is for.
const LOCK: &str = "lock";

fn lock_all(all: &Path) -> Result<File, Failure> {
    let file = open_lock(all).tried("open the lock of instances")?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive).tried("lock the instances")?;
    Ok(file)
}

fn open_lock(dir: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    options.open(dir.join(LOCK))
}

/// 12 hex digits.
fn random_id() -> Result<String, Failure> {
    let mut bytes = [0_u8; 6];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .tried("make an instance id")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
