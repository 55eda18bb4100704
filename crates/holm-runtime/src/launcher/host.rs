//! What the launcher has found out about the host, and its helpers.

use std::os::fd::OwnedFd;

use crate::cgroup::{self, Tree};
use crate::disk;
use crate::failure::{Attempt, Failure};
use crate::ids::{self, IdMap, IdRanges};
use crate::instance::{self, Instance};
use crate::options::Settings;
use crate::seccomp::Program;
use crate::sys;
use crate::sys::process::{Forked, Parentage, fork_into};

use super::guest;
use super::janitor::Janitor;

/// Facts and helpers.
pub(super) struct Host {
    pub settings: Settings,
    pub instance: Instance,
    pub cgroups: Option<Tree>,
    pub disk: disk::Kind,
    pub filter: Program,
    pub guest: OwnedFd,
    pub ranges: IdRanges,
    janitor: Option<Janitor>,
    sweeper: Option<i32>,
    /// How many sandboxes were given each processor.
    cpu_use: Vec<(usize, u32)>,
}

impl Host {
    pub(super) fn find(settings: Settings, guest: &[u8]) -> Result<Self, Failure> {
        let instance = Instance::new(&settings)?;
        let cgroups = if settings.without_cgroups {
            None
        } else {
            cgroup::discover(&instance.cgroup_name()).tree
        };
        instance.record(cgroups.as_ref())?;
        let disk = if settings.disk_in_memory {
            disk::Kind::Memory { why: "asked for".into() }
        } else {
            disk::kind()
        };
        let guest = guest::sealed(guest)?;
        Ok(Self {
            filter: Program::compile()?,
            instance,
            cgroups,
            disk,
            guest,
            ranges: IdRanges::default(),
            janitor: None,
            sweeper: None,
            cpu_use: processors(),
            settings,
        })
    }

    /// Ids for one more sandbox.
    pub(super) fn take_ids(&mut self) -> Result<IdMap, Failure> {
        if !rustix::process::geteuid().is_root() {
            return Ok(ids::for_user());
        }
        let start = self.ranges.take(ids::LOCK_DIR.as_ref())?;
        Ok(IdMap::Range { start })
    }

    /// The least used processors. None where the sandbox may use all of them.
    pub(super) fn choose_cpus(&mut self, count: u32) -> Vec<usize> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count == 0 || count >= self.cpu_use.len() {
            return Vec::new();
        }
        self.cpu_use.sort_by_key(|(cpu, used)| (*used, *cpu));
        self.cpu_use[..count]
            .iter_mut()
            .map(|(cpu, used)| {
                *used += 1;
                *cpu
            })
            .collect()
    }

    pub(super) fn release_cpus(&mut self, cpus: &[usize]) {
        for (cpu, used) in &mut self.cpu_use {
            if cpus.contains(cpu) {
                *used = used.saturating_sub(1);
            }
        }
    }

    /// Has a disk's file system given up and unmounted, which may take a while.
    pub(super) fn give_up_disk(&mut self, disk: OwnedFd) {
        if self.janitor.is_none() {
            self.janitor = Janitor::start().ok();
        }
        let sent = self.janitor.as_ref().is_some_and(|janitor| janitor.give(&disk));
        if !sent {
            // No helper: then it is done here, late but right.
            let _ = sys::mounts::shutdown_ext4(&disk);
            self.janitor = None;
        }
    }

    /// Waits until all disks that were given up are gone.
    pub(super) fn finish_disks(&mut self) {
        if let Some(janitor) = self.janitor.take() {
            janitor.finish();
        }
    }

    /// True for a helper of ours; takes note that it is gone.
    pub(super) fn is_helper_gone(&mut self, pid: i32) -> bool {
        if self.sweeper == Some(pid) {
            self.sweeper = None;
            return true;
        }
        if self.janitor.as_ref().is_some_and(|janitor| janitor.pid == pid) {
            self.janitor = None;
            return true;
        }
        false
    }

    /// Removes what dead instances left, beside our own work.
    pub(super) fn sweep_others(&mut self) {
        if !instance::others(&self.settings, &self.instance.id) {
            return;
        }
        match fork_into(0, Parentage::Child, None) {
            Ok(Forked::Child) => {
                sys::signals::reset();
                sys::fds::close_others(&[0, 1, 2]);
                let _ = instance::sweep(&self.settings);
                sys::process::exit_now(0)
            }
            Ok(Forked::Parent(pid, _)) => self.sweeper = Some(pid.as_raw_nonzero().get()),
            // The next start tries again.
            Err(_) => {}
        }
    }

    /// Removes everything that belongs to this instance.
    pub(super) fn close(&mut self) {
        self.finish_disks();
        if let Some(tree) = &self.cgroups {
            // All groups below are gone; what cannot be removed, the next start removes.
            let _ = cgroup::remove_dirs(tree.dirs());
        }
        self.instance.remove();
    }
}

/// Processors that we may use, each used by nobody yet.
fn processors() -> Vec<(usize, u32)> {
    match rustix::thread::sched_getaffinity(None).tried("ask for processors") {
        Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(|cpu| set.is_set(*cpu))
            .map(|cpu| (cpu, 0))
            .collect(),
        Err(_) => Vec::new(),
    }
}
