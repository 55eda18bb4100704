//! The unified hierarchy.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::counter::{keyed, number};
use super::{Ability, Control, Limits, write};
use crate::driver::Usage;

/// Length of the period that processor time is dealt out in.
const PERIOD_USEC: u64 = 100_000;

/// Our parent group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    pub(super) parent: PathBuf,
    /// Controllers that sandboxes' groups have.
    pub(super) controllers: BTreeSet<String>,
}

/// One sandbox's group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    dir: PathBuf,
    controllers: BTreeSet<String>,
}

impl Tree {
    /// A parent whose groups only hold, freeze and kill processes.
    #[must_use]
    pub fn without_controllers(parent: PathBuf) -> Self {
        Self { parent, controllers: BTreeSet::new() }
    }

    /// Makes the parent and lets it hand its controllers down. It never has processes of its own,
    /// which the kernel asks of a group that does so.
    pub(super) fn prepare(&self) -> io::Result<()> {
        match std::fs::create_dir(&self.parent) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        enable(&self.parent, &self.controllers)
    }

    pub(super) fn group(&self, name: &str) -> Group {
        Group { dir: self.parent.join(name), controllers: self.controllers.clone() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.parent
    }

    pub(super) fn abilities(&self) -> BTreeSet<Ability> {
        let pairs =
            [("memory", Ability::Memory), ("cpu", Ability::Cpu), ("pids", Ability::Processes)];
        let mut found: BTreeSet<Ability> = pairs
            .iter()
            .filter(|(name, _)| self.controllers.contains(*name))
            .map(|pair| pair.1)
            .collect();
        // cpu.stat counts time in every group, with or without the controller.
        found.insert(Ability::CpuTime);
        // Every group but the root's, since Linux 5.2.
        if self.parent.join("cgroup.freeze").exists() {
            found.insert(Ability::Freeze);
        }
        found
    }
}

/// Hands controllers down to the groups below `dir`.
pub(super) fn enable(dir: &Path, controllers: &BTreeSet<String>) -> io::Result<()> {
    for name in controllers {
        write(dir, "cgroup.subtree_control", format!("+{name}"))?;
    }
    Ok(())
}

impl Group {
    fn has(&self, controller: &str) -> bool {
        self.controllers.contains(controller)
    }

    /// The file that says whether all processes stand still; a change of it can be waited for.
    pub(super) fn events(&self) -> PathBuf {
        self.dir.join("cgroup.events")
    }
}

impl Control for Group {
    /// PID 1 is born in it.
    fn doors(&self) -> io::Result<Vec<File>> {
        Ok(Vec::new())
    }

    fn limit(&self, limits: &Limits) -> io::Result<()> {
        if self.has("memory") {
            write(&self.dir, "memory.max", limits.memory_bytes)?;
            match write(&self.dir, "memory.swap.max", 0) {
                // A kernel without swap has no such file, and nothing to turn off.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
            // Kill the process that is at fault, not the whole sandbox.
            write(&self.dir, "memory.oom.group", 0)?;
        }
        if self.has("cpu") {
            let quota = u64::from(limits.vcpus) * PERIOD_USEC;
            write(&self.dir, "cpu.max", format!("{quota} {PERIOD_USEC}"))?;
        }
        if self.has("pids") {
            write(&self.dir, "pids.max", limits.max_processes)?;
        }
        Ok(())
    }

    fn freeze(&self, frozen: bool) -> io::Result<()> {
        match write(&self.dir, "cgroup.freeze", u8::from(frozen)) {
            // Before Linux 5.2.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.dir.exists() => {
                Err(io::ErrorKind::Unsupported.into())
            }
            other => other,
        }
    }

    fn is_frozen(&self) -> io::Result<bool> {
        Ok(keyed(&self.dir, "cgroup.events", "frozen") == Some(1))
    }

    /// File pages that nobody has used for a while: there is no swap for others to go to.
    fn give_back(&self) {
        let idle = keyed(&self.dir, "memory.stat", "inactive_file").unwrap_or(0);
        if idle > 0 {
            // Since Linux 5.19. It says so when it could not give back all.
            let _ = write(&self.dir, "memory.reclaim", idle);
        }
    }

    fn kill(&self) -> io::Result<()> {
        match write(&self.dir, "cgroup.kill", 1) {
            // Before Linux 5.14, or already removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match super::kill_all(&self.dir) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }
            other => other,
        }
    }

    fn usage(&self) -> Usage {
        let used = number(&self.dir, "memory.current");
        let idle = keyed(&self.dir, "memory.stat", "inactive_file").unwrap_or(0);
        Usage {
            memory_bytes: used.map(|used| used.saturating_sub(idle)),
            cpu_usec: keyed(&self.dir, "cpu.stat", "usage_usec"),
            processes: number(&self.dir, "pids.current"),
            oom_kills: self.oom_kills(),
        }
    }

    fn oom_kills(&self) -> Option<u64> {
        keyed(&self.dir, "memory.events", "oom_kill")
    }

    fn dirs(&self) -> Vec<&Path> {
        vec![&self.dir]
    }
}
