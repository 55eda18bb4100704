//! How holm ends: exit codes, and failures with a hint.

use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::output;

/// Everything was done.
pub const SUCCESS: u8 = 0;
/// It failed; standard error says why.
pub const FAILURE: u8 = 1;
/// The arguments are wrong.
pub const USAGE: u8 = 2;
/// `holm run`: the time of `--timeout` passed (as `timeout(1)` has it).
pub const TIMED_OUT: u8 = 124;
/// `holm run`: holm itself failed, the command did not run or its sandbox was lost.
pub const HOLM_FAILED: u8 = 125;
/// `holm run`: the command exists but cannot be executed (as shells have it).
pub const NOT_EXECUTABLE: u8 = 126;
/// `holm run`: the command was not found (as shells have it).
pub const NOT_FOUND: u8 = 127;
/// `holm run`: added to the number of the signal that ended the command (as shells have it).
pub const SIGNAL_BASE: u8 = 128;

/// One row of the reference page.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The code, as text because of `128+N`.
    pub code: &'static str,
    /// Commands that use it.
    pub commands: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// All codes, for the reference page.
pub const TABLE: &[Row] = &[
    Row { code: "0", commands: "all", meaning: "Done; for `run`: the command's own." },
    Row {
        code: "1",
        commands: "all but run",
        meaning: "It failed, or `doctor` found a mandatory layer missing.",
    },
    Row { code: "2", commands: "all", meaning: "Wrong arguments." },
    Row { code: "124", commands: "run", meaning: "`--timeout` ended the command." },
    Row {
        code: "125",
        commands: "run",
        meaning: "holm itself failed: no sandbox, or the sandbox was lost.",
    },
    Row { code: "126", commands: "run", meaning: "The command cannot be executed." },
    Row { code: "127", commands: "run", meaning: "The command was not found." },
    Row { code: "128+N", commands: "run", meaning: "Signal N ended the command, or holm." },
    Row { code: "other", commands: "run", meaning: "The command's own." },
];

/// A command of holm failed. Printed as `error: …` and `hint: …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What happened.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure with exit code 1.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: FAILURE, message: message.into(), hint: None }
    }

    /// Wrong arguments that the parser cannot see.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into(), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same with another exit code.
    #[must_use]
    pub fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }
}

/// Prints what the argument parser has to say: help and versions to standard output, errors to
/// standard error, in the form of all of holm's errors.
#[must_use]
pub fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that went away has seen enough.
            let _ = output::stdout(error.render().to_string().as_bytes());
            ExitCode::from(SUCCESS)
        }
        _ => {
            output::stderr(error.render().to_string().as_bytes());
            ExitCode::from(USAGE)
        }
    }
}
