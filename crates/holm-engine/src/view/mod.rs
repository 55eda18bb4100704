//! What calls take and answer.

mod command;
mod file;
mod sandbox;
mod service;

pub use command::{Background, CodeResult, Command, CommandResult, Output, RunCode, RunCommand};
pub use file::{FileContent, FileEntry, FileList, FileWritten};
pub use sandbox::{
    CreateSandbox, Destroyed, ListSandboxes, NetworkState, NetworkView, SandboxView, UsageNow,
};
pub use service::{Limits, ServiceInfo, UsageReport, UsageRow};
