//! `holm.guest.v1`: commands that go on when the call that started them is over.
//!
//! They are the guest's own: they go on when a caller goes away or the service is started again, and
//! end with the sandbox. Of each stream the newest bytes are kept, and asked for by their place in
//! the stream, so that nobody reads anything twice or misses anything that is kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Commands that run at once.
pub const MOST_RUNNING: usize = 64;
/// Ended ones that can still be asked for; the one that ended first makes room.
pub const MOST_ENDED: usize = 64;
/// Longest wait of one [`GetRequest`].
pub const LONGEST_WAIT_MS: u64 = 60_000;
/// Most bytes of each stream in one answer.
pub const MOST_AT_ONCE: u64 = 1 << 20;

/// Request of `StartBackground`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StartRequest {
    /// Program (looked up in the command's `PATH`) and arguments.
    pub argv: Vec<String>,
    /// Variables added to the sandbox's own.
    pub env: BTreeMap<String, String>,
    /// Working directory; the configured one where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `sandbox` or `root`; empty means `sandbox`.
    pub user: String,
    /// Milliseconds until the command and all that it started are killed; 0 means no limit.
    pub timeout_ms: u64,
    /// Newest bytes kept of each stream; 0 means [`crate::guest::DEFAULT_OUTPUT_LIMIT`].
    pub output_limit: u64,
    /// Keep standard input open for `SendBackgroundInput`. Else it is at its end at once.
    pub stdin: bool,
}

/// Names a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Started {
    /// Its id, unique in its sandbox.
    pub id: String,
    /// Its process id inside.
    pub pid: u32,
}

/// Request of `GetBackground`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GetRequest {
    /// Which.
    pub id: String,
    /// Place in standard output from which on it is wanted.
    pub stdout_from: u64,
    /// The same of standard error.
    pub stderr_from: u64,
    /// Most bytes of each; 0 means [`MOST_AT_ONCE`].
    pub max_bytes: u64,
    /// Milliseconds to wait while there is nothing new and it runs, at most [`LONGEST_WAIT_MS`].
    pub wait_ms: u64,
}

/// How a command is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It runs.
    #[default]
    Running,
    /// It ended by itself.
    Exited,
    /// A signal that nobody here sent ended it.
    Signaled,
    /// It was killed at its time limit, with all that it started.
    TimedOut,
    /// `KillBackground` ended it.
    Killed,
}

/// A command, and what it wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Command {
    /// Its id.
    pub id: String,
    /// Its process id inside.
    pub pid: u32,
    /// What it runs, cut where it is long.
    pub command: String,
    /// How it is.
    pub state: State,
    /// Exit code once it has ended; 128 + signal after death by a signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal's number, if one ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Milliseconds since 1970 at which it began, by the sandbox's clock.
    pub started_ms: u64,
    /// How long it has run, in milliseconds.
    pub duration_ms: u64,
    /// Its standard input takes more.
    pub stdin_open: bool,
    /// Its standard output.
    pub stdout: Part,
    /// Its standard error.
    pub stderr: Part,
}

/// A part of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Part {
    /// Place of its first byte. Later than what was asked for where older ones are not kept.
    pub from: u64,
    /// The bytes.
    #[serde(with = "crate::encoding::bytes")]
    pub bytes: Vec<u8>,
    /// Bytes that the command has written so far.
    pub total: u64,
}

/// Request of `SendBackgroundInput`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InputRequest {
    /// Which.
    pub id: String,
    /// What to write.
    #[serde(with = "crate::encoding::bytes")]
    pub data: Vec<u8>,
    /// End standard input after that.
    pub close: bool,
}

/// Request of `KillBackground`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KillRequest {
    /// Which.
    pub id: String,
    /// `SIGTERM` and other names; `SIGKILL`, also where empty, ends all that it started.
    pub signal: String,
}

/// Response of `ListBackground`: without output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct List {
    /// In the order in which they began.
    pub commands: Vec<Command>,
}
