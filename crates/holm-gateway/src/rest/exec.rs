//! Running commands.

use std::time::Duration;

use bytes::Bytes;
use holm_engine::{Command, ErrorKind, KeyScope, RunCommand, SandboxId};
use hyper::Method;
use schemars::JsonSchema;
use schemars::generate::SchemaGenerator;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::endpoint::{About, Call, Endpoint};
use super::events::{self, ExecExit, ExecText};
use super::failure::{ErrorBody, Failure, encode};
use super::input::{Json, NoQuery, Object};
use super::number::Whole;
use super::output::{AnswerDoc, Output};
use super::schema;
use super::text::{User, Variables, sandbox_id_schema};
use crate::http::reply::{self, Response};
use crate::show;

/// 24 hours, the longest that a sandbox lives, in milliseconds.
pub const MAX_TIMEOUT_MS: u64 = 86_400_000;

/// A command.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = {
    "properties": {"background": {"const": true}, "stream": {"const": true}},
    "required": ["background", "stream"],
}))]
pub struct ExecRequest {
    /// The command line for `sh -c`.
    #[schemars(length(max = 131_071), extend("pattern" = "^[^\\u0000]*[^\\u0000\\s][^\\u0000]*$"))]
    pub command: String,
    /// Working directory (default: /workspace, or the template's own).
    #[schemars(length(min = 1, max = 4095), extend("pattern" = "^[^\\u0000]*$"))]
    pub cwd: Option<String>,
    /// Environment variables for this command.
    pub env: Option<Variables>,
    /// Time limit in milliseconds (default: 60000); never beyond the sandbox's own end.
    pub timeout_ms: Option<Whole<1, MAX_TIMEOUT_MS>>,
    /// Who runs it (default: sandbox, or whom the template's image names).
    pub user: Option<User>,
    /// Text for its standard input, which is at its end otherwise.
    pub stdin: Option<String>,
    /// Start it and answer at once; `…/commands` tells what becomes of it. Without `timeout_ms` it
    /// has no time limit, and no `stdin` can be given.
    pub background: Option<bool>,
    /// In the background: keep standard input open for `POST …/commands/input`.
    pub keep_stdin: Option<bool>,
    /// Answer with server-sent events, as `Accept: text/event-stream` does.
    pub stream: Option<bool>,
}

impl Object for ExecRequest {}

/// How a command ended, without what it wrote.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CommandEnd {
    /// Its exit code; 128 + signal after death by a signal.
    pub exit_code: i32,
    /// Bytes written in all.
    pub stdout_bytes: u64,
    /// Bytes written in all.
    pub stderr_bytes: u64,
    /// True when bytes that are no UTF-8 were replaced by U+FFFD.
    pub stdout_lossy: bool,
    /// The same.
    pub stderr_lossy: bool,
    /// True when it was killed at its time limit, with all that it had started.
    pub timed_out: bool,
    /// True when a process in the sandbox was killed for memory meanwhile.
    pub out_of_memory: bool,
    /// The signal that ended it (`SIGSEGV`).
    pub signal: Option<String>,
    /// Wall time.
    pub duration_ms: u64,
    /// Which limit was met.
    pub note: Option<String>,
}

/// How a command ended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CommandResult {
    /// How.
    #[serde(flatten)]
    pub end: CommandEnd,
    /// Standard output; where it was cut, its beginning and end.
    pub stdout: String,
    /// Standard error; the same.
    pub stderr: String,
    /// True when stdout was cut.
    pub stdout_truncated: bool,
    /// True when stderr was cut.
    pub stderr_truncated: bool,
}

impl From<holm_engine::CommandResult> for CommandResult {
    fn from(mut result: holm_engine::CommandResult) -> Self {
        Self {
            stdout: std::mem::take(&mut result.stdout.text),
            stderr: std::mem::take(&mut result.stderr.text),
            stdout_truncated: result.stdout.truncated,
            stderr_truncated: result.stderr.truncated,
            end: result.into(),
        }
    }
}

impl From<holm_engine::CommandResult> for CommandEnd {
    fn from(result: holm_engine::CommandResult) -> Self {
        Self {
            exit_code: result.exit_code,
            stdout_bytes: result.stdout.bytes,
            stderr_bytes: result.stderr.bytes,
            stdout_lossy: result.stdout.lossy,
            stderr_lossy: result.stderr.lossy,
            timed_out: result.timed_out,
            out_of_memory: result.out_of_memory,
            signal: result.signal,
            duration_ms: show::milliseconds(result.duration),
            note: result.note,
        }
    }
}

/// A command that ended, and where it ran.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExecResult {
    /// Where it ran.
    #[schemars(schema_with = "sandbox_id_schema")]
    pub sandbox_id: SandboxId,
    /// How it ended.
    #[serde(flatten)]
    pub result: CommandResult,
}

/// A command in the background.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExecStarted {
    /// Where it runs.
    #[schemars(schema_with = "sandbox_id_schema")]
    pub sandbox_id: SandboxId,
    /// Its id, for `…/commands`.
    pub command_id: String,
    /// Its process id inside.
    pub pid: u32,
    /// Always true.
    pub background: bool,
}

/// What running a command answers.
pub enum ExecAnswer {
    /// It ended.
    Ended(Box<ExecResult>),
    /// It runs in the background.
    Started(ExecStarted),
    /// It runs, and is told event by event.
    Following(Response),
}

impl Output for ExecAnswer {
    fn describe(generator: &mut SchemaGenerator) -> Vec<AnswerDoc> {
        let ended = schema::of::<ExecResult>(generator);
        let started = schema::of::<ExecStarted>(generator);
        // What the events carry; the document names the types.
        let data = [
            schema::of::<ExecText>(generator),
            schema::of::<ExecExit>(generator),
            schema::of::<ErrorBody>(generator),
        ];
        let events = json!({
            "description": "Server-sent events, each with JSON as its data: `stdout` and `stderr` \
                (ExecText), `exit` (ExecExit), `error` (Error). Comments keep a silent stream \
                alive.",
            "contentMediaType": "text/event-stream",
            "x-event-data": {"oneOf": data},
        });
        vec![
            AnswerDoc {
                status: 200,
                description: "It ended, however it ended: a command that fails is no error.",
                content: vec![("application/json", ended), ("text/event-stream", events)],
            },
            AnswerDoc {
                status: 202,
                description: "It runs in the background.",
                content: vec![("application/json", started)],
            },
        ]
    }

    fn respond(self) -> Response {
        match self {
            Self::Ended(result) => reply::json_bytes(200, encode(&result)),
            Self::Started(started) => reply::json_bytes(202, encode(&started)),
            Self::Following(response) => response,
        }
    }
}

/// The endpoints that run something.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let exec_about = About {
        id: "sandbox_exec",
        tag: "sandboxes",
        summary: "Run a command",
        description: "Runs it with `sh -c` to its end, and answers with exit code, stdout and \
            stderr: 1 MiB of each, beginning and end. With `stream: true`, or `Accept: \
            text/event-stream`, output comes as it is written, as the events `stdout`, `stderr` \
            and at last `exit` (or `error`). A client that closes the connection ends the command \
            and all that it started.",
        scope: Some(KeyScope::Sandboxes),
        errors: &[
            ErrorKind::NotFound,
            ErrorKind::SandboxGone,
            ErrorKind::PermissionDenied,
            ErrorKind::Capacity,
        ],
        headers: &[],
    };
    vec![Endpoint::new(Method::POST, "/v1/sandboxes/{sandbox_id}/exec", exec_about, exec)]
}

async fn exec(call: Call<SandboxId, NoQuery, Json<ExecRequest>>) -> Result<ExecAnswer, Failure> {
    let asked = call.body.0;
    let background = asked.background.unwrap_or(false);
    if background && asked.stream == Some(true) {
        let text = "`background` and `stream` exclude each other: nobody follows what runs there";
        return Err(Failure::invalid(text));
    }
    let follow = events::wanted(&call.headers, asked.stream);
    let wanted = RunCommand {
        command: Command::Shell(asked.command),
        cwd: asked.cwd,
        env: asked.env.unwrap_or_default().0,
        user: asked.user.map(|user| user.as_str().to_owned()),
        timeout: asked.timeout_ms.map(|ms| Duration::from_millis(ms.0)),
        stdin: asked.stdin.map(Bytes::from),
        keep_stdin: asked.keep_stdin.unwrap_or(false),
        output_limit: None,
    };
    let (engine, id) = (call.engine, call.id);
    if background {
        let started = engine.exec_background(&id, wanted).await?;
        return Ok(ExecAnswer::Started(ExecStarted {
            sandbox_id: id,
            command_id: started.id,
            pid: started.pid,
            background: true,
        }));
    }
    if follow {
        let stream = engine.exec_stream(&id, wanted).await?;
        let pause = call.surroundings.keep_alive;
        let response = events::response(id, stream, call.request_id, pause, call.over);
        return Ok(ExecAnswer::Following(response));
    }
    let result = engine.exec_run(&id, wanted).await?.into();
    Ok(ExecAnswer::Ended(Box::new(ExecResult { sandbox_id: id, result })))
}
