//! Control groups of sandboxes. The rest of the crate sees [`Tree`] (where we may make groups) and
//! [`Group`] (one sandbox's); which version of the kernel's interface is behind them stays here.

mod counter;
mod discover;
mod freeze;
mod leaf;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::driver::Usage;

pub use discover::{Found, discover};
pub use v1::{Group as V1Group, Tree as V1Tree};
pub use v2::{Group as V2Group, Tree as V2Tree};

/// What a sandbox may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes; swap is off.
    pub memory_bytes: u64,
    /// Whole processors.
    pub vcpus: u32,
    /// Processes and threads.
    pub max_processes: u64,
}

/// What a group can do for a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Ability {
    Memory,
    Cpu,
    CpuTime,
    Processes,
    Freeze,
}

/// Where groups of this process's sandboxes are made: the parent of all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tree {
    /// One directory for each of the old interface's hierarchies.
    V1(v1::Tree),
    /// The unified hierarchy.
    V2(v2::Tree),
}

/// The groups of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Group {
    /// The old interface.
    V1(v1::Group),
    /// The unified hierarchy.
    V2(v2::Group),
}

/// What both versions offer.
pub trait Control {
    /// Files that put a process with one thread into the group when it writes to them
    /// ([`go_through`]). The kernel holds whoever opened them against the group's owner.
    fn doors(&self) -> io::Result<Vec<File>>;
    /// Sets the limits.
    fn limit(&self, limits: &Limits) -> io::Result<()>;
    /// Stops or continues all processes; the kernel needs a moment to reach all of them.
    fn freeze(&self, frozen: bool) -> io::Result<()>;
    /// True when all processes are stopped.
    fn is_frozen(&self) -> io::Result<bool>;
    /// Gives idle pages back to the host, as far as this interface lets somebody ask for it. What
    /// cannot be given back stays.
    fn give_back(&self);
    /// Kills all processes.
    fn kill(&self) -> io::Result<()>;
    /// Counters.
    fn usage(&self) -> Usage;
    /// [`Usage::oom_kills`] alone: one small file, where summing up memory is real work for the
    /// kernel.
    fn oom_kills(&self) -> Option<u64>;
    /// Directories of the group.
    fn dirs(&self) -> Vec<&Path>;
}

impl Tree {
    /// Makes the parent's directories.
    pub fn prepare(&self) -> io::Result<()> {
        match self {
            Self::V1(tree) => tree.prepare(),
            Self::V2(tree) => tree.prepare(),
        }
    }

    /// The group of that name, which may not exist yet.
    #[must_use]
    pub fn group(&self, name: &str) -> Group {
        match self {
            Self::V1(tree) => Group::V1(tree.group(name)),
            Self::V2(tree) => Group::V2(tree.group(name)),
        }
    }

    /// Directories of the parent.
    #[must_use]
    pub fn dirs(&self) -> Vec<&Path> {
        match self {
            Self::V1(tree) => tree.dirs(),
            Self::V2(tree) => vec![tree.dir()],
        }
    }

    /// What it can limit and count.
    #[must_use]
    pub fn abilities(&self) -> BTreeSet<Ability> {
        match self {
            Self::V1(tree) => tree.abilities(),
            Self::V2(tree) => tree.abilities(),
        }
    }

    /// `v1` or `v2`.
    #[must_use]
    pub fn version(&self) -> &'static str {
        match self {
            Self::V1(_) => "v1",
            Self::V2(_) => "v2",
        }
    }
}

impl Group {
    fn control(&self) -> &dyn Control {
        match self {
            Self::V1(group) => group,
            Self::V2(group) => group,
        }
    }

    /// Makes its directories. An error leaves those that were made; [`Group::remove`] takes them.
    pub fn make(&self) -> io::Result<()> {
        self.dirs().iter().try_for_each(std::fs::create_dir)
    }

    /// Removes its directories. False when something in it is still alive, or not yet gone.
    pub fn remove(&self) -> io::Result<bool> {
        remove_dirs(self.dirs())
    }
}

impl Control for Group {
    fn doors(&self) -> io::Result<Vec<File>> {
        self.control().doors()
    }
    fn limit(&self, limits: &Limits) -> io::Result<()> {
        self.control().limit(limits)
    }
    fn freeze(&self, frozen: bool) -> io::Result<()> {
        self.control().freeze(frozen)
    }
    fn is_frozen(&self) -> io::Result<bool> {
        self.control().is_frozen()
    }
    fn give_back(&self) {
        self.control().give_back();
    }
    fn kill(&self) -> io::Result<()> {
        self.control().kill()
    }
    fn usage(&self) -> Usage {
        self.control().usage()
    }
    fn oom_kills(&self) -> Option<u64> {
        self.control().oom_kills()
    }
    fn dirs(&self) -> Vec<&Path> {
        self.control().dirs()
    }
}

/// Puts this process, which has one thread, into the groups that the doors lead to.
pub fn go_through(doors: &[File]) -> io::Result<()> {
    use std::io::Write as _;
    doors.iter().try_for_each(|mut door| door.write_all(b"0"))
}

/// Removes directories of groups. False when one is still in use.
pub fn remove_dirs<'a>(dirs: impl IntoIterator<Item = &'a Path>) -> io::Result<bool> {
    let mut gone = true;
    for dir in dirs {
        match std::fs::remove_dir(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => gone = false,
            Err(error) => return Err(error),
        }
    }
    Ok(gone)
}

/// Kills every process in a directory's group and in those below it, also those that stand still.
pub fn kill_all(dir: &Path) -> io::Result<()> {
    for pid in processes(dir)? {
        if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
            // Gone in between is as good.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    for below in subgroups(dir)? {
        kill_all(&below)?;
    }
    // Of the old interface they die only when they go on.
    freeze::thaw(dir);
    Ok(())
}

/// Groups directly below a directory's group.
pub fn subgroups(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn processes(dir: &Path) -> io::Result<Vec<u32>> {
    let text = std::fs::read_to_string(dir.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Writes a value into an existing file of a group.
fn write(dir: &Path, file: &str, value: impl std::fmt::Display) -> io::Result<()> {
    use std::io::Write as _;
    let path = dir.join(file);
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("{} = {value}: {error}", path.display()))
    };
    let mut handle = File::options().write(true).open(&path).map_err(named)?;
    handle.write_all(value.to_string().as_bytes()).map_err(named)
}
