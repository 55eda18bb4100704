//! `Run`: one command to its end, its output bounded.
//!
//! It returns when the command itself ends, not when the last holder of its output does: what it
//! left in the background goes on, its supervisor reads and drops what that still writes. A
//! caller that goes away ends the command and all that it started.

use std::time::Duration;

use holm_wire::guest::{DEFAULT_OUTPUT_LIMIT, MAX_OUTPUT_LIMIT, Outcome, RunRequest, RunResponse};
use tokio::time::Instant;

use super::capture::Capture;
use super::plan::{Becomes, Command};
use super::spawn::{Child, End, Input, spawn};
use crate::errors::{Result, invalid};
use crate::io::{drain, read_some, write_all};
use crate::state::Shared;

/// Bytes to keep of a stream.
///
/// # Errors
/// When that are too many.
pub fn limit(name: &str, asked: u64) -> Result<usize> {
    match asked {
        0 => Ok(usize::try_from(DEFAULT_OUTPUT_LIMIT).unwrap_or(usize::MAX)),
        1..=MAX_OUTPUT_LIMIT => Ok(usize::try_from(asked).unwrap_or(usize::MAX)),
        _ => Err(invalid(format!("{name} is {asked}; at most {MAX_OUTPUT_LIMIT} bytes are kept"))),
    }
}

/// Runs one command.
///
/// # Errors
/// When it cannot be started. A program that fails is not an error.
pub async fn run(guest: Shared, request: RunRequest) -> Result<RunResponse> {
    let mut stdout = Capture::new(limit("stdoutLimit", request.stdout_limit)?);
    let mut stderr = Capture::new(limit("stderrLimit", request.stderr_limit)?);
    let command = Command {
        argv: request.argv,
        env: request.env,
        cwd: request.cwd,
        default_cwd: guest.workdir(),
        user: guest.users.find(&request.user)?,
        becomes: Becomes::Program,
    };
    let input = if request.stdin.is_some() { Input::Pipe } else { Input::None };
    let began = Instant::now();
    let mut child = spawn(&guest, &command, input)?;
    let deadline = match request.timeout_ms {
        0 => None,
        ms => began.checked_add(Duration::from_millis(ms)),
    };
    let status = match follow(&mut child, request.stdin, deadline, &mut stdout, &mut stderr).await {
        None => None,
        Some(End::Status(status)) => Some(status),
        Some(End::Failed(error)) => return Err(error),
    };
    if status.is_none() {
        child.kill().await;
    }
    // After a kill nobody writes any more; after a normal end the command itself does not.
    drain(&child.stdout, |bytes| stdout.push(bytes));
    if let Some(fd) = &child.stderr {
        drain(fd, |bytes| stderr.push(bytes));
    }
    if status.is_some() {
        child.detach();
    }
    let (exit_code, signal) = exit_of(status.unwrap_or(libc::SIGKILL));
    Ok(RunResponse {
        outcome: match (status, signal) {
            (None, _) => Outcome::TimedOut,
            (_, Some(_)) => Outcome::Signaled,
            _ => Outcome::Exited,
        },
        exit_code,
        signal,
        stdout: stdout.finish(),
        stderr: stderr.finish(),
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

/// Reads, feeds and waits. Gives the end, or `None` when the deadline came first.
async fn follow(
    child: &mut Child,
    input: Option<Vec<u8>>,
    deadline: Option<Instant>,
    stdout: &mut Capture,
    stderr: &mut Capture,
) -> Option<End> {
    let stdin = child.stdin.take();
    let child = &*child;
    let feed = async move {
        if let (Some(fd), Some(bytes)) = (stdin, input) {
            // A command that does not read all of its input is no failure.
            let _ = write_all(&fd, &bytes).await;
        }
    };
    let late = async {
        match deadline {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    };
    let ended = child.ended();
    tokio::pin!(feed, late, ended);
    let (mut fed, mut out_open, mut err_open) = (false, true, child.stderr.is_some());
    loop {
        tokio::select! {
            // In random order: neither stream, nor the deadline, waits behind a busy other.
            () = &mut late => return None,
            end = &mut ended => return Some(end),
            () = &mut feed, if !fed => fed = true,
            more = read_some(&child.stdout, |bytes| stdout.push(bytes)), if out_open => {
                out_open = more;
            }
            more = read_error(child, stderr), if err_open => err_open = more,
        }
    }
}

async fn read_error(child: &Child, stderr: &mut Capture) -> bool {
    match &child.stderr {
        Some(fd) => read_some(fd, |bytes| stderr.push(bytes)).await,
        None => false,
    }
}

/// Exit code and signal of a wait status.
pub fn exit_of(status: i32) -> (i32, Option<i32>) {
    if libc::WIFSIGNALED(status) {
        let signal = libc::WTERMSIG(status);
        (128 + signal, Some(signal))
    } else {
        (libc::WEXITSTATUS(status), None)
    }
}
