//! Sandboxes on this machine: the [`Driver`] trait and the Linux driver behind it.
//!
//! Knows no accounts, no HTTP and no SQL, and never opens a path inside a sandbox.

pub mod driver;

pub use driver::{
    BoxFuture, Driver, DriverError, DriverErrorKind, Enforcement, ExitReason, Layer, LayerState,
    Machine, MountRo, SandboxSpec, Usage,
};
