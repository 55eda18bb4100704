//! How a driver is started.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::driver::{Layer, Shape};
use crate::launcher::Guest;
use crate::step::Fault;

/// Options of [`crate::LinuxDriver::start`].
#[derive(Debug, Clone)]
pub struct LinuxOptions {
    /// The program whose `__launcher` is the launcher, usually `/proc/self/exe`.
    pub program: PathBuf,
    /// The guest's program. With it the launcher is a fork of this process instead of a new start
    /// of `program`, which saves a millisecond: for a process of one thread that holds no secrets.
    pub forked_with: Option<Guest>,
    /// Where images and templates live; the default depends on the user.
    pub data_dir: Option<PathBuf>,
    /// Where sockets live; the default depends on the user.
    pub runtime_dir: Option<PathBuf>,
    /// With whom sandboxes end.
    pub lifetime: Lifetime,
    /// Sandboxes kept ready with nobody in them, so that a create is quick.
    pub blanks: usize,
    /// Make new ones when they are taken. Not so for a `holm run`, whose one sandbox is begun as a
    /// blank, before it is asked for. There a `destroy` waits for the sandbox's processes alone; the
    /// launcher removes the rest, also when its owner has gone by then.
    pub refill: bool,
    /// What they are like; only creates that ask for the same use one.
    pub blank: Shape,
    /// Creates are refused while the data directory's disk has less than this free.
    pub disk_reserve_bytes: u64,
    /// Use a memory file system for the writable layer even where an image could be had.
    pub disk_in_memory: bool,
    /// Do without cgroups even where they could be had.
    pub without_cgroups: bool,
    /// Do without the egress gate even where it could be had.
    pub without_gate: bool,
    /// Those of [`Layer::EXCUSABLE`] that are mandatory, besides those that always are.
    pub demanded: Vec<Layer>,
    /// A fault to inject. Only for tests.
    pub fault: Option<Fault>,
}

impl LinuxOptions {
    /// The usual options for `program`.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            forked_with: None,
            data_dir: None,
            runtime_dir: None,
            lifetime: Lifetime::Launcher,
            blanks: 2,
            refill: true,
            blank: Shape {
                vcpus: 1,
                memory_bytes: 1 << 30,
                disk_bytes: 4 << 30,
                disk_inodes: 256 * 1024,
                max_processes: 512,
            },
            disk_reserve_bytes: 1 << 30,
            disk_in_memory: false,
            without_cgroups: false,
            without_gate: false,
            demanded: Vec::new(),
            fault: None,
        }
    }

    /// Where images and templates live, the default filled in.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| default_dir(Place::Data))
    }

    /// Where sockets live, the default filled in.
    #[must_use]
    pub fn runtime_dir(&self) -> PathBuf {
        self.runtime_dir.clone().unwrap_or_else(|| default_dir(Place::Runtime))
    }

    /// The same with every default filled in, as the launcher needs it.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            data_dir: self.data_dir(),
            runtime_dir: self.runtime_dir(),
            lifetime: self.lifetime,
            blanks: self.blanks,
            refill: self.refill,
            blank: self.blank,
            disk_reserve_bytes: self.disk_reserve_bytes,
            disk_in_memory: self.disk_in_memory,
            without_cgroups: self.without_cgroups,
            without_gate: self.without_gate,
            fault: self.fault,
        }
    }
}

/// With whom sandboxes end, however that one ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    /// With the launcher, which ends with the process that asked for them. The quickest to start:
    /// for one sandbox.
    Launcher,
    /// With the process that asked for them. Over the end of a launcher they go on, and the next
    /// one takes them over.
    Owner,
    /// With nobody: the next driver with the same data directory takes them over. There is one such
    /// driver at a time for a data directory.
    Detached,
}

impl Lifetime {
    /// A launcher may find sandboxes of one before it.
    pub(crate) fn outlives_launcher(self) -> bool {
        self != Self::Launcher
    }

    /// A driver may find sandboxes of one before it.
    pub(crate) fn outlives_owner(self) -> bool {
        self == Self::Detached
    }
}

/// What the launcher is told at its start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub data_dir: PathBuf,
    pub runtime_dir: PathBuf,
    pub lifetime: Lifetime,
    pub blanks: usize,
    pub refill: bool,
    pub blank: Shape,
    pub disk_reserve_bytes: u64,
    pub disk_in_memory: bool,
    pub without_cgroups: bool,
    pub without_gate: bool,
    pub fault: Option<Fault>,
}

/// Size of a writable layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DiskSize {
    pub bytes: u64,
    pub inodes: u64,
}

impl From<Shape> for DiskSize {
    fn from(shape: Shape) -> Self {
        Self { bytes: shape.disk_bytes, inodes: shape.disk_inodes }
    }
}

#[derive(Clone, Copy)]
enum Place {
    Data,
    Runtime,
}

fn default_dir(place: Place) -> PathBuf {
    let from_env = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let uid = rustix::process::geteuid();
    let (own, xdg) = match place {
        Place::Data => ("HOLM_DATA_DIR", "XDG_DATA_HOME"),
        Place::Runtime => ("HOLM_RUNTIME_DIR", "XDG_RUNTIME_DIR"),
    };
    if let Some(dir) = from_env(own) {
        return dir;
    }
    if uid.is_root() {
        return PathBuf::from(match place {
            Place::Data => "/var/lib/holm",
            Place::Runtime => "/run/holm",
        });
    }
    // Relative ones are to be ignored, says who invented them.
    if let Some(base) = from_env(xdg).filter(|base| base.is_absolute()) {
        return base.join("holm");
    }
    match place {
        Place::Data => from_env("HOME").unwrap_or_else(|| "/tmp".into()).join(".local/share/holm"),
        Place::Runtime => PathBuf::from(format!("/tmp/holm-{}", uid.as_raw())),
    }
}
