//! What calls take and answer.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use holm_runtime::{LayerState, MountRo};
use jiff::Timestamp;

use crate::{Ended, Language, SandboxId, SandboxState, Size, SizeName};

/// Request of `sandbox_create`. Everything has a default.
#[derive(Debug, Clone, Default)]
pub struct CreateSandbox {
    /// Template; the setting's default where absent.
    pub template: Option<String>,
    /// `small`, `medium` or `large`.
    pub size: Option<String>,
    /// Without a size: the smallest with this many processors …
    pub cpu: Option<u32>,
    /// … and this many MiB of memory.
    pub memory_mb: Option<u64>,
    /// The caller's name for it (1 to 64 characters); also the host name where it is one.
    pub name: Option<String>,
    /// Lifetime from the moment that it is ready.
    pub timeout: Option<Duration>,
    /// Variables of every command in it.
    pub env: BTreeMap<String, String>,
    /// Labels; kept, not interpreted.
    pub metadata: BTreeMap<String, String>,
    /// Only `none` for now (loopback only), which is also the default.
    pub network: Option<String>,
    /// Where commands start; `/workspace` where absent.
    pub workdir: Option<String>,
    /// Host paths shown read-only. Only for callers who own the host.
    pub mounts: Vec<MountRo>,
}

/// Request of `sandbox_list`.
#[derive(Debug, Clone, Copy)]
pub struct ListSandboxes {
    /// At most this many, newest first.
    pub limit: usize,
    /// Also those that are over and still remembered.
    pub include_deleted: bool,
}

impl Default for ListSandboxes {
    fn default() -> Self {
        Self { limit: 100, include_deleted: false }
    }
}

/// One sandbox as callers see it.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxView {
    /// Its id.
    pub id: SandboxId,
    /// The caller's name for it.
    pub name: Option<String>,
    /// Where it is in its life.
    pub state: SandboxState,
    /// Its template.
    pub template: String,
    /// Its size.
    pub size: SizeName,
    /// Processors given.
    pub vcpus: u32,
    /// Processors that the size asks for, where the host has fewer.
    pub vcpus_asked: Option<u32>,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Disk in MiB.
    pub disk_mb: u64,
    /// When the create was asked for.
    pub created_at: Timestamp,
    /// When it became usable.
    pub ready_at: Option<Timestamp>,
    /// When its lease ends.
    pub expires_at: Option<Timestamp>,
    /// `none`: loopback only.
    pub network: String,
    /// Layers of isolation in force, as measured in it.
    pub enforced: Vec<String>,
    /// Layers that it goes without.
    pub missing: Vec<String>,
    /// The caller's labels.
    pub metadata: BTreeMap<String, String>,
    /// What it uses now; only in `sandbox_get` of a running one.
    pub usage: Option<UsageNow>,
    /// Why and when it ended; set from `deleting` on.
    pub ended: Option<Ended>,
}

/// What a sandbox uses at this moment; `None` where this host cannot tell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UsageNow {
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Seconds of processor time.
    pub cpu_seconds: Option<f64>,
    /// Processes and threads.
    pub processes: Option<u64>,
}

/// Answer of `sandbox_destroy`. Only given when nothing of the sandbox is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destroyed {
    /// Its id.
    pub id: SandboxId,
    /// True when it was over, or on its way there, before this call: destroying is idempotent.
    pub already: bool,
    /// Why and when it ended.
    pub ended: Ended,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A line for `sh -c`.
    Shell(String),
    /// A program and its arguments.
    Argv(Vec<String>),
}

impl Default for Command {
    fn default() -> Self {
        Self::Shell(String::new())
    }
}

/// Request of `exec_run` and `exec_background`.
#[derive(Debug, Clone, Default)]
pub struct RunCommand {
    /// What.
    pub command: Command,
    /// Working directory; the sandbox's where absent.
    pub cwd: Option<String>,
    /// Variables added to the sandbox's.
    pub env: BTreeMap<String, String>,
    /// `sandbox` (also where absent) or `root`.
    pub user: Option<String>,
    /// Time limit; the setting's default (60 s) where absent, at most the remaining lease.
    /// Not used in the background.
    pub timeout: Option<Duration>,
    /// Standard input; at its end at once where absent. Not used in the background.
    pub stdin: Option<Bytes>,
    /// Bytes kept of each stream; the setting's default (1 MiB) where absent.
    pub output_limit: Option<u64>,
}

impl RunCommand {
    /// `sh -c line`.
    #[must_use]
    pub fn shell(line: impl Into<String>) -> Self {
        Self { command: Command::Shell(line.into()), ..Self::default() }
    }

    /// A program and its arguments.
    #[must_use]
    pub fn argv<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        let argv = argv.into_iter().map(Into::into).collect();
        Self { command: Command::Argv(argv), ..Self::default() }
    }
}

/// One output stream of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Its text: head and tail, joined by a line that says how many bytes were cut.
    pub text: String,
    /// True when something was cut.
    pub truncated: bool,
    /// True when bytes that are no UTF-8 were replaced by U+FFFD.
    pub lossy: bool,
    /// Bytes that the command wrote in all.
    pub bytes: u64,
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandResult {
    /// Its exit code; 128 + signal after death by a signal.
    pub exit_code: i32,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// True when it was killed at its time limit, with all that it had started.
    pub timed_out: bool,
    /// Name of the signal that ended it (`SIGSEGV`).
    pub signal: Option<String>,
    /// True when it, or its last child, was killed because the sandbox was out of memory.
    pub out_of_memory: bool,
    /// Wall time.
    pub duration: Duration,
    /// The time limit that was in force.
    pub timeout: Duration,
    /// What a reader should know: which limit ended it.
    pub note: Option<String>,
}

/// Answer of `exec_background`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Background {
    /// Process id inside the sandbox.
    pub pid: u32,
}

/// Request of `code_run`.
#[derive(Debug, Clone, Default)]
pub struct RunCode {
    /// The program's text.
    pub code: String,
    /// Its language.
    pub language: Language,
    /// Time limit; the setting's default (30 s) where absent, at most the remaining lease.
    pub timeout: Option<Duration>,
    /// Variables added to the sandbox's.
    pub env: BTreeMap<String, String>,
    /// Working directory; the sandbox's where absent.
    pub cwd: Option<String>,
    /// `sandbox` (also where absent) or `root`.
    pub user: Option<String>,
}

/// Answer of `code_run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeResult {
    /// How the interpreter ended.
    pub result: CommandResult,
    /// The language.
    pub language: Language,
    /// Always false for now: each call is a fresh interpreter, variables are not kept.
    pub stateful: bool,
}

/// Answer of `file_read`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// The bytes.
    pub bytes: Bytes,
    /// Size of the whole file.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// True when the file goes on after these bytes.
    pub truncated: bool,
}

/// Answer of `file_write`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWritten {
    /// Absolute path.
    pub path: String,
    /// Bytes written.
    pub bytes: u64,
}

/// One page of `file_list`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileList {
    /// Entries in the order of their paths.
    pub files: Vec<FileEntry>,
    /// Set when there is more: `after` of the next call.
    pub next: Option<String>,
    /// Directories that could not be read (some of them, where there are many).
    pub unreadable: Vec<String>,
}

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Absolute path.
    pub path: String,
    /// Last part of it.
    pub name: String,
    /// `file`, `directory`, `symlink`, `other`.
    pub kind: &'static str,
    /// Bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Seconds since 1970.
    pub mtime: i64,
    /// Where a link points.
    pub target: Option<String>,
}

/// Answer of `usage`.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageReport {
    /// Alive now.
    pub sandboxes_running: usize,
    /// Ever ready in this process.
    pub sandboxes_total: u64,
    /// Seconds of all of them, from ready to their end or to now.
    pub seconds_total: f64,
    /// The newest ones.
    pub recent: Vec<UsageRow>,
}

/// One sandbox in a usage report.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageRow {
    /// Its id.
    pub id: SandboxId,
    /// Its name.
    pub name: Option<String>,
    /// Its size.
    pub size: SizeName,
    /// Where it is in its life.
    pub state: SandboxState,
    /// When the create was asked for.
    pub created_at: Timestamp,
    /// Seconds from ready to its end or to now.
    pub seconds: f64,
    /// Why and when it ended.
    pub ended: Option<Ended>,
}

/// Answer of `service_info`.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceInfo {
    /// `holm`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Which driver makes sandboxes.
    pub driver: String,
    /// `root` or `rootless` …
    pub mode: String,
    /// Layers that this host gives, as found at start-up.
    pub enforced: Vec<String>,
    /// Layers that it does not.
    pub missing: Vec<String>,
    /// All of them with what does it and how to mend it.
    pub layers: Vec<LayerState>,
    /// Limits.
    pub limits: Limits,
    /// Sizes: name and numbers, processors as this host gives them.
    pub sizes: Vec<(SizeName, Size)>,
    /// Templates that may be asked for, aliases included.
    pub templates: Vec<String>,
    /// Languages of `code_run`; whether a sandbox has the interpreter depends on its template.
    pub languages: Vec<Language>,
    /// Text about the network.
    pub network: String,
}

/// Limits in service info.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it; see EngineSettings")]
pub struct Limits {
    pub max_sandboxes: usize,
    pub lifetime_default: Duration,
    pub lifetime_min: Duration,
    pub lifetime_max: Duration,
    pub exec_timeout: Duration,
    pub code_timeout: Duration,
    pub output_limit: u64,
    pub max_read: u64,
    pub max_write: u64,
    pub max_env_value: usize,
    pub max_env_total: usize,
}
