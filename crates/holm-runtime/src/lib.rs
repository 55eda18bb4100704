//! Sandboxes on this machine: the [`Driver`] trait and the Linux driver behind it.
//!
//! Knows no accounts, no HTTP and no SQL, and never opens a path inside a sandbox.

pub mod archive;
mod builder;
pub mod cgroup;
mod channel;
pub mod confined;
pub mod disk;
mod disk_ahead;
pub mod doctor;
pub mod driver;
mod enforcement;
mod failure;
mod helper;
pub mod hook;
pub mod ids;
mod instance;
mod jail;
mod kept;
pub mod launcher;
mod linux;
mod message;
mod network;
mod options;
mod pack;
mod private;
mod seccomp;
mod step;
mod sys;
mod template;
mod upper;

pub use driver::{
    BoxFuture, Driver, DriverError, DriverErrorKind, Enforcement, ExitReason, GateSockets, Layer,
    LayerState, Machine, MountRo, Pausing, PortSockets, Root, SandboxSpec, Shape, Usage,
};
pub use hook::{Hook, HookError};
pub use instance::has_unattended;
pub use launcher::Guest;
pub use linux::{Launching, LinuxDriver};
pub use options::{Lifetime, LinuxOptions};
pub use pack::{LayerStream, Packed};
pub use private::make_data_dir;
pub use step::{Fault, FaultMode, Step, When};
pub use template::AUTHORITY;
