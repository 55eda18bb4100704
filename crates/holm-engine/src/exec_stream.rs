//! Running commands whose output is passed on as it comes, and kept nowhere.

use std::sync::Arc;
use std::time::Duration;

use holm_wire::client::{ClientError, EventStream};
use holm_wire::connect::Code;
use holm_wire::guest::Outcome;
use holm_wire::process::{
    DataEvent, EndEvent, ProcessConfig, ProcessEvent, ProcessInput, StartRequest,
};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::capture::Characters;
use crate::command::{milliseconds, run_request};
use crate::counts::Run;
use crate::end::LAST_WORDS;
use crate::exec::{START, note_limits, timed_out_note};
use crate::guest_error::About;
use crate::sandbox::RunGuard;
use crate::uses::InUse;
use crate::{CommandResult, EndReason, Engine, Error, Output, RunCommand, SandboxId, signal};

/// How long past its time limit a command may take to report back before the guest counts as
/// stuck.
const GRACE: Duration = Duration::from_secs(10);

/// What a command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEvent {
    /// It wrote this to its standard output.
    Stdout(String),
    /// It wrote this to its standard error.
    Stderr(String),
    /// It ended, always last. The texts are empty here; the numbers of bytes are not.
    Exit(Box<CommandResult>),
}

/// A command that runs. Dropping it ends the command and all that it started.
pub struct ExecStream {
    engine: Engine,
    sandbox: InUse,
    events: EventStream,
    begun: Instant,
    /// The time limit, and whether it is the sandbox's own end.
    limit: Duration,
    lease: Option<Instant>,
    kills_before: Option<u64>,
    stdout: Characters,
    stderr: Characters,
    /// What came at the end beside the event that was told.
    waiting: Vec<ExecEvent>,
    over: bool,
    _feed: Option<Feed>,
    _in_flight: RunGuard,
    _counted: Run,
}

/// Passes standard input on.
struct Feed(AbortHandle);

impl Drop for Feed {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Engine {
    /// Starts a command and follows it. Its output waits for whoever takes it, so a slow reader
    /// slows the command.
    ///
    /// # Errors
    /// As [`Self::exec_run`].
    pub async fn exec_stream(
        &self,
        id: &SandboxId,
        request: RunCommand,
    ) -> Result<ExecStream, Error> {
        let sandbox = self.in_use(id).await?;
        let begun = Instant::now();
        let deadline = sandbox.deadline().ok_or_else(|| sandbox.not_ready())?;
        let asked = request.timeout.unwrap_or(self.inner.settings.exec_timeout);
        if asked.is_zero() {
            return Err(Error::invalid("the timeout of a command must be above 0"));
        }
        let left = deadline.saturating_duration_since(begun);
        let limit = asked.min(left).max(Duration::from_millis(1));
        // Judged as what runs to its end at once.
        let run = run_request(request, self.inner.settings.output_limit)?;
        let mut argv = run.argv.into_iter();
        let start = StartRequest {
            process: ProcessConfig {
                cmd: argv.next().unwrap_or_default(),
                args: argv.collect(),
                envs: run.env,
                cwd: Some(run.cwd.unwrap_or_else(|| sandbox.workdir.clone())),
            },
            pty: None,
            tag: None,
            stdin: Some(run.stdin.is_some()),
        };
        let counted = self.count_run();
        let in_flight = sandbox.start_run();
        let kills_before = sandbox.oom_kills();
        let guest = sandbox.guest()?.clone();
        let started = async {
            let mut events = guest.start_owned(&start, &run.user, milliseconds(limit)).await?;
            match timeout(START, events.next()).await {
                Ok(Ok(Some(ProcessEvent::Start(event)))) => Ok((events, event.pid)),
                Ok(Ok(_)) => Err(ClientError::Protocol("no start event".to_owned())),
                Ok(Err(error)) => Err(error),
                Err(_elapsed) => Err(ClientError::Deadline(START.as_millis())),
            }
        };
        let started = tokio::select! {
            biased;
            started = started => started,
            ended = sandbox.ended() => return Err(Error::gone(id, ended)),
        };
        let (events, pid) = match started {
            Ok(started) => started,
            Err(error) => return Err(self.call_failed(&sandbox, &error, About::Command).await),
        };
        let feed = run.stdin.map(|bytes| {
            let feed = tokio::spawn(async move {
                // A command that does not read its input, or has ended, is no failure.
                let input = ProcessInput::Stdin(bytes);
                if guest.send_input(pid, input).await.is_ok() {
                    let _ = guest.close_stdin(pid).await;
                }
            });
            Feed(feed.abort_handle())
        });
        Ok(ExecStream {
            engine: self.clone(),
            lease: (limit == left).then_some(deadline),
            sandbox,
            events,
            begun,
            limit,
            kills_before,
            stdout: Characters::default(),
            stderr: Characters::default(),
            waiting: Vec::new(),
            over: false,
            _feed: feed,
            _in_flight: in_flight,
            _counted: counted,
        })
    }
}

impl ExecStream {
    /// What it does next; nothing after its end.
    ///
    /// # Errors
    /// `sandbox_gone` when the sandbox ends before the command, and what any call may fail with.
    /// Nothing follows an error.
    pub async fn next(&mut self) -> Result<Option<ExecEvent>, Error> {
        if let Some(event) = self.waiting.pop() {
            return Ok(Some(event));
        }
        while !self.over {
            match self.step().await {
                Ok(Some(event)) => return Ok(Some(event)),
                Ok(None) => {}
                Err(error) => {
                    self.over = true;
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    async fn step(&mut self) -> Result<Option<ExecEvent>, Error> {
        let late = self.begun + self.limit + GRACE;
        let sandbox = Arc::clone(&self.sandbox);
        let told = tokio::select! {
            biased;
            told = self.events.next() => told,
            ended = sandbox.ended() => {
                let gone = Error::gone(&sandbox.id, ended);
                if ended.reason != EndReason::Expired {
                    return Err(gone);
                }
                // The guest ends the command at this very moment and hands over what it wrote.
                match timeout(LAST_WORDS, self.events.next()).await {
                    Ok(Ok(Some(event @ ProcessEvent::Data(_)))) => Ok(Some(event)),
                    _ => return Err(gone),
                }
            }
            () = sleep_until(late) => Err(ClientError::Deadline(self.limit.as_millis())),
        };
        match told {
            Ok(Some(ProcessEvent::Data(DataEvent::Stdout(bytes) | DataEvent::Pty(bytes)))) => {
                Ok(self.stdout.push(&bytes).map(ExecEvent::Stdout))
            }
            Ok(Some(ProcessEvent::Data(DataEvent::Stderr(bytes)))) => {
                Ok(self.stderr.push(&bytes).map(ExecEvent::Stderr))
            }
            Ok(Some(ProcessEvent::Start(_) | ProcessEvent::Keepalive(_))) => Ok(None),
            Ok(Some(ProcessEvent::End(end))) => Ok(self.end(Some(&end))),
            Ok(None) => {
                let error = ClientError::Protocol("no end event".to_owned());
                Err(self.engine.call_failed(&sandbox, &error, About::Command).await)
            }
            Err(error) if error.code() == Some(Code::DeadlineExceeded) => {
                if let Some(deadline) = self.lease
                    && let Some(gone) = self.engine.lease_is_over(&sandbox, deadline).await
                {
                    return Err(gone);
                }
                Ok(self.end(None))
            }
            Err(error) => Err(self.engine.call_failed(&sandbox, &error, About::Command).await),
        }
    }

    /// The last events: what was left of characters, then the end. Without an end event its time
    /// was over.
    fn end(&mut self, end: Option<&EndEvent>) -> Option<ExecEvent> {
        const KILLED: i32 = 128 + 9;
        self.over = true;
        let stdout = self.stdout.finish().map(ExecEvent::Stdout);
        let stderr = self.stderr.finish().map(ExecEvent::Stderr);
        let exit_code = end.map_or(KILLED, |end| end.exit_code);
        let signaled = end.is_some_and(|end| !end.exited);
        let output = |stream: &Characters| Output {
            bytes: stream.total,
            lossy: stream.lossy,
            ..Output::default()
        };
        let mut result = CommandResult {
            exit_code,
            stdout: output(&self.stdout),
            stderr: output(&self.stderr),
            timed_out: end.is_none(),
            signal: signaled.then(|| signal::name(exit_code.saturating_sub(128))),
            out_of_memory: false,
            duration: self.begun.elapsed(),
            timeout: self.limit,
            note: end.is_none().then(|| timed_out_note(self.limit)),
        };
        let outcome = if signaled { Outcome::Signaled } else { Outcome::Exited };
        note_limits(&mut result, outcome, self.kills_before, &self.sandbox);
        self.waiting.push(ExecEvent::Exit(Box::new(result)));
        self.waiting.extend(stderr);
        self.waiting.extend(stdout);
        self.waiting.pop()
    }
}
