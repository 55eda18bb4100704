//! Code contexts, and what came of code that ran in one.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;

use crate::Language;

/// Request of `context_create`.
#[derive(Debug, Clone, Default)]
pub struct CreateContext {
    /// The language.
    pub language: Language,
    /// Where its kernel starts; the sandbox's directory where absent.
    pub cwd: Option<String>,
    /// Variables of its kernel, added to the sandbox's.
    pub env: BTreeMap<String, String>,
    /// `sandbox` (also where absent) or `root`.
    pub user: Option<String>,
}

/// How a code context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextState {
    /// It has no kernel; the next code starts one.
    Empty,
    /// Its kernel waits for code.
    Idle,
    /// Its kernel starts or runs code.
    Busy,
}

impl ContextState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Empty, Self::Idle, Self::Busy];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Idle => "idle",
            Self::Busy => "busy",
        }
    }
}

/// A code context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeContext {
    /// Its id, unique in its sandbox.
    pub id: String,
    /// Its language's name.
    pub language: String,
    /// The name of its kernel's specification; empty where it has had none.
    pub kernel: String,
    /// How it is.
    pub state: ContextState,
    /// What code runs in that names no context.
    pub is_default: bool,
    /// Whose kernel it is.
    pub user: String,
    /// Where its kernel starts.
    pub cwd: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Pieces of code that it has run.
    pub executions: u64,
}

/// What an output of code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeOutputKind {
    /// Text of standard output.
    Stdout,
    /// Text of standard error.
    Stderr,
    /// The value of the last expression.
    Result,
    /// What the code displayed.
    Display,
    /// The error that it raised.
    Error,
}

impl CodeOutputKind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Stdout, Self::Stderr, Self::Result, Self::Display, Self::Error];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Result => "result",
            Self::Display => "display",
            Self::Error => "error",
        }
    }
}

/// One output of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeOutput {
    /// What it is.
    pub kind: CodeOutputKind,
    /// A stream's text; where some was cut, a line says so.
    pub text: String,
    /// True where some of that was cut.
    pub is_cut: bool,
    /// The forms of a result that are text, by media type.
    pub texts: BTreeMap<String, String>,
    /// Those that are not: `image/png`, `image/jpeg`, `application/pdf`.
    pub binaries: BTreeMap<String, Bytes>,
    /// Forms that had no room or were none of their kind, and their bytes.
    pub left_out: BTreeMap<String, u64>,
    /// Where forms were stored, by media type.
    pub saved: BTreeMap<String, String>,
}

/// An error that code raised.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeError {
    /// Its class.
    pub name: String,
    /// What it says.
    pub value: String,
    /// Where it happened, in lines.
    pub traceback: String,
}

/// What came of code that ran in a context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelResult {
    /// The context's id.
    pub context: String,
    /// Its variables are there for the next code. False where the kernel has ended.
    pub variables_kept: bool,
    /// The code's number in its kernel.
    pub count: Option<u64>,
    /// What it wrote and displayed, in order.
    pub outputs: Vec<CodeOutput>,
    /// The error that it raised.
    pub error: Option<CodeError>,
    /// Outputs that found no place.
    pub outputs_dropped: u64,
}
