//! Commands in the background. They are the guest's: they go on when a caller leaves or this service
//! is started again, and nothing of them is kept here.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use holm_wire::background::{
    self as wire, GetRequest, InputRequest, KillRequest, MOST_ENDED, MOST_RUNNING, Part,
    StartRequest,
};
use holm_wire::client::ClientError;
use jiff::Timestamp;

use crate::command::{milliseconds, run_request};
use crate::guest_error::About;
use crate::sandbox::Sandbox;
use crate::text::shorten;
use crate::{
    Background, BackgroundCommand, BackgroundState, Engine, Error, ErrorKind, GetCommand,
    OutputPart, RunCommand, SandboxId, signal,
};

/// Bytes of each stream in an answer where nothing is said.
const USUAL: u64 = 64 << 10;
/// Most bytes of one input.
const MAX_INPUT: usize = 1 << 20;
const _: () = assert!(
    GetCommand::MAX_WAIT_MS <= wire::LONGEST_WAIT_MS && GetCommand::MAX_BYTES <= wire::MOST_AT_ONCE,
    "the guest gives as much as is promised"
);
/// Longest id, and longest text of a command, that a guest is believed to have.
const MAX_ID: usize = 64;
const MAX_COMMAND: usize = 220;

impl Engine {
    /// Starts a command that goes on after this call. It ends by itself, at its time limit if it
    /// has one, by [`Self::command_kill`], or with the sandbox.
    ///
    /// # Errors
    /// As [`Self::exec_run`]; `capacity` also where too many run.
    pub async fn exec_background(
        &self,
        id: &SandboxId,
        request: RunCommand,
    ) -> Result<Background, Error> {
        if request.stdin.is_some() {
            let text = "a command in the background takes no input with its start";
            return Err(Error::invalid(text).suggest("Keep its input open, then send it."));
        }
        let timeout = request.timeout;
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Error::invalid("the timeout of a command must be above 0"));
        }
        let keep_stdin = request.keep_stdin;
        let run = run_request(request, self.inner.settings.output_limit)?;
        let start = StartRequest {
            argv: run.argv,
            env: run.env,
            cwd: run.cwd,
            user: run.user,
            timeout_ms: timeout.map_or(0, milliseconds),
            output_limit: run.stdout_limit,
            stdin: keep_stdin,
        };
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        let call = guest.start_background(&start);
        let started = self.background_call(&sandbox, About::Command, call).await?;
        Ok(Background { id: shorten(&started.id, MAX_ID), pid: started.pid })
    }

    /// How a command in the background is, and what it wrote since.
    ///
    /// # Errors
    /// `not_found`, `sandbox_gone`, `rate_limited` where the answer finds no room, `unavailable`.
    pub async fn command_get(
        &self,
        id: &SandboxId,
        command: &str,
        asked: &GetCommand,
    ) -> Result<BackgroundCommand, Error> {
        let most = asked.max_bytes.unwrap_or(USUAL);
        if most == 0 || most > GetCommand::MAX_BYTES {
            let most = GetCommand::MAX_BYTES;
            let text = format!("from 1 to {most} bytes of each stream fit one answer");
            return Err(Error::invalid(text));
        }
        if asked.wait > Duration::from_millis(GetCommand::MAX_WAIT_MS) {
            return Err(Error::invalid("one call waits for a minute at most; call again"));
        }
        let request = GetRequest {
            id: command_id(command)?,
            stdout_from: asked.stdout_from,
            stderr_from: asked.stderr_from,
            max_bytes: most,
            wait_ms: 0,
        };
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        // Whoever finds no place to wait is answered at once: an account cannot have all connections wait.
        if !asked.wait.is_zero()
            && let Some(_place) =
                self.inner.waits.take(self.caller.account, 1, Duration::ZERO).await
        {
            // What there is to read is read afterwards, when there is room for it.
            let wait_ms = milliseconds(asked.wait);
            let look = GetRequest { max_bytes: 1, wait_ms, ..request.clone() };
            self.background_call(&sandbox, About::Background, guest.get_background(&look)).await?;
        }
        let _room = self.room_for_read(2 * most).await?;
        let call = guest.get_background(&request);
        let found = self.background_call(&sandbox, About::Background, call).await?;
        Ok(view(found, &request))
    }

    /// All commands in the background, in the order in which they began, without what they wrote:
    /// those that run, and the last ones that have ended.
    ///
    /// # Errors
    /// `not_found`, `sandbox_gone`, `unavailable`.
    pub async fn command_list(&self, id: &SandboxId) -> Result<Vec<BackgroundCommand>, Error> {
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        let call = guest.list_background();
        let found = self.background_call(&sandbox, About::Background, call).await?;
        // A hostile guest lists no more than an honest one.
        let commands = found.commands.into_iter().take(MOST_RUNNING + MOST_ENDED);
        Ok(commands.map(|command| view(command, &nothing())).collect())
    }

    /// Writes to a command's standard input, and ends it where that is wanted. Gives how it is then.
    ///
    /// # Errors
    /// `not_found`; `conflict` where it has no open standard input, has ended, or does not read;
    /// `too_large`, `sandbox_gone`, `unavailable`.
    pub async fn command_input(
        &self,
        id: &SandboxId,
        command: &str,
        data: &[u8],
        close: bool,
    ) -> Result<BackgroundCommand, Error> {
        if data.len() > MAX_INPUT {
            let text = format!("one input may have {MAX_INPUT} bytes");
            return Err(Error::new(ErrorKind::TooLarge, text).suggest("Send it in parts."));
        }
        let request = InputRequest { id: command_id(command)?, data: data.to_vec(), close };
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        let look = GetRequest { id: request.id.clone(), ..nothing() };
        let call = async {
            guest.send_background_input(&request).await?;
            guest.get_background(&look).await
        };
        let found = self.background_call(&sandbox, About::Background, call).await?;
        Ok(view(found, &look))
    }

    /// Ends a command with all that it started, or sends another signal to its group. One that has
    /// ended stays as it was.
    ///
    /// # Errors
    /// `not_found`, `invalid_argument` (no such signal), `sandbox_gone`, `unavailable`.
    pub async fn command_kill(
        &self,
        id: &SandboxId,
        command: &str,
        signal: Option<&str>,
    ) -> Result<BackgroundCommand, Error> {
        let signal = signal.unwrap_or_default();
        if signal.len() > MAX_ID {
            return Err(Error::invalid("there is no signal of that name"));
        }
        let request = KillRequest { id: command_id(command)?, signal: signal.to_owned() };
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        let call = guest.kill_background(&request);
        let found = self.background_call(&sandbox, About::Background, call).await?;
        Ok(view(found, &nothing()))
    }

    /// One call about such commands.
    async fn background_call<T>(
        &self,
        sandbox: &Arc<Sandbox>,
        about: About,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, Error> {
        self.guest_call(sandbox, about, call).await.map_err(|error| match error.kind {
            ErrorKind::NotFound => error.suggest("Use list_commands to see which there are."),
            _ => error,
        })
    }

    /// One call of the guest, given up when the sandbox ends.
    pub(crate) async fn guest_call<T>(
        &self,
        sandbox: &Arc<Sandbox>,
        about: About,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, Error> {
        let answer = tokio::select! {
            biased;
            answer = call => answer,
            ended = sandbox.ended() => return Err(Error::gone(&sandbox.id, ended)),
        };
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.call_failed(sandbox, &error, about).await),
        }
    }
}

/// Asks for no output.
fn nothing() -> GetRequest {
    GetRequest { stdout_from: u64::MAX, stderr_from: u64::MAX, ..GetRequest::default() }
}

fn command_id(id: &str) -> Result<String, Error> {
    if id.is_empty() || id.len() > MAX_ID {
        return Err(Error::invalid("command_id must be what the start of a command answered"));
    }
    Ok(id.to_owned())
}

/// What a guest says, which may be hostile: bounded, and true to itself.
fn view(said: wire::Command, asked: &GetRequest) -> BackgroundCommand {
    let started = i64::try_from(said.started_ms).ok();
    let started = started.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    BackgroundCommand {
        id: shorten(&said.id, MAX_ID),
        pid: said.pid,
        command: shorten(&said.command, MAX_COMMAND),
        state: match said.state {
            wire::State::Running => BackgroundState::Running,
            wire::State::Exited => BackgroundState::Exited,
            wire::State::Signaled => BackgroundState::Signaled,
            wire::State::TimedOut => BackgroundState::TimedOut,
            wire::State::Killed => BackgroundState::Killed,
        },
        exit_code: said.exit_code,
        signal: said.signal.map(signal::name),
        started_at: started.unwrap_or(Timestamp::UNIX_EPOCH),
        duration: Duration::from_millis(said.duration_ms),
        stdin_open: said.stdin_open,
        stdout: part(said.stdout, asked.stdout_from, asked.max_bytes),
        stderr: part(said.stderr, asked.stderr_from, asked.max_bytes),
    }
}

fn part(mut said: Part, asked: u64, most: u64) -> OutputPart {
    said.bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    let length = said.bytes.len() as u64;
    let text = String::from_utf8_lossy(&said.bytes);
    let next = said.from.saturating_add(length);
    OutputPart {
        from: said.from,
        next,
        lossy: matches!(text, std::borrow::Cow::Owned(_)),
        text: text.into_owned(),
        missed: said.from.saturating_sub(asked),
        total: said.total.max(next),
    }
}
