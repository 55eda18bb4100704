//! What our processes say to each other.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use std::collections::BTreeSet;

use crate::cgroup::Ability;
use crate::driver::{MountRo, SandboxSpec};
use crate::failure::Failure;
use crate::network::Gate;
use crate::options::{DiskSize, Settings};

/// Owner → launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// First message: be a launcher.
    Start(Box<Settings>),
    /// First message: try each kind of namespace, answer, and exit.
    Try,
    /// To a launcher that follows another, where no record says whose a sandbox is: the owner has
    /// this one.
    Have { id: String, socket: PathBuf },
    /// The owner has no more.
    HaveAll,
    /// Make a sandbox.
    Create { seq: u64, spec: Box<SandboxSpec> },
    /// End a sandbox, or give up making it. No `seq`: nobody waits.
    Destroy { seq: Option<u64>, id: String },
    /// Give up a create, or end what it made if it is done already.
    Cancel { seq: u64 },
    /// Bind the gate's sockets of one that runs anew.
    Gate { seq: u64, id: String },
    /// Make sockets in one that runs, for connections to its ports.
    Ports { seq: u64, id: String },
    /// Read what one that runs has written.
    Pack { seq: u64, id: String },
    /// End everything.
    Shutdown { seq: u64 },
}

/// Launcher → owner.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// Answer to `Start`.
    Ready(Facts),
    /// From the keeper: there is a launcher. Descriptor: its control socket.
    Launcher { pid: u32 },
    /// After `Ready`: a sandbox of a launcher before this one that still runs.
    Found(Created),
    /// After the last `Found`.
    FoundAll,
    /// Answer to `Start` when that is impossible.
    Unusable(Failure),
    /// Answer to `Try`: what failed.
    Tried(Vec<(crate::driver::Layer, String)>),
    /// Answer to `Create`. Descriptors: the gate's sockets, unless others have been given out.
    Created { seq: u64, sandbox: Created },
    /// Answer to `Create`.
    Failed { seq: u64, failure: Failure },
    /// Answer to `Gate` and `Ports`. Descriptors: the sockets. To `Pack`: the archive's pipe and the
    /// report's.
    Sockets { seq: u64, failure: Option<Failure> },
    /// PID 1 is gone.
    Exited { id: String, out_of_memory: bool },
    /// Answer to `Destroy` and `Shutdown`.
    Done { seq: u64, failure: Option<Failure> },
}

/// What a launcher has found out about the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub instance: String,
    /// Version of the cgroup interface, and what its groups can do.
    pub cgroups: Option<(String, BTreeSet<Ability>)>,
    /// Why cgroups or parts of them are missing.
    pub cgroup_problems: Vec<String>,
    /// Why the disk is memory, where it is.
    pub disk_in_memory: Option<String>,
}

/// A sandbox as its owner needs it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Created {
    pub id: String,
    pub pid: u32,
    pub socket: PathBuf,
    /// Where its counters are.
    pub cgroup: Option<crate::cgroup::Group>,
    pub gate: Gate,
}

/// Builder → launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// All done: PID 1 exists and has its layers. Descriptors: its pidfd and, with an image, a directory of
    /// the writable file system.
    Cloned { pid: i32, mounts: bool },
    /// A step failed; the builder is gone with all that it held.
    Failed(Failure),
}

/// To PID 1, while it is still our code.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// From the builder: ids are mapped; build the root. Descriptors: see `jail::root`.
    Prepare(Box<Preparation>),
    /// From the launcher: become the guest. Descriptors: guest, listening socket.
    Become(Box<Identity>),
}

/// What PID 1 needs to build its root.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Preparation {
    pub ids: crate::ids::IdMap,
    pub base: Base,
    /// The writable layer: a descriptor, or a memory file system made by PID 1.
    pub disk: Disk,
    pub mounts: Vec<MountRo>,
    /// Host mounts as descriptors follow the layers; otherwise PID 1 opens the paths itself.
    pub mounts_by_fd: bool,
}

/// What the root stands on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Base {
    /// The skeleton of the host template, and trees of the host, such as `usr`, with what hides
    /// entries of them. `over`: layers over all of that, the lowest one first.
    Host { skeleton: Layer, trees: Vec<Tree>, over: Vec<Layer> },
    /// Layers of an image, the lowest one first.
    Layers(Vec<Layer>),
}

/// A read-only layer: the next descriptor of the message, or a path of the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Layer {
    Fd,
    Path(PathBuf),
}

/// A tree of the host below the root.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Tree {
    pub name: String,
    pub lower: Layer,
    pub hide: Option<Layer>,
}

/// The writable layer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Disk {
    Fd,
    Memory(DiskSize),
}

/// What PID 1 is told before the guest starts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub hostname: String,
    /// Processors that programs see.
    pub cpus: Vec<usize>,
    /// Most processes, for the guest to limit where cgroups do not.
    pub max_processes: u64,
}

/// From PID 1; its end of the channel closes when the guest has taken over.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// What it has of a gate. Descriptors: its sockets, of which PID 1 keeps none.
    Gate(Gate),
    /// The last thing before the guest starts.
    Starting,
    /// A step failed; PID 1 is leaving.
    Failed(Failure),
    /// A test wants the launcher to do this, which PID 1 has no power to.
    Fault(crate::step::FaultMode),
}
