//! Commands in the background, as callers see them.

use std::time::Duration;

use jiff::Timestamp;

/// Answer of `exec_background`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Background {
    /// Its id, unique in its sandbox.
    pub id: String,
    /// Process id inside the sandbox.
    pub pid: u32,
}

/// How a command in the background is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundState {
    /// It runs.
    Running,
    /// It ended by itself.
    Exited,
    /// A signal ended it that nobody sent with `command_kill`.
    Signaled,
    /// It was killed at its time limit, with all that it started.
    TimedOut,
    /// `command_kill` ended it.
    Killed,
}

impl BackgroundState {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Running, Self::Exited, Self::Signaled, Self::TimedOut, Self::Killed];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Signaled => "signaled",
            Self::TimedOut => "timed_out",
            Self::Killed => "killed",
        }
    }
}

/// What is wanted of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GetCommand {
    /// Place in standard output from which on it is wanted: `next` of the answer before.
    pub stdout_from: u64,
    /// The same of standard error.
    pub stderr_from: u64,
    /// Most bytes of each stream; 64 KiB where absent, 1 MiB at most.
    pub max_bytes: Option<u64>,
    /// How long to wait while there is nothing new and it runs; at most a minute.
    pub wait: Duration,
}

impl GetCommand {
    /// Longest wait of one call.
    pub const MAX_WAIT_MS: u64 = 60_000;
    /// Most bytes of each stream in one answer.
    pub const MAX_BYTES: u64 = 1 << 20;
    /// The largest place that JSON numbers hold exactly.
    pub const MAX_PLACE: u64 = (1 << 53) - 1;
}

/// A command in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundCommand {
    /// Its id.
    pub id: String,
    /// Its process id inside.
    pub pid: u32,
    /// What it runs, cut where it is long.
    pub command: String,
    /// How it is.
    pub state: BackgroundState,
    /// Exit code once it has ended; 128 + signal after death by a signal.
    pub exit_code: Option<i32>,
    /// Name of the signal that ended it.
    pub signal: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it has run.
    pub duration: Duration,
    /// Its standard input takes more.
    pub stdin_open: bool,
    /// Standard output; without text where none was asked for.
    pub stdout: OutputPart,
    /// Standard error.
    pub stderr: OutputPart,
}

/// A part of what a command wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputPart {
    /// Place of its first byte.
    pub from: u64,
    /// Place after its last byte: where the next part begins.
    pub next: u64,
    /// Its text.
    pub text: String,
    /// Bytes before `from` that were asked for and are not kept any more.
    pub missed: u64,
    /// Bytes that the command has written so far.
    pub total: u64,
    /// True when bytes that are no UTF-8 were replaced by U+FFFD.
    pub lossy: bool,
}
