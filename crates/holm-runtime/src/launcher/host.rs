//! What the launcher has found out about the host, and its helpers.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::cgroup::{self, Tree};
use crate::disk;
use crate::disk_ahead::DiskAhead;
use crate::failure::{Attempt, Failure};
use crate::helper;
use crate::ids::{self, IdMap, IdRanges};
use crate::instance::{self, Former, Instance};
use crate::message::Facts;
use crate::options::{Lifetime, Settings};
use crate::seccomp::Program;
use crate::sys;

use super::Guest;
use super::janitor::Janitor;
use super::watch::Watch;

/// Facts and helpers.
pub(super) struct Host {
    pub settings: Settings,
    pub instance: Instance,
    pub cgroups: Option<Tree>,
    cgroup_problems: Vec<String>,
    pub disk: disk::Kind,
    pub filter: Program,
    /// The guest, and once somebody needs it the file that is executed.
    guest: Guest,
    guest_file: Option<OwnedFd>,
    pub ranges: IdRanges,
    /// What earlier launchers of this service have left, until nothing is left of that.
    pub former: Vec<Option<Former>>,
    /// For PID 1s that are not our children.
    watch: Option<Watch>,
    /// There are sandboxes that go on without us.
    pub keeps: bool,
    machine_root: bool,
    /// The launcher's own UTS namespace, where it may enter others.
    pub own_uts: Option<OwnedFd>,
    /// The disk of the one sandbox that there will be.
    pub disk_ahead: Option<DiskAhead>,
    janitor: Option<Janitor>,
    /// Disks that the janitor is to have.
    disks: Vec<OwnedFd>,
    sweeper: Option<i32>,
    /// Looks for files to hide, so that no create has to.
    looker: Option<i32>,
    next_look: Instant,
    /// How many sandboxes were given each processor.
    cpu_use: Vec<(usize, u32)>,
}

impl Host {
    /// `instance`: one that the keeper has made.
    pub(super) fn find(
        settings: Settings,
        guest: Guest,
        instance: Option<&str>,
    ) -> Result<Self, Failure> {
        let disk = if settings.disk_in_memory {
            disk::Kind::Memory { why: "asked for".into() }
        } else {
            disk::kind()
        };
        let machine_root = ids::is_machine_root();
        // First of all, so that everything else happens meanwhile. Where the template is made anew
        // or the data directory is, there is no hurry.
        let wanted = settings.blanks > 0 && !settings.refill && disk == disk::Kind::Image;
        let was_there = settings.data_dir.is_dir();
        // Nothing of it is used before it is known that nobody else has put it there.
        instance::make_dirs(&settings)?;
        let disk_ahead = match wanted && was_there {
            true => DiskAhead::start(&settings.data_dir, settings.blank, settings.fault),
            false => None,
        };
        let lifetime = settings.lifetime;
        let former = match lifetime {
            Lifetime::Detached => instance::former(&settings)?,
            Lifetime::Owner | Lifetime::Launcher => Vec::new(),
        };
        let instance = match instance {
            Some(id) => Instance::again(&settings, id)?,
            None => Instance::new(&settings)?,
        };
        let found = if settings.without_cgroups {
            cgroup::Found { tree: None, problems: vec!["turned off by an option".into()] }
        } else {
            cgroup::discover(&instance.cgroup_name(), lifetime)
        };
        if let Some(tree) = &found.tree {
            instance.record(Some(tree))?;
        }
        // Who takes sandboxes over takes over their ids, and nobody else does in between.
        let name = match lifetime {
            Lifetime::Launcher => None,
            Lifetime::Owner => Some(instance.data_dir.clone()),
            Lifetime::Detached => Some(settings.data_dir.clone()),
        };
        Ok(Self {
            filter: Program::compile()?,
            instance,
            cgroups: found.tree,
            cgroup_problems: found.problems,
            disk,
            guest,
            guest_file: None,
            ranges: IdRanges::new(name),
            former: former.into_iter().map(Some).collect(),
            watch: if lifetime.outlives_launcher() { Some(Watch::new()?) } else { None },
            keeps: false,
            own_uts: super::namer::own_uts(machine_root)?,
            machine_root,
            disk_ahead,
            janitor: None,
            disks: Vec::new(),
            sweeper: None,
            looker: None,
            next_look: Instant::now() + LOOK_EVERY,
            cpu_use: processors(),
            settings,
        })
    }

    /// The guest's file, which the first call opens; where it has to be made that takes some
    /// milliseconds.
    pub(super) fn guest(&mut self) -> Result<&OwnedFd, Failure> {
        let file = match self.guest_file.take() {
            Some(file) => file,
            None => self.guest.open(&self.settings.data_dir, self.machine_root)?,
        };
        Ok(self.guest_file.insert(file))
    }

    /// What the owner is told.
    pub(super) fn facts(&self) -> Facts {
        let tree = self.cgroups.as_ref();
        Facts {
            instance: self.instance.id.clone(),
            cgroups: tree.map(|tree| (tree.version().to_owned(), tree.abilities())),
            cgroup_problems: self.cgroup_problems.clone(),
            disk_in_memory: match &self.disk {
                disk::Kind::Image => None,
                disk::Kind::Memory { why } => Some(why.clone()),
            },
        }
    }

    /// Ids for one more sandbox.
    pub(super) fn take_ids(&mut self) -> Result<IdMap, Failure> {
        if !self.machine_root {
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

    /// Takes note of processors that a sandbox of an earlier launcher has.
    pub(super) fn use_cpus(&mut self, cpus: &[usize]) {
        for (cpu, used) in &mut self.cpu_use {
            *used += u32::from(cpus.contains(cpu));
        }
    }

    pub(super) fn release_cpus(&mut self, cpus: &[usize]) {
        for (cpu, used) in &mut self.cpu_use {
            if cpus.contains(cpu) {
                *used = used.saturating_sub(1);
            }
        }
    }

    /// Has the end of a PID 1 that is not our child told, where there are such.
    pub(super) fn watch(&self, init: &OwnedFd, number: u64) -> Result<(), Failure> {
        self.watch.as_ref().map_or(Ok(()), |watch| watch.add(init, number))
    }

    /// The descriptor to wait for.
    pub(super) fn watched(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    /// Has a disk's file system given up, and it and what else was mounted unmounted, which may take
    /// a while: handed over when the launcher has nothing else to do ([`Self::hand_over_disks`]),
    /// so that the helper does not compete with the rest of a removal.
    pub(super) fn give_up(&mut self, disk: impl Iterator<Item = OwnedFd>) {
        self.disks.extend(disk);
    }

    /// Starts on the disks that were given up.
    pub(super) fn hand_over_disks(&mut self) {
        for disk in std::mem::take(&mut self.disks) {
            self.hand_over_disk(disk);
        }
    }

    fn hand_over_disk(&mut self, disk: OwnedFd) {
        if self.janitor.is_none() {
            self.janitor = Janitor::start().ok();
        }
        let refused = match &self.janitor {
            Some(janitor) => janitor.give(disk).err(),
            None => Some(disk),
        };
        if let Some(disk) = refused {
            // No helper: then it is done here, late but right.
            let _ = sys::mounts::shutdown_ext4(&disk);
            self.janitor = None;
        }
    }

    /// Waits until all disks that were given up are gone.
    pub(super) fn finish_disks(&mut self) {
        self.hand_over_disks();
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
        if self.looker == Some(pid) {
            self.looker = None;
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
        // Where it fails the next start tries again.
        let sweep = || instance::sweep(&self.settings);
        self.sweeper = helper::start(c"holm-sweep", &[], sweep).ok();
    }

    /// How long until the host's files are due to be looked at again. None for a launcher that
    /// lives for one sandbox.
    pub(super) fn until_next_look(&self) -> Option<Duration> {
        let wanted = self.settings.refill && self.looker.is_none();
        wanted.then(|| self.next_look.saturating_duration_since(Instant::now()))
    }

    /// Looks again if that is due.
    pub(super) fn look_if_due(&mut self) {
        if self.until_next_look().is_some_and(|left| left.is_zero()) {
            self.next_look = Instant::now() + LOOK_EVERY;
            let look = || crate::template::refresh(&self.settings.data_dir).map(drop);
            self.looker = helper::start(c"holm-look", &[], look).ok();
        }
    }

    /// Removes everything that belongs to this instance.
    pub(super) fn close(&mut self) {
        self.finish_disks();
        if self.keeps {
            return;
        }
        let dirs = self.cgroups.as_ref().map(Tree::dirs).unwrap_or_default();
        // What still has groups keeps its record, so that the next start removes it.
        if instance::remove_parents(&dirs) {
            self.instance.remove();
        }
    }
}

/// Before the last look is too old for a builder (`template::hide`).
const LOOK_EVERY: Duration = Duration::from_secs(480);

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
