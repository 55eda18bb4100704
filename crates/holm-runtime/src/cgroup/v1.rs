//! The old interface: a hierarchy for each controller, so a sandbox has a group in each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::counter::{keyed, number};
use super::{Ability, Control, Limits, write};
use crate::driver::Usage;

/// Controllers that we use, in the order in which they are joined.
pub(super) const CONTROLLERS: [&str; 5] = ["memory", "cpu", "cpuacct", "pids", "freezer"];

/// Length of the period that processor time is dealt out in.
const PERIOD_USEC: u64 = 100_000;

/// Our parent group's directory in each controller's hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    pub(super) parents: BTreeMap<String, PathBuf>,
}

/// A group's directory in each controller's hierarchy; two controllers may share one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    dirs: BTreeMap<String, PathBuf>,
}

impl Tree {
    pub(super) fn prepare(&self) -> io::Result<()> {
        for dir in self.dirs() {
            match std::fs::create_dir(dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn group(&self, name: &str) -> Group {
        let dirs = self.parents.iter().map(|(key, dir)| (key.clone(), dir.join(name))).collect();
        Group { dirs }
    }

    pub(super) fn dirs(&self) -> Vec<&Path> {
        distinct(&self.parents)
    }

    pub(super) fn abilities(&self) -> BTreeSet<Ability> {
        let pairs = [
            ("memory", Ability::Memory),
            ("cpu", Ability::Cpu),
            ("cpuacct", Ability::CpuTime),
            ("pids", Ability::Processes),
            ("freezer", Ability::Freeze),
        ];
        pairs
            .iter()
            .filter(|(name, _)| self.parents.contains_key(*name))
            .map(|pair| pair.1)
            .collect()
    }
}

fn distinct(dirs: &BTreeMap<String, PathBuf>) -> Vec<&Path> {
    dirs.values().map(PathBuf::as_path).collect::<BTreeSet<_>>().into_iter().collect()
}

impl Group {
    fn dir(&self, controller: &str) -> Option<&Path> {
        self.dirs.get(controller).map(PathBuf::as_path)
    }
}

impl Control for Group {
    /// A whole process that is moved waits for every processor to pass a certain point, 5 to 20 ms
    /// after a quiet moment. A thread that moves itself waits for nothing (Linux 5.6).
    fn doors(&self) -> io::Result<Vec<File>> {
        let open = |dir: &&Path| File::options().write(true).open(dir.join("tasks"));
        self.dirs().iter().map(open).collect()
    }

    fn limit(&self, limits: &Limits) -> io::Result<()> {
        if let Some(dir) = self.dir("memory") {
            // The limit with swap may never be below the one without, so that one comes first.
            write(dir, "memory.limit_in_bytes", limits.memory_bytes)?;
            match write(dir, "memory.memsw.limit_in_bytes", limits.memory_bytes) {
                // Without swap accounting the next best is not to swap.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    write(dir, "memory.swappiness", 0)?;
                }
                other => other?,
            }
        }
        if let Some(dir) = self.dir("memory") {
            // Buffers of sockets are counted apart from all other memory here.
            match write(dir, "memory.kmem.tcp.limit_in_bytes", limits.memory_bytes / 4) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        if let Some(dir) = self.dir("cpu") {
            write(dir, "cpu.cfs_period_us", PERIOD_USEC)?;
            write(dir, "cpu.cfs_quota_us", u64::from(limits.vcpus) * PERIOD_USEC)?;
        }
        if let Some(dir) = self.dir("pids") {
            write(dir, "pids.max", limits.max_processes)?;
        }
        Ok(())
    }

    fn freeze(&self, frozen: bool) -> io::Result<()> {
        let dir = self.dir("freezer").ok_or(io::ErrorKind::Unsupported)?;
        write(dir, "freezer.state", if frozen { "FROZEN" } else { "THAWED" })
    }

    fn is_frozen(&self) -> io::Result<bool> {
        let dir = self.dir("freezer").ok_or(io::ErrorKind::Unsupported)?;
        Ok(std::fs::read_to_string(dir.join("freezer.state"))?.trim() == "FROZEN")
    }

    /// There is only `memory.force_empty`, which takes pages that are in use as well and waits for
    /// the disk: nothing to do to a sandbox that goes on.
    fn give_back(&self) {}

    fn kill(&self) -> io::Result<()> {
        for dir in self.dirs() {
            match super::kill_all(dir) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        // A frozen process dies when it is thawed.
        match self.dir("freezer") {
            Some(dir) if dir.exists() => self.freeze(false),
            _ => Ok(()),
        }
    }

    fn usage(&self) -> Usage {
        let memory = self.dir("memory");
        let used = memory.and_then(|dir| number(dir, "memory.usage_in_bytes"));
        // Page cache that the kernel gives up first is not what a user means by "in use".
        let idle = memory.and_then(|dir| keyed(dir, "memory.stat", "total_inactive_file"));
        Usage {
            memory_bytes: used.map(|used| used.saturating_sub(idle.unwrap_or(0))),
            cpu_usec: self
                .dir("cpuacct")
                .and_then(|dir| number(dir, "cpuacct.usage"))
                .map(|nanoseconds| nanoseconds / 1000),
            processes: self.dir("pids").and_then(|dir| number(dir, "pids.current")),
            oom_kills: self.oom_kills(),
        }
    }

    fn oom_kills(&self) -> Option<u64> {
        // `failcnt` counts nothing when the limits with and without swap are equal.
        keyed(self.dir("memory")?, "memory.oom_control", "oom_kill")
    }

    fn dirs(&self) -> Vec<&Path> {
        distinct(&self.dirs)
    }
}
