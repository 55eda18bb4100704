//! What a sandbox means: its life, its lease, its limits, and the calls on it.
//!
//! Faces (MCP, CLI, later REST) translate to [`Engine`]'s calls and nothing more, so that a limit,
//! an error or a feature exists once. Knows no protocol, no kernel and no SQL: sandboxes are made
//! by a [`holm_runtime::Driver`], recorded by a [`holm_store::Store`], and used through the guest
//! protocol of `holm-wire`. The guest is hostile; nothing here waits for it without a bound.

#![forbid(unsafe_code)]

mod account;
mod adopt;
mod audit;
mod auth;
mod background;
mod base;
mod caller;
mod capture;
mod code;
mod command;
mod context;
mod copy;
mod counts;
mod create;
mod direct;
mod driver_error;
mod end;
mod engine;
mod env;
mod error;
mod event;
mod exec;
mod exec_stream;
mod faults;
mod files;
mod fork;
mod guest_error;
mod health;
mod id;
mod idempotency;
mod idle;
mod info;
mod kernel;
mod key;
mod key_end;
mod language;
mod lease;
mod lifetime;
mod measure;
mod meter;
mod network;
mod pause;
mod plan;
mod port;
mod price;
mod rate;
mod ready;
mod record;
mod registry;
mod room;
mod sandbox;
mod script;
mod secret;
mod settings;
mod shares;
mod signal;
mod size;
mod snapshot;
mod start;
mod steps;
mod store_error;
mod tasks;
mod template;
mod text;
mod transfer;
mod usage;
mod uses;
mod view;
mod way;
mod webhook;

pub use account::{AccountChange, NewAccount};
pub use auth::Refusal;
pub use caller::Caller;
pub use copy::{GivenUp, NewSnapshot, Written};
pub use counts::{BOUNDS_MS, Durations, Metrics};
pub use create::FirstCall;
#[doc(hidden)]
pub use end::end_steps;
pub use engine::Engine;
pub use error::{Error, ErrorKind};
pub use exec_stream::{ExecEvent, ExecStream};
#[doc(hidden)]
pub use faults::{Faults, Moment};
pub use fork::MAX_FORKS;
pub use id::random_bytes;
pub use key::{CreatedKey, NewKey};
pub use key_end::KeyEnd;
pub use language::Language;
pub use lifetime::LifetimeRules;
#[doc(hidden)]
pub use network::network_steps;
#[doc(hidden)]
pub use pause::pause_steps;
pub use port::{NoPreview, NotConnected, PortOptions, Preview};
pub use price::Prices;
pub use rate::{Buckets, Rate};
pub use room::Room;
pub use secret::{NewSecret, SecretView, is_secret_name};
pub use settings::EngineSettings;
pub use shares::{Places, Shares};
pub use size::{Chosen, HostCapacity, Sizes};
#[doc(hidden)]
pub use steps::create_steps;
pub use template::{
    HeldTemplate, SharedLibrary, Standing, Template, TemplateConfig, TemplateLibrary, TemplateView,
};
pub use text::whole_text;
pub use transfer::{Download, Upload};
pub use uses::Use;
pub use view::{
    Background, BackgroundCommand, BackgroundState, CodeContext, CodeError, CodeOutput,
    CodeOutputKind, CodeResult, Command, CommandResult, ContextState, CreateContext, CreateSandbox,
    Destroyed, FileContent, FileEntry, FileList, FileWritten, ForkSandbox, GetCommand,
    KernelResult, Limits, ListSandboxes, NetworkState, NetworkView, Output, OutputPart, RunCode,
    RunCommand, SandboxView, ServiceInfo, SnapshotView, UsageNow, UsageReport, UsageRow,
};
pub use webhook::{Deliver, Delivered, Message, WebhookRules, Webhooks};

pub use holm_gate::{
    Ca, Counters, Denial, EgressPolicy, Limits as GateLimits, Mode, PolicyError, Proxy, Rule,
    Uplink, UplinkError, UplinkOptions,
};
pub use holm_runtime::{MountRo, Pausing};
pub use holm_store::{
    Account, AccountId, AccountLimits, AuditEvent, Cursor, CursorError, EndReason, Ended, Entry,
    EntryKind, EventId, IdError, Key, KeyHasher, KeyId, KeyScope, KeyStatus, KeyText, MemoryStore,
    NodeId, Outcome, PORTS_MAX, Page, PageQuery, Port, SandboxId, SandboxState, Sealer, SecretText,
    Size, SizeName, Store, Traffic, Usage,
};
pub use way::Way;
