//! Programs of the operator that the service has run: one after the other, without a shell, bounded in
//! time and in what they say.
//!
//! The service itself makes no process ([`crate::launcher`] says why), so that a small one does, which
//! is started before the event loop and ends with the socket that leads to it.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

/// The first argument of the process that runs them.
pub const ARGUMENT: &str = "__hook";
/// Longest run.
const TIME: Duration = Duration::from_secs(120);
/// How often it is looked whether one has ended that left its output open.
const LOOK: Duration = Duration::from_millis(50);
/// What is kept of what one says.
const SAID: usize = 2048;
/// Longest message between the two processes.
const MESSAGE: usize = 64 << 10;
/// Variables that begin so are the service's own, and may be secret.
const OWN: [&str; 3] = ["HOLM_", "ABX_", "AAS_"];

/// A program that can be run.
#[derive(Debug)]
pub struct Hook {
    link: tokio::sync::Mutex<Link>,
    /// Ends when the link does.
    _runner: Child,
}

#[derive(Debug)]
struct Link {
    socket: UnixStream,
    /// Whether an answer is still to come of whose question nobody waits any more.
    is_torn: bool,
}

/// A run that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}{}", said(.output))]
pub struct HookError {
    /// What happened.
    pub reason: String,
    /// What the program said, cut.
    pub output: String,
}

fn said(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!("; it says: {output}") }
}

impl HookError {
    fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), output: String::new() }
    }
}

impl Hook {
    /// Starts the process that runs `program`. Before there is an event loop, or any thread.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(program: &Path) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(ARGUMENT).arg(program);
        command.stdin(theirs.try_clone()?).stdout(theirs).process_group(0);
        for (name, _) in std::env::vars_os() {
            if OWN.iter().any(|own| name.as_encoded_bytes().starts_with(own.as_bytes())) {
                command.env_remove(name);
            }
        }
        let runner = command.spawn()?;
        ours.set_nonblocking(true)?;
        let link = tokio::sync::Mutex::new(Link { socket: ours, is_torn: false });
        Ok(Self { link, _runner: runner })
    }

    /// Runs the program with these arguments to its end.
    ///
    /// # Errors
    /// When it cannot be run, takes too long or fails.
    pub async fn run(&self, arguments: &[&str]) -> Result<(), HookError> {
        let gone = |error: io::Error| {
            HookError::new(format!("what runs hooks is gone ({error}); start the service again"))
        };
        let mut link = self.link.lock().await;
        if std::mem::replace(&mut link.is_torn, true) {
            // Its answer is not for us.
            link.receive().await.map_err(gone)?;
        }
        link.send(&json!(arguments)).await.map_err(gone)?;
        let answer = link.receive().await.map_err(gone)?;
        link.is_torn = false;
        match answer["failed"].as_str() {
            None => Ok(()),
            Some(reason) => Err(HookError {
                reason: reason.to_owned(),
                output: answer["output"].as_str().unwrap_or_default().to_owned(),
            }),
        }
    }
}

impl Link {
    fn stream(&self) -> io::Result<tokio::net::UnixStream> {
        tokio::net::UnixStream::from_std(self.socket.try_clone()?)
    }

    async fn send(&self, message: &Value) -> io::Result<()> {
        let (stream, line) = (self.stream()?, format!("{message}\n"));
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            stream.writable().await?;
            match stream.try_write(rest) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn receive(&self) -> io::Result<Value> {
        let (stream, mut line) = (self.stream()?, Vec::new());
        while line.last() != Some(&b'\n') {
            stream.readable().await?;
            let mut part = [0; 4096];
            match stream.try_read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => line.extend_from_slice(part.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if line.len() > MESSAGE {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(serde_json::from_slice(&line)?)
    }
}

/// The process that runs hooks: answers each message until there are no more.
#[must_use]
pub fn main() -> u8 {
    let Some(program) = std::env::args_os().nth(2) else { return 2 };
    let mut messages = BufReader::new(io::stdin());
    loop {
        let mut line = String::new();
        match messages.read_line(&mut line) {
            Ok(1..) => {}
            Ok(0) | Err(_) => return 0,
        }
        let Ok(arguments) = serde_json::from_str::<Vec<String>>(&line) else { return 2 };
        let answer = match run(Path::new(&program), &arguments, TIME) {
            Ok(()) => json!({}),
            Err(error) => json!({"failed": error.reason, "output": error.output}),
        };
        let mut out = io::stdout();
        if out.write_all(format!("{answer}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
            return 0;
        }
    }
}

fn run(program: &Path, arguments: &[String], time: Duration) -> Result<(), HookError> {
    let until = Instant::now() + time;
    let failed = |error: io::Error| HookError::new(format!("it cannot be run: {error}"));
    let (read, write) = io::pipe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).process_group(0);
    command.stdout(write.try_clone().map_err(failed)?).stderr(write);
    let mut child = command.spawn().map_err(failed)?;
    // With it goes our end for writing.
    drop(command);
    let mut output = Vec::new();
    let ended = listen(&mut child, read, &mut output, until);
    // Also what it has left behind.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _gone = kill_process_group(group, Signal::KILL);
    }
    let _reaped = child.wait();
    let output = shown(&output);
    let reason = match ended {
        Ok(Some(status)) if status.success() => return Ok(()),
        Ok(Some(status)) => format!("it failed ({status})"),
        Ok(None) => format!("it did not end within {} s and was killed", time.as_secs()),
        Err(error) => format!("it cannot be waited for: {error}"),
    };
    Err(HookError { reason, output })
}

/// Reads what it says until it has ended; nothing where the time was up before.
fn listen(
    child: &mut Child,
    mut read: io::PipeReader,
    output: &mut Vec<u8>,
    until: Instant,
) -> io::Result<Option<ExitStatus>> {
    let mut is_open = true;
    loop {
        let ended = child.try_wait()?;
        if is_open {
            let pause = if ended.is_some() { Duration::ZERO } else { LOOK };
            let pause = rustix::event::Timespec::try_from(pause).map_err(io::Error::other)?;
            let mut ready = [PollFd::from_borrowed_fd(read.as_fd(), PollFlags::IN)];
            if poll(&mut ready, Some(&pause))? > 0 {
                let mut part = [0; 4096];
                let count = read.read(&mut part)?;
                is_open = count > 0;
                let room = SAID.saturating_sub(output.len()).min(count);
                output.extend_from_slice(part.get(..room).unwrap_or_default());
                continue;
            }
        } else if ended.is_none() {
            std::thread::sleep(LOOK);
        }
        if ended.is_some() || Instant::now() >= until {
            return Ok(ended);
        }
    }
}

/// As one line that can be printed.
fn shown(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, time: Duration) -> Result<(), HookError> {
        run(Path::new("/bin/sh"), &["-c".to_owned(), script.to_owned()], time)
    }

    #[test]
    fn what_fails_says_why_in_bounded_text() {
        assert_eq!(sh("echo ignored", TIME), Ok(()));
        let failed = sh("printf 'no\\033[2Jsuch\\nzone' >&2; exit 3", TIME).expect_err("it fails");
        assert_eq!(failed.to_string(), "it failed (exit status: 3); it says: no [2Jsuch zone");
        let long =
            sh("head -c 10000000 /dev/zero | tr '\\0' x; exit 1", TIME).expect_err("it fails");
        assert_eq!(long.output, "x".repeat(SAID));
        let missing = run(Path::new("/nowhere/hook"), &[], TIME).expect_err("it is not there");
        assert!(missing.reason.starts_with("it cannot be run"), "{missing}");
    }

    #[test]
    fn arguments_are_words_and_no_shells() {
        let script = "[ \"$#\" = 2 ] && [ \"$1\" = 'a b;c' ] && [ \"$2\" = '$HOME' ]";
        let arguments = ["-c", script, "name", "a b;c", "$HOME"].map(str::to_owned);
        assert_eq!(run(Path::new("/bin/sh"), &arguments, TIME), Ok(()));
    }

    #[test]
    fn what_does_not_end_is_killed_with_what_it_has_started() {
        let short = Duration::from_millis(300);
        let slow = sh("echo begun; sleep 1000 & sleep 1000", short).expect_err("it takes too long");
        assert_eq!(slow.output, "begun");
        assert!(slow.reason.contains("was killed"), "{slow}");
        // One that has ended is not waited for because something else has its output.
        assert_eq!(sh("sleep 1000 & exit 0", TIME), Ok(()));
    }
}
