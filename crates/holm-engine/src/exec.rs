//! Running commands.

use std::sync::Arc;
use std::time::Duration;

use holm_wire::client::ClientError;
use holm_wire::guest::{Outcome, RunRequest, RunResponse};
use tokio::time::{Instant, sleep_until, timeout};

use crate::command::{milliseconds, run_request};
use crate::end::LAST_WORDS;
use crate::guest_error::{About, from_guest, is_trouble};
use crate::sandbox::Sandbox;
use crate::{
    CommandResult, EndReason, Engine, Error, Room, RunCommand, SandboxId, SandboxState, capture,
    health, signal,
};

/// Longest wait for a background command to start.
pub(crate) const START: Duration = Duration::from_secs(10);

/// Bytes that are kept of an output stream that has no room in memory.
const NO_ROOM: usize = 16 << 10;

impl Engine {
    /// Runs one command to its end. Dropping the future ends the command and all it started; so
    /// does the end of the sandbox, and then the error holds what the command had written.
    ///
    /// # Errors
    /// `invalid_argument`, `too_large`, `not_found`, `sandbox_gone`, `capacity` (the command could
    /// not be started), `unavailable`. A command that fails, or runs into its time limit, is a
    /// result.
    pub async fn exec_run(
        &self,
        id: &SandboxId,
        request: RunCommand,
    ) -> Result<CommandResult, Error> {
        let sandbox = self.in_use(id).await?;
        let default = self.inner.settings.exec_timeout;
        self.run_in(&sandbox, request, default).await
    }

    pub(crate) async fn run_in(
        &self,
        sandbox: &Arc<Sandbox>,
        request: RunCommand,
        default_timeout: Duration,
    ) -> Result<CommandResult, Error> {
        let now = Instant::now();
        let deadline = sandbox.deadline().ok_or_else(|| sandbox.not_ready())?;
        let asked = request.timeout.unwrap_or(default_timeout);
        if asked.is_zero() {
            return Err(Error::invalid("the timeout of a command must be above 0"));
        }
        let left = deadline.saturating_duration_since(now);
        // Rounded up, so that a lease never ends a command before it ends itself.
        let limit = asked.min(left).max(Duration::from_millis(1));
        let run = RunRequest {
            timeout_ms: milliseconds(limit),
            ..run_request(request, self.inner.settings.output_limit)?
        };

        let _counted = self.count_run();
        let _in_flight = sandbox.start_run();
        let kills_before = sandbox.oom_kills();
        let guest = sandbox.guest()?;
        let mut call = std::pin::pin!(guest.run(&run));
        let answer = tokio::select! {
            biased;
            answer = &mut call => answer,
            ended = sandbox.ended() => {
                let gone = Error::gone(&sandbox.id, ended);
                if ended.reason != EndReason::Expired {
                    return Err(gone);
                }
                // The guest ends the command at this very moment and hands over what it wrote.
                return Err(match timeout(LAST_WORDS, call).await {
                    Ok(Ok(response)) => {
                        self.with_partial(gone, result(&run, response, limit)).await
                    }
                    Ok(Err(_)) | Err(_) => gone,
                });
            }
        };
        let response = match answer {
            Ok(response) => response,
            Err(error) => return Err(self.call_failed(sandbox, &error, About::Command).await),
        };
        let by_lease = limit == left && response.outcome == Outcome::TimedOut;
        let outcome = response.outcome;
        let mut result = result(&run, response, limit);
        if by_lease && let Some(error) = self.lease_is_over(sandbox, deadline).await {
            return Err(self.with_partial(error, result).await);
        }
        note_limits(&mut result, outcome, kills_before, sandbox);
        let _room = self.fit(&mut result).await;
        Ok(result)
    }

    /// Takes room for what a command wrote. It has run, whatever comes now: where there is no room
    /// its output is cut.
    async fn fit(&self, result: &mut CommandResult) -> Room {
        let written = result.stdout.text.len() + result.stderr.text.len();
        match self.room_for_read(written as u64).await {
            Ok(room) => room,
            Err(error) => {
                capture::cut(&mut result.stdout, NO_ROOM);
                capture::cut(&mut result.stderr, NO_ROOM);
                add_note(result, format!("output was cut: {error}"));
                Room::default()
            }
        }
    }

    async fn with_partial(&self, error: Error, mut partial: CommandResult) -> Error {
        let _room = self.fit(&mut partial).await;
        Error { partial: Some(Box::new(partial)), ..error }
    }

    /// A command ran into the end of the lease as it was when it began. The error, unless the
    /// lease was extended meanwhile.
    pub(crate) async fn lease_is_over(
        &self,
        sandbox: &Arc<Sandbox>,
        deadline: Instant,
    ) -> Option<Error> {
        if Instant::now() + LAST_WORDS < deadline {
            // The guest's clock is not to be believed that far.
            return None;
        }
        sleep_until(deadline).await;
        if let Err(error) = self.expire(sandbox).await {
            return Some(error);
        }
        sandbox.ended_now().map(|ended| Error::gone(&sandbox.id, ended))
    }

    /// The error of a failed call. If the sandbox is ending that is the reason; if its guest is
    /// in trouble, somebody looks whether it stays so.
    pub(crate) async fn call_failed(
        &self,
        sandbox: &Arc<Sandbox>,
        error: &ClientError,
        about: About,
    ) -> Error {
        if is_trouble(error) && sandbox.state() == SandboxState::Paused {
            return crate::uses::was_paused(&sandbox.id);
        }
        if is_trouble(error) {
            // A guest that dies breaks its connections a moment before the host knows the reason.
            if let Ok(ended) = timeout(LAST_WORDS, sandbox.ended()).await {
                return Error::gone(&sandbox.id, ended);
            }
            tracing::warn!(id = %sandbox.id, ?error, "the guest failed a call");
            health::check_later(self, sandbox);
        } else if let Some(ended) = sandbox.ended_now() {
            return Error::gone(&sandbox.id, ended);
        }
        from_guest(error, about)
    }
}

fn result(run: &RunRequest, response: RunResponse, limit: Duration) -> CommandResult {
    let timed_out = response.outcome == Outcome::TimedOut;
    CommandResult {
        exit_code: response.exit_code,
        stdout: capture::output(&response.stdout, run.stdout_limit),
        stderr: capture::output(&response.stderr, run.stderr_limit),
        timed_out,
        // At the time limit the signal was ours and says nothing about the command.
        signal: response.signal.filter(|_| !timed_out).map(signal::name),
        out_of_memory: false,
        duration: Duration::from_millis(response.duration_ms),
        timeout: limit,
        note: timed_out.then(|| timed_out_note(Duration::from_millis(run.timeout_ms))),
    }
}

pub(crate) fn timed_out_note(limit: Duration) -> String {
    let limit = crate::lifetime::text(limit);
    format!("killed, with all that it had started, at its time limit of {limit}")
}

/// Whether memory ran out meanwhile: decided by the host's counter. Where it rose, but the
/// command itself was not killed, the counter cannot say whose process it was: other commands may
/// run beside this one. The guest's word counts only where the host has none.
pub(crate) fn note_limits(
    result: &mut CommandResult,
    outcome: Outcome,
    kills_before: Option<u64>,
    sandbox: &Sandbox,
) {
    const KILLED: i32 = 128 + 9;
    let killed = result.exit_code == KILLED || result.signal.as_deref() == Some("SIGKILL");
    let rose = kills_before.zip(sandbox.oom_kills()).map(|(before, after)| after > before);
    result.out_of_memory = rose.unwrap_or(outcome == Outcome::OutOfMemory);
    if !result.out_of_memory {
        return;
    }
    let limit = sandbox.live().record.given.memory_mb;
    let note = if (killed || rose.is_none()) && !result.timed_out {
        format!("killed because the sandbox reached its memory limit of {limit} MiB")
    } else {
        format!(
            "while it ran, a process of the sandbox was killed because the sandbox reached its \
             memory limit of {limit} MiB"
        )
    };
    add_note(result, note);
}

pub(crate) fn add_note(result: &mut CommandResult, note: String) {
    result.note = Some(match result.note.take() {
        Some(before) => format!("{before}; {note}"),
        None => note,
    });
}
