//! Running commands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holm_wire::client::ClientError;
use holm_wire::guest::{MAX_OUTPUT_LIMIT, Outcome, RunRequest, RunResponse};
use holm_wire::process::{ProcessConfig, ProcessEvent, StartRequest};
use tokio::time::{Instant, sleep_until, timeout};

use crate::end::LAST_WORDS;
use crate::guest_error::{About, from_guest, is_trouble};
use crate::sandbox::Sandbox;
use crate::{
    Background, Command, CommandResult, EndReason, Engine, Error, ErrorKind, RunCommand, SandboxId,
    capture, env, files, health, signal,
};

/// Most bytes of one argument: the kernel takes 128 KiB with the closing NUL.
const MAX_ARGUMENT: usize = (128 << 10) - 1;
/// Most bytes of all arguments.
const MAX_ARGUMENTS: usize = 1 << 20;
/// Most bytes of standard input that travel inside the call.
const MAX_STDIN: usize = 16 << 20;
/// Longest wait for a background command to start.
const START: Duration = Duration::from_secs(10);

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
        let sandbox = self.usable(id).await?;
        let default = self.inner.settings.exec_timeout;
        self.run_in(&sandbox, request, default).await
    }

    /// Starts a command that goes on after this call, its standard input at its end and its
    /// output unread. It ends with the sandbox.
    ///
    /// # Errors
    /// As [`Self::exec_run`].
    pub async fn exec_background(
        &self,
        id: &SandboxId,
        request: RunCommand,
    ) -> Result<Background, Error> {
        let sandbox = self.usable(id).await?;
        let mut argv = argv(&request.command)?.into_iter();
        env::check(&request.env)?;
        check_cwd(request.cwd.as_deref())?;
        let user = user(request.user.as_deref())?;
        let start = StartRequest {
            process: ProcessConfig {
                cmd: argv.next().unwrap_or_default(),
                args: argv.collect(),
                envs: request.env,
                cwd: Some(request.cwd.unwrap_or_else(|| sandbox.workdir.clone())),
            },
            pty: None,
            tag: None,
            stdin: Some(false),
        };
        let guest = sandbox.guest()?.clone();
        let started = async {
            let mut events = guest.start(&start, user).await?;
            match timeout(START, events.next()).await {
                Ok(Ok(Some(ProcessEvent::Start(event)))) => Ok(Background { pid: event.pid }),
                Ok(Ok(_)) => Err(ClientError::Protocol("no start event".to_owned())),
                Ok(Err(error)) => Err(error),
                Err(_elapsed) => Err(ClientError::Deadline(START.as_millis())),
            }
        };
        tokio::select! {
            biased;
            started = started => match started {
                Ok(background) => Ok(background),
                Err(error) => Err(self.call_failed(&sandbox, &error, About::Command).await),
            },
            ended = sandbox.ended() => Err(Error::gone(id, ended)),
        }
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
            timeout_ms: u64::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(u64::MAX),
            ..self.request(request)?
        };

        let _in_flight = sandbox.start_run();
        let kills_before = sandbox.usage().oom_kills;
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
                    Ok(Ok(response)) => with_partial(gone, result(&run, response, limit)),
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
            return Err(with_partial(error, result));
        }
        let kills = sandbox.usage().oom_kills;
        note_limits(&mut result, outcome, kills_before, kills, sandbox);
        Ok(result)
    }

    /// A command ran into the end of the lease as it was when it began. The error, unless the
    /// lease was extended meanwhile.
    async fn lease_is_over(&self, sandbox: &Arc<Sandbox>, deadline: Instant) -> Option<Error> {
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

    fn request(&self, request: RunCommand) -> Result<RunRequest, Error> {
        env::check(&request.env)?;
        check_cwd(request.cwd.as_deref())?;
        let limit = request.output_limit.unwrap_or(self.inner.settings.output_limit);
        if limit == 0 || limit > MAX_OUTPUT_LIMIT {
            return Err(Error::invalid(format!(
                "the output limit must be from 1 to {MAX_OUTPUT_LIMIT} bytes"
            )));
        }
        if request.stdin.as_ref().is_some_and(|bytes| bytes.len() > MAX_STDIN) {
            let text = format!("standard input may have {MAX_STDIN} bytes");
            return Err(Error::new(ErrorKind::TooLarge, text)
                .suggest("Write it to a file with write_file and redirect from there."));
        }
        Ok(RunRequest {
            argv: argv(&request.command)?,
            env: request.env,
            // Absent where the caller named none: then the guest falls back to a directory that
            // is there, should the usual one have been removed.
            cwd: request.cwd,
            user: user(request.user.as_deref())?.to_owned(),
            timeout_ms: 0,
            stdout_limit: limit,
            stderr_limit: limit,
            stdin: request.stdin.map(Vec::from),
        })
    }

    /// The error of a failed call. If the sandbox is ending that is the reason; if its guest is
    /// in trouble, somebody looks whether it stays so.
    pub(crate) async fn call_failed(
        &self,
        sandbox: &Arc<Sandbox>,
        error: &ClientError,
        about: About,
    ) -> Error {
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

/// The user's name in the protocol.
pub(crate) fn user(asked: Option<&str>) -> Result<&'static str, Error> {
    match asked {
        None | Some("" | "sandbox" | "user") => Ok("sandbox"),
        Some("root") => Ok("root"),
        Some(other) => Err(Error::invalid(format!(
            "user must be \"sandbox\" or \"root\", not {:?}",
            crate::text::shorten(other, 40)
        ))),
    }
}

fn check_cwd(cwd: Option<&str>) -> Result<(), Error> {
    cwd.map_or(Ok(()), |cwd| files::check_path("cwd", cwd))
}

fn argv(command: &Command) -> Result<Vec<String>, Error> {
    let argv = match command {
        Command::Shell(line) if line.trim().is_empty() => {
            return Err(Error::invalid("command must not be empty"));
        }
        Command::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
        Command::Argv(argv) => argv.clone(),
    };
    if argv.first().is_none_or(String::is_empty) {
        return Err(Error::invalid("command must name a program"));
    }
    if argv.iter().any(|argument| argument.contains('\0')) {
        return Err(Error::invalid("command holds a NUL character, which no argument may"));
    }
    let longest = argv.iter().map(String::len).max().unwrap_or(0);
    let total: usize = argv.iter().map(|argument| argument.len() + 1).sum();
    if longest > MAX_ARGUMENT || total > MAX_ARGUMENTS {
        let text = format!(
            "command has {total} bytes; one argument may have {MAX_ARGUMENT}, all of them \
             {MAX_ARGUMENTS}"
        );
        return Err(Error::new(ErrorKind::TooLarge, text)
            .suggest("Write a script with write_file and run that, or use run_code."));
    }
    Ok(argv)
}

fn with_partial(error: Error, partial: CommandResult) -> Error {
    Error { partial: Some(Box::new(partial)), ..error }
}

fn result(run: &RunRequest, response: RunResponse, limit: Duration) -> CommandResult {
    let timed_out = response.outcome == Outcome::TimedOut;
    CommandResult {
        exit_code: response.exit_code,
        stdout: capture::output(&response.stdout, run.stdout_limit),
        stderr: capture::output(&response.stderr, run.stderr_limit),
        timed_out,
        signal: response.signal.map(signal::name),
        out_of_memory: false,
        duration: Duration::from_millis(response.duration_ms),
        timeout: limit,
        note: timed_out.then(|| {
            let limit = crate::lifetime::text(Duration::from_millis(run.timeout_ms));
            format!("killed, with all that it had started, at its time limit of {limit}")
        }),
    }
}

/// Whether memory ended the command: decided by the host's counter. The guest's word counts only
/// where the host has none.
fn note_limits(
    result: &mut CommandResult,
    outcome: Outcome,
    before: Option<u64>,
    after: Option<u64>,
    sandbox: &Sandbox,
) {
    const KILLED: i32 = 128 + 9;
    let killed = result.exit_code == KILLED || result.signal.as_deref() == Some("SIGKILL");
    result.out_of_memory = match (before, after) {
        (Some(before), Some(after)) => after > before && killed && !result.timed_out,
        _ => outcome == Outcome::OutOfMemory,
    };
    if result.out_of_memory {
        let limit = sandbox.live().record.given.memory_mb;
        result.note =
            Some(format!("killed because the sandbox reached its memory limit of {limit} MiB"));
    }
}

/// Variables with `added` in them.
pub(crate) fn with_variable(
    mut env: BTreeMap<String, String>,
    added: Option<(&str, String)>,
) -> BTreeMap<String, String> {
    if let Some((name, value)) = added {
        let value = match env.get(name) {
            Some(own) if !own.is_empty() => format!("{own}:{value}"),
            _ => value,
        };
        env.insert(name.to_owned(), value);
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: Command, want: Result<usize, (ErrorKind, &str)>) {
        match (argv(&command), want) {
            (Ok(argv), Ok(length)) => assert_eq!(argv.len(), length),
            (Err(error), Err((kind, part))) => {
                assert!(error.kind == kind && error.public.contains(part), "{error}");
            }
            (got, want) => panic!("{got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn commands_are_judged_before_they_travel() {
        let bad = ErrorKind::InvalidArgument;
        check(Command::Shell("true".into()), Ok(3));
        check(Command::Argv(vec!["a".into(), String::new()]), Ok(2));
        check(Command::Shell(" \n".into()), Err((bad, "empty")));
        check(Command::Argv(vec![]), Err((bad, "program")));
        check(Command::Argv(vec![String::new()]), Err((bad, "program")));
        check(Command::Shell("a\0b".into()), Err((bad, "NUL")));
        check(Command::Shell("x".repeat(MAX_ARGUMENT)), Ok(3));
        check(Command::Shell("x".repeat(MAX_ARGUMENT + 1)), Err((ErrorKind::TooLarge, "bytes")));
        let many = vec!["x".repeat(1000); 1100];
        check(Command::Argv(many), Err((ErrorKind::TooLarge, "bytes")));
    }

    #[test]
    fn users_are_two() {
        for name in [None, Some(""), Some("sandbox"), Some("user")] {
            assert_eq!(user(name).unwrap(), "sandbox");
        }
        assert_eq!(user(Some("root")).unwrap(), "root");
        assert!(user(Some("nobody")).unwrap_err().public.contains("\"root\""));
    }

    #[test]
    fn a_module_path_is_added_to_the_callers_own() {
        let env = BTreeMap::from([("P".to_owned(), "/a".to_owned())]);
        assert_eq!(with_variable(env.clone(), Some(("P", "/b".into())))["P"], "/a:/b");
        assert_eq!(with_variable(env, Some(("Q", "/b".into())))["Q"], "/b");
    }
}
