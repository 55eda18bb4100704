//! Commands and code: what running takes and answers.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::{KernelResult, Language};

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
    /// Time limit; the setting's default (60 s) where absent, at most the remaining lease. In the
    /// background none where absent.
    pub timeout: Option<Duration>,
    /// Standard input; at its end at once where absent. None in the background.
    pub stdin: Option<Bytes>,
    /// In the background: keep standard input open for `command_input`.
    pub keep_stdin: bool,
    /// Bytes kept of each stream; the setting's default (1 MiB) where absent. In the background
    /// the newest ones.
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
    /// True when the sandbox was out of memory while it ran, and a process was killed: this
    /// command's or another one's. The exit code stays what it was.
    pub out_of_memory: bool,
    /// Wall time.
    pub duration: Duration,
    /// The time limit that was in force.
    pub timeout: Duration,
    /// What a reader should know: which limit was met.
    pub note: Option<String>,
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
    /// In which context; where absent the usual one of language and user, if the sandbox has a kernel
    /// of the language. Goes with neither variables, directory nor user, which a context has of its own.
    pub context: Option<String>,
    /// A directory for images and documents among the results.
    pub save_to: Option<String>,
}

/// Answer of `code_run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeResult {
    /// How the interpreter ended.
    pub result: CommandResult,
    /// The language.
    pub language: Language,
    /// True when it ran in a context, which keeps variables. False for a fresh interpreter: where the
    /// sandbox has no kernel of the language, or the call has variables or a directory of its own.
    pub stateful: bool,
    /// What more a kernel says.
    pub kernel: Option<KernelResult>,
}
