//! `process.Process` of envd: start programs, follow them, feed and signal them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessConfig {
    /// Program, looked up in `PATH`.
    pub cmd: String,
    /// Arguments after the program's name.
    pub args: Vec<String>,
    /// Variables added to the sandbox's own.
    pub envs: BTreeMap<String, String>,
    /// Working directory; the user's default where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtySize {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

/// A terminal for the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pty {
    /// Its size at the start.
    pub size: PtySize,
}

/// Request of `Start` (server stream of [`EventResponse`]).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StartRequest {
    /// What to run.
    pub process: ProcessConfig,
    /// Run it on a terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pty: Option<Pty>,
    /// A name by which the process can be selected later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Keep standard input open for `SendInput`; absent means true (envd's rule).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<bool>,
}

/// Names a running process. On the wire exactly one of the two is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessSelector {
    /// By process id inside the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// By tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

impl ProcessSelector {
    /// Selects by pid.
    #[must_use]
    pub fn pid(pid: u32) -> Self {
        Self { pid: Some(pid), tag: None }
    }
}

/// Request of `Connect` (server stream), `CloseStdin`, and the selector part of others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SelectRequest {
    /// Which process.
    pub process: ProcessSelector,
}

/// One message of the `Start` and `Connect` streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventResponse {
    /// What happened.
    pub event: ProcessEvent,
}

/// What happened to a process (a protobuf oneof: one key).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProcessEvent {
    /// It runs; always the first event.
    Start(StartEvent),
    /// It wrote something.
    Data(DataEvent),
    /// It ended; always the last event.
    End(EndEvent),
    /// Nothing happened for a while.
    Keepalive(Empty),
}

/// An empty message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// The process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartEvent {
    /// Its id inside the sandbox.
    pub pid: u32,
}

/// Output (a protobuf oneof: one key).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DataEvent {
    /// From standard output.
    Stdout(#[serde(with = "crate::encoding::bytes")] Vec<u8>),
    /// From standard error.
    Stderr(#[serde(with = "crate::encoding::bytes")] Vec<u8>),
    /// From the terminal.
    Pty(#[serde(with = "crate::encoding::bytes")] Vec<u8>),
}

/// The process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndEvent {
    /// Exit code; 128 + signal after death by a signal.
    pub exit_code: i32,
    /// True when it ended by itself.
    pub exited: bool,
    /// Text form, for example `exit status 1` or `signal: killed`.
    pub status: String,
    /// Why it could not run or was ended, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Response of `List`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListResponse {
    /// What runs.
    pub processes: Vec<ProcessInfo>,
}

/// One running process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessInfo {
    /// How it was started.
    pub config: ProcessConfig,
    /// Its id inside the sandbox.
    pub pid: u32,
    /// Its tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// Input for a process (a protobuf oneof: one key).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProcessInput {
    /// To standard input.
    Stdin(#[serde(with = "crate::encoding::bytes")] Vec<u8>),
    /// To the terminal.
    Pty(#[serde(with = "crate::encoding::bytes")] Vec<u8>),
}

/// Request of `SendInput`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendInputRequest {
    /// Which process.
    pub process: ProcessSelector,
    /// What to write.
    pub input: ProcessInput,
}

/// One message of the client stream `StreamInput` (a protobuf oneof: one key).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamInputRequest {
    /// Which process; always the first message.
    Start(SelectRequest),
    /// Input for it.
    Data(StreamInputData),
    /// The caller lives and has nothing to send.
    Keepalive(Empty),
}

/// Input in a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamInputData {
    /// What to write.
    pub input: ProcessInput,
}

/// Request of `SendSignal`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendSignalRequest {
    /// Which process.
    pub process: ProcessSelector,
    /// `SIGNAL_SIGTERM` or `SIGNAL_SIGKILL` in envd; this guest also takes the other common
    /// names in the same form (`SIGNAL_SIGINT`, `SIGNAL_SIGHUP`, `SIGNAL_SIGQUIT`, …).
    pub signal: String,
}

/// Request of `Update`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateRequest {
    /// Which process.
    pub process: ProcessSelector,
    /// The new terminal size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pty: Option<Pty>,
}
