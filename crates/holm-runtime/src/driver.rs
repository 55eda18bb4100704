//! What a driver of sandboxes offers to the engine.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use serde::{Deserialize, Serialize};

pub use crate::enforcement::{Enforcement, Layer, LayerState, Pausing};
use crate::network::Gate;
use crate::pack::LayerStream;

/// A boxed future, so that the traits stay usable behind `dyn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a sandbox is made from. All fields are decided by the engine; the driver judges none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// `sbx_` and 18 hex digits.
    pub id: String,
    /// The kernel's host name inside. The files that repeat it are the guest's (`Configure`).
    pub hostname: String,
    /// What its root is made of.
    pub root: Root,
    /// Virtual processors; clamped by the engine to what the host has.
    pub vcpus: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of the writable layer.
    pub disk_bytes: u64,
    /// Inodes of the writable layer.
    pub disk_inodes: u64,
    /// Most processes and threads.
    pub max_processes: u64,
    /// Host directories or files shown read-only inside (only `holm run --mount-ro`).
    pub mounts: Vec<MountRo>,
}

impl SandboxSpec {
    /// What a blank must be like to become this sandbox.
    #[must_use]
    pub fn shape(&self) -> Shape {
        Shape {
            vcpus: self.vcpus,
            memory_bytes: self.memory_bytes,
            disk_bytes: self.disk_bytes,
            disk_inodes: self.disk_inodes,
            max_processes: self.max_processes,
        }
    }
}

/// The part of a [`SandboxSpec`] that is built in before anybody knows whose sandbox it will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in `SandboxSpec`")]
pub struct Shape {
    pub vcpus: u32,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    pub disk_inodes: u64,
    pub max_processes: u64,
}

/// What a sandbox finds below its root before it has written anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// The host's own programs (template `host`, alias `base`).
    #[default]
    Host,
    /// Directories of the host, the lowest one first, each a layer as an overlay has it: what it
    /// deletes is a character device 0:0, what it makes opaque has `user.overlay.opaque`. Nothing
    /// below them is believed: whatever they have where something of ours must be, gives way.
    Layers(Vec<PathBuf>),
    /// The host's own programs, and such layers over them: what sandboxes of the former have written.
    Over(Vec<PathBuf>),
}

impl Root {
    /// The most layers of one root.
    pub const MAX_LAYERS: usize = 128;
}

/// A host path shown read-only inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRo {
    /// Absolute path on the host.
    pub host: PathBuf,
    /// Absolute path inside.
    pub inside: String,
}

/// Makes sandboxes.
pub trait Driver: Send + Sync + 'static {
    /// Makes one sandbox; its guest's socket accepts connections when this returns (the guest may
    /// still need a moment to answer). Cancel-safe: a dropped future leaves nothing behind.
    ///
    /// # Errors
    /// See [`DriverError`]. After an error nothing of the sandbox is left on the host.
    fn create(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<Box<dyn Machine>, DriverError>>;

    /// Waits until nothing is left of a sandbox whose create was dropped. Nothing is waited for where
    /// there is none of that id. Idempotent.
    ///
    /// # Errors
    /// As for [`Machine::destroy`].
    fn dropped(&self, _id: &str) -> BoxFuture<'_, Result<(), DriverError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What this host can enforce, as found at start-up. What a sandbox really has is measured
    /// inside it (the guest's `Probe`).
    fn enforcement(&self) -> &Enforcement;

    /// The same as far as it is known without making a sandbox to look at.
    fn known_enforcement(&self) -> Option<&Enforcement> {
        Some(self.enforcement())
    }

    /// Whether sandboxes can be paused here ([`Machine::freeze`]). Asks nobody.
    fn pausing(&self) -> Pausing {
        let by = "this driver cannot do that".to_owned();
        Pausing { possible: false, by, mend: None }
    }

    /// Ends every sandbox and waits until nothing is left. Idempotent.
    fn shutdown(&self) -> BoxFuture<'_, ()>;

    /// Sandboxes that a driver before this one has made and that were running when this one
    /// started. Each is to be adopted: to be used, or to be destroyed.
    fn left_over(&self) -> Vec<String> {
        Vec::new()
    }

    /// Takes one of them over. It may have died since; then [`Machine::exited`] says so. `None`
    /// when there is none of that id.
    fn adopt(&self, _id: &str) -> Option<Box<dyn Machine>> {
        None
    }

    /// Whether sandboxes that run go on when this driver ends, for the next one to adopt.
    fn outlived(&self) -> bool {
        false
    }

    /// Lets go: sandboxes that run go on where they outlive their driver, and end where they do
    /// not; what is half made is removed. Returns when that is done. Idempotent.
    fn leave(&self) -> BoxFuture<'_, ()> {
        self.shutdown()
    }
}

/// One running sandbox.
pub trait Machine: Send + Sync + 'static {
    /// The guest's socket.
    fn guest_socket(&self) -> &Path;

    /// PID 1 as the host sees it, for diagnosis.
    fn init_pid(&self) -> u32;

    /// Resolves once PID 1 is gone, with the reason as far as it is known. May be called often.
    fn exited(&self) -> BoxFuture<'_, ExitReason>;

    /// What the sandbox uses now. Fields that this host cannot tell are `None`.
    fn usage(&self) -> Usage;

    /// [`Usage::oom_kills`] alone, which is asked for around commands and must be cheap.
    fn oom_kills(&self) -> Option<u64>;

    /// The sockets of its egress gate, for whoever serves it; the caller alone has them, and when
    /// it closes them connections from inside are refused. The first call after a create gives those
    /// that were made with the sandbox; a later one binds new ones, after the former were closed.
    /// `None` where this host cannot give a gate (`Layer::EgressGate`): there the sandbox has loopback
    /// and nothing else.
    ///
    /// # Errors
    /// [`DriverErrorKind::InUse`] when the former ones are still open, or a program inside has taken
    /// their place. Nothing of it ever opens a way out.
    fn gate_sockets(&self) -> BoxFuture<'_, Result<Option<GateSockets>, DriverError>>;

    /// New sockets to connect to ports inside with: some, for as many connections. No program inside
    /// ever has one of them, so none can do to them what a descriptor lets one do. To them counts
    /// what the sandbox's network lets its programs do: loopback is reached, and nothing else but the
    /// gate. Whoever has one keeps the sandbox's network in the kernel, also when all else of the
    /// sandbox is gone; so they are to be closed with it. `None` where this driver has no such way.
    ///
    /// # Errors
    /// When they cannot be made now; the guest's tunnel leads to ports too.
    fn port_sockets(&self) -> BoxFuture<'_, Result<Option<PortSockets>, DriverError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Everything that the sandbox has written, as a layer for another one on the same base. Its
    /// processes stand still until the stream is read to its end or dropped, so that all of it is of one
    /// moment; where this host gives no group that can be stopped ([`Packed::paused`](crate::Packed))
    /// they go on. Where the stream ends with an error because their launcher died, they stand still until
    /// [`Self::thaw`]. Nobody outside opens a path of the sandbox: a helper below its root, which can reach
    /// nothing else, writes the stream.
    ///
    /// # Errors
    /// [`DriverErrorKind::InUse`] when too many wait for one that is under way, or its processes do not
    /// stop.
    fn pack(&self) -> BoxFuture<'_, Result<LayerStream, DriverError>> {
        let text = "This host's sandboxes cannot be copied.";
        let kind = DriverErrorKind::Internal;
        let error = DriverError { kind, message: text.into(), internal: text.into() };
        Box::pin(std::future::ready(Err(error)))
    }

    /// Stops all its processes and returns when all stand still; its memory and its connections are
    /// kept. Idle pages are given back to the host where it lets one ask for that, afterwards. A
    /// stopped one can be destroyed as any other, and stands still over the death of whoever stopped
    /// it. Idempotent. A call that has begun is finished also when its future is dropped.
    ///
    /// # Errors
    /// [`DriverErrorKind::Unsupported`] where this host cannot do that (`Enforcement::pause`);
    /// [`DriverErrorKind::InUse`] when a process does not stop, for example because it waits for its
    /// disk. After an error all go on.
    fn freeze(&self) -> BoxFuture<'_, Result<(), DriverError>> {
        let text = "This host cannot stop the processes of a sandbox.";
        let kind = DriverErrorKind::Unsupported;
        let error = DriverError { kind, message: text.into(), internal: text.into() };
        Box::pin(std::future::ready(Err(error)))
    }

    /// Lets them go on. Idempotent; nothing is done where they were not stopped.
    ///
    /// # Errors
    /// When the kernel refuses it.
    fn thaw(&self) -> BoxFuture<'_, Result<(), DriverError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Ends it and waits until no process, mount, cgroup or image of it is left. Idempotent; all
    /// callers return when it is done.
    ///
    /// # Errors
    /// When something could not be removed; what it is, is in the error. A later call tries again.
    fn destroy(&self) -> BoxFuture<'_, Result<(), DriverError>>;
}

/// Where what a sandbox wants from the network arrives.
#[derive(Debug)]
pub struct GateSockets {
    /// Listeners, of IPv4 and, where the host has it, IPv6. Of each connection the kernel tells the
    /// original destination.
    pub tcp: Vec<OwnedFd>,
    /// For DNS over UDP, one of each family.
    pub dns: Vec<OwnedFd>,
}

impl GateSockets {
    /// Of a sandbox with that gate. `None` when it has none, or its sockets have been given out.
    pub(crate) fn of(gate: &Gate, fds: Vec<OwnedFd>) -> Option<Self> {
        if fds.len() == 2 * gate.families() { Self::halves(fds) } else { None }
    }

    /// Listeners first.
    pub(crate) fn halves(mut tcp: Vec<OwnedFd>) -> Option<Self> {
        let dns = tcp.split_off(tcp.len() / 2);
        (!tcp.is_empty() && tcp.len() == dns.len()).then_some(Self { tcp, dns })
    }
}

/// TCP sockets of a sandbox's own network that are not connected yet; they do not block, and send
/// small parts at once.
#[derive(Debug, Default)]
pub struct PortSockets {
    /// For 127.0.0.1.
    pub v4: Vec<OwnedFd>,
    /// For `::1`, where the host has IPv6.
    pub v6: Vec<OwnedFd>,
}

impl PortSockets {
    pub(crate) fn by_family(fds: Vec<OwnedFd>) -> Self {
        let family = |fd: &OwnedFd| rustix::net::sockopt::socket_domain(fd);
        let (v6, v4) =
            fds.into_iter().partition(|fd| family(fd) == Ok(rustix::net::AddressFamily::INET6));
        Self { v4, v6 }
    }
}

/// Why a sandbox's PID 1 is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// [`Machine::destroy`] was called.
    Destroyed,
    /// The kernel ended it for memory.
    OutOfMemory,
    /// It ended by itself or was killed from elsewhere.
    Died,
}

/// Counters of a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory in use.
    pub memory_bytes: Option<u64>,
    /// Microseconds of processor time.
    pub cpu_usec: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Times that the kernel killed something in it for memory.
    pub oom_kills: Option<u64>,
}

/// A failed driver call. `message` may be shown to users: it never holds host paths.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct DriverError {
    /// What class of failure this is.
    pub kind: DriverErrorKind,
    /// What happened and what to do next, for users.
    pub message: String,
    /// The step that failed, with paths and system errors, for the log only.
    pub internal: String,
}

/// Classes of driver failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverErrorKind {
    /// A layer that is mandatory cannot be had here.
    IsolationUnavailable,
    /// The host has no room (disk reserve, memory, process ids, loop devices).
    HostExhausted,
    /// No such template.
    UnknownTemplate,
    /// A `--mount-ro` source or target that cannot be used.
    BadMount,
    /// The launcher is gone; the process must be restarted.
    LauncherGone,
    /// Another holm has what this one needs for itself alone.
    InUse,
    /// A directory of ours is not for us alone.
    UnsafeDirectory,
    /// A file of the sandbox cannot be kept in a layer.
    Unkeepable,
    /// This host cannot do it.
    Unsupported,
    /// Anything else.
    Internal,
}
