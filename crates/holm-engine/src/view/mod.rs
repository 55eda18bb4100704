//! What calls take and answer.

mod background;
mod command;
mod file;
mod kernel;
mod sandbox;
mod service;
mod snapshot;

pub use background::{Background, BackgroundCommand, BackgroundState, GetCommand, OutputPart};
pub use command::{CodeResult, Command, CommandResult, Output, RunCode, RunCommand};
pub use file::{FileContent, FileEntry, FileList, FileWritten};
pub use kernel::{
    CodeContext, CodeError, CodeOutput, CodeOutputKind, ContextState, CreateContext, KernelResult,
};
pub use sandbox::{
    CreateSandbox, Destroyed, ListSandboxes, NetworkState, NetworkView, SandboxView, UsageNow,
};
pub use service::{Limits, ServiceInfo, UsageReport, UsageRow};
pub use snapshot::{ForkSandbox, SnapshotView};
