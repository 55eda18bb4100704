//! What a sandbox means: its life, its lease, its limits, and the calls on it.
//!
//! Faces (MCP, CLI, later REST) translate to [`Engine`]'s calls and nothing more, so that a limit,
//! an error or a feature exists once. Knows no protocol, no kernel and no SQL: sandboxes are made
//! by a [`holm_runtime::Driver`], recorded by a [`store::Store`], and used through the guest
//! protocol of `holm-wire`. The guest is hostile; nothing here waits for it without a bound.

#![forbid(unsafe_code)]

mod capture;
mod code;
mod command;
mod create;
mod driver_error;
mod end;
mod engine;
mod env;
mod error;
mod exec;
mod faults;
mod files;
mod guest_error;
mod health;
mod id;
mod info;
mod language;
mod lease;
mod lifetime;
mod measure;
mod plan;
mod sandbox;
mod script;
mod settings;
mod signal;
mod size;
mod state;
mod steps;
pub mod store;
mod tasks;
mod text;
mod view;

pub use engine::Engine;
pub use error::{Error, ErrorKind};
#[doc(hidden)]
pub use faults::{Faults, Moment};
pub use id::{SandboxId, random_bytes};
pub use language::Language;
pub use lifetime::LifetimeRules;
pub use settings::EngineSettings;
pub use size::{Chosen, HostCapacity, Size, SizeName, Sizes};
pub use state::{EndReason, Ended, SandboxState};
#[doc(hidden)]
pub use steps::create_steps;
pub use view::{
    Background, CodeResult, Command, CommandResult, CreateSandbox, Destroyed, FileContent,
    FileEntry, FileList, FileWritten, Limits, ListSandboxes, Output, RunCode, RunCommand,
    SandboxView, ServiceInfo, UsageNow, UsageReport, UsageRow,
};

pub use holm_runtime::MountRo;
