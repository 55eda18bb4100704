//! Commands in the background: what became of them, what they wrote, their input and their end.

use std::time::Duration;

use holm_engine::{
    BackgroundCommand, BackgroundState, ErrorKind, GetCommand, KeyScope, OutputPart, SandboxId,
};
use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::{Json, NoQuery, Nothing, Object};
use super::number::Whole;
use super::output::Answer;
use super::text::time_schema;
use crate::show;

const MAX_PLACE: u64 = GetCommand::MAX_PLACE;
const MAX_BYTES: u64 = GetCommand::MAX_BYTES;
const MAX_WAIT_MS: u64 = GetCommand::MAX_WAIT_MS;
const ID: &str = "^cmd_[0-9]{1,20}$";

/// Which command, and what of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandQuery {
    /// Its id, as its start answered.
    #[schemars(extend("pattern" = ID))]
    pub command_id: String,
    /// Place in standard output from which on it is wanted (default: 0): `next` of the answer before.
    pub stdout_from: Option<Whole<0, MAX_PLACE>>,
    /// The same of standard error.
    pub stderr_from: Option<Whole<0, MAX_PLACE>>,
    /// Most bytes of each stream (default: 65536).
    pub max_bytes: Option<Whole<1, MAX_BYTES>>,
    /// Milliseconds to wait while there is nothing new and it runs (default: 0).
    pub wait_ms: Option<Whole<0, MAX_WAIT_MS>>,
}

/// Text for a command's standard input.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandInput {
    /// Its id.
    #[schemars(extend("pattern" = ID))]
    pub command_id: String,
    /// What to write (default: nothing).
    #[serde(default)]
    #[schemars(length(max = 1_048_576))]
    pub text: Option<String>,
    /// End standard input after it (default: false).
    #[serde(default)]
    pub close: Option<bool>,
}

impl Object for CommandInput {}

/// Which command to end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandKill {
    /// Its id.
    #[schemars(extend("pattern" = ID))]
    pub command_id: String,
    /// A signal for its process group (`SIGTERM`, `SIGINT` …). Without one it is killed, with all
    /// that it started.
    #[serde(default)]
    #[schemars(extend("pattern" = "^SIG(INT|TERM|HUP|QUIT|USR1|USR2|CONT|STOP|KILL)$"))]
    pub signal: Option<String>,
}

impl Object for CommandKill {}

/// A part of what a command wrote.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CommandOutput {
    /// Place of its first byte. Later than what was asked for where older bytes are not kept.
    pub from: u64,
    /// Where the next part begins.
    pub next: u64,
    /// Its text.
    pub text: String,
    /// Bytes that were asked for and are not kept any more.
    pub missed: u64,
    /// Bytes that the command has written so far.
    pub total: u64,
    /// True when bytes that are no UTF-8 were replaced by U+FFFD.
    pub lossy: bool,
}

impl From<OutputPart> for CommandOutput {
    fn from(part: OutputPart) -> Self {
        let OutputPart { from, next, text, missed, total, lossy } = part;
        Self { from, next, text, missed, total, lossy }
    }
}

/// How a command in the background is.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CommandHead {
    /// Its id, unique in its sandbox.
    pub command_id: String,
    /// Its process id inside.
    pub pid: u32,
    /// What it runs, cut where it is long.
    pub command: String,
    /// How it is.
    #[schemars(extend("enum" = BackgroundState::ALL.map(BackgroundState::as_str)))]
    pub state: String,
    /// Exit code once it has ended; 128 + signal after death by a signal.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<String>,
    /// When it began.
    #[schemars(schema_with = "time_schema")]
    pub started_at: String,
    /// How long it has run.
    pub duration_ms: u64,
    /// True while its standard input takes more.
    pub stdin_open: bool,
    /// Bytes that it has written to standard output so far.
    pub stdout_bytes: u64,
    /// The same of standard error.
    pub stderr_bytes: u64,
}

/// A command in the background, and what it wrote.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CommandView {
    /// How it is.
    #[serde(flatten)]
    pub head: CommandHead,
    /// Its standard output.
    pub stdout: CommandOutput,
    /// Its standard error.
    pub stderr: CommandOutput,
}

/// Commands of a sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CommandList {
    /// In the order in which they began: those that run, and the last ones that have ended.
    pub commands: Vec<CommandHead>,
}

impl CommandHead {
    fn new(command: &BackgroundCommand) -> Self {
        Self {
            command_id: command.id.clone(),
            pid: command.pid,
            command: command.command.clone(),
            state: command.state.as_str().to_owned(),
            exit_code: command.exit_code,
            signal: command.signal.clone(),
            started_at: show::time(command.started_at),
            duration_ms: show::milliseconds(command.duration),
            stdin_open: command.stdin_open,
            stdout_bytes: command.stdout.total,
            stderr_bytes: command.stderr.total,
        }
    }
}

/// The endpoints of commands in the background.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    const ERRORS: &[ErrorKind] = &[ErrorKind::NotFound, ErrorKind::SandboxGone];
    const OUTPUT: &str = "/v1/sandboxes/{sandbox_id}/commands/output";
    const INPUT: &str = "/v1/sandboxes/{sandbox_id}/commands/input";
    const KILL: &str = "/v1/sandboxes/{sandbox_id}/commands/kill";
    let about = |id, summary, description| About {
        id,
        tag: "commands",
        summary,
        description,
        scope: Some(KeyScope::Sandboxes),
        errors: ERRORS,
        headers: &[],
    };
    let list = about(
        "command_list",
        "List commands in the background",
        "Those that run, and the last 64 that have ended.",
    );
    let get = about(
        "command_get",
        "Look at a command in the background",
        "How it is and what it wrote from a place on. Of each stream the newest MiB is kept. With \
         `wait_ms` it answers when there is something new, or the command has ended.",
    );
    let input = About {
        errors: &[
            ErrorKind::NotFound,
            ErrorKind::SandboxGone,
            ErrorKind::Conflict,
            ErrorKind::TooLarge,
        ],
        ..about(
            "command_input",
            "Send input to a command in the background",
            "It must have been started with `keep_stdin`.",
        )
    };
    let kill = about(
        "command_kill",
        "End a command in the background",
        "With all that it started. Answers how it is then; one that had ended stays as it was.",
    );
    vec![
        Endpoint::new(Method::GET, "/v1/sandboxes/{sandbox_id}/commands", list, command_list),
        Endpoint::new(Method::GET, OUTPUT, get, command_get),
        Endpoint::new(Method::POST, INPUT, input, command_input),
        Endpoint::new(Method::POST, KILL, kill, command_kill),
    ]
}

async fn command_list(
    call: Call<SandboxId, NoQuery, Nothing>,
) -> Result<Answer<CommandList>, Failure> {
    let commands = call.engine.command_list(&call.id).await?;
    Ok(Answer(CommandList { commands: commands.iter().map(CommandHead::new).collect() }))
}

async fn command_get(
    call: Call<SandboxId, CommandQuery, Nothing>,
) -> Result<Answer<CommandView>, Failure> {
    let query = call.query;
    let asked = GetCommand {
        stdout_from: query.stdout_from.map_or(0, |place| place.0),
        stderr_from: query.stderr_from.map_or(0, |place| place.0),
        max_bytes: query.max_bytes.map(|bytes| bytes.0),
        wait: Duration::from_millis(query.wait_ms.map_or(0, |wait| wait.0)),
    };
    let command = call.engine.command_get(&call.id, &query.command_id, &asked).await?;
    let head = CommandHead::new(&command);
    Ok(Answer(CommandView { head, stdout: command.stdout.into(), stderr: command.stderr.into() }))
}

async fn command_input(
    call: Call<SandboxId, NoQuery, Json<CommandInput>>,
) -> Result<Answer<CommandHead>, Failure> {
    let CommandInput { command_id, text, close } = call.body.0;
    let text = text.unwrap_or_default();
    let close = close.unwrap_or(false);
    let sent = call.engine.command_input(&call.id, &command_id, text.as_bytes(), close).await;
    let command = sent?;
    Ok(Answer(CommandHead::new(&command)))
}

async fn command_kill(
    call: Call<SandboxId, NoQuery, Json<CommandKill>>,
) -> Result<Answer<CommandHead>, Failure> {
    let CommandKill { command_id, signal } = call.body.0;
    let command = call.engine.command_kill(&call.id, &command_id, signal.as_deref()).await?;
    Ok(Answer(CommandHead::new(&command)))
}
