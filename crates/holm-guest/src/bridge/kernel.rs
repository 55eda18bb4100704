//! A kernel: its process, and the sockets to it.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use holm_wire::kernel::End;
use rustix::process::{Pid, PidfdFlags, Signal};
use serde_json::{Value, json};

use super::message::{self, Heard, Request, Session};
use super::poll::{ready, ready_within};
use super::private::Private;
use super::spec::Spec;
use super::zmtp::{Role, Socket};

/// How often it is tried to connect to a kernel that does not listen yet: its sockets have names
/// before anybody listens there, so there is no one event to wait for.
const RETRY: Duration = Duration::from_millis(20);
/// How often a kernel is asked whether it is there, until it says so on both sockets. What it says on
/// the second before it knows who listens there is lost.
const NUDGE: Duration = Duration::from_millis(400);
/// Bytes that are kept of what its process writes besides.
const LAST_WORDS: usize = 4 << 10;

/// A running kernel.
#[derive(Debug)]
pub struct Kernel {
    child: Child,
    pidfd: Option<OwnedFd>,
    stdout: Option<File>,
    stderr: Option<File>,
    last_words: Vec<u8>,
    shell: Socket,
    control: Socket,
    published: Socket,
    session: Session,
    by_message: bool,
    end: Option<End>,
}

/// What a wait for a kernel brought.
#[derive(Debug, Default)]
pub struct News {
    /// From the socket that answers.
    pub answers: Vec<Heard>,
    /// From the socket that tells everybody.
    pub published: Vec<Heard>,
    /// There is something to read on the descriptor that was given besides.
    pub besides: bool,
    /// Nothing more will be published.
    pub is_over: bool,
}

/// A process that is killed, with its group, unless it becomes a kernel.
struct Starting(Option<Child>);

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            kill_group(child);
        }
    }
}

fn kill_group(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
    let _ = child.wait();
}

/// A variable's value, which may name others of ours, as other clients have it.
fn value(value: &str) -> String {
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        let Some(end) = rest[at..].find('}') else { break };
        out.push_str(&rest[..at]);
        let named = &rest[at + 2..at + end];
        out.push_str(&std::env::var(named).unwrap_or_default());
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    out
}

impl Kernel {
    /// Starts one and waits until it answers.
    ///
    /// # Errors
    /// With a text: what failed, and what the kernel's process wrote last.
    pub fn start(
        spec: &Spec,
        home: &str,
        more: &[(&str, String)],
        until: Instant,
    ) -> Result<Self, String> {
        let failed = |doing: &str, error: &dyn std::fmt::Display| {
            format!("the kernel {} did not start: {doing}: {error}", spec.name)
        };
        let private = Private::new(home).map_err(|e| failed("no directory for its sockets", &e))?;
        let file = private.connection_file().map_err(|e| failed("no connection file", &e))?;
        let argv = spec.command(&file);
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).stdin(Stdio::null()).process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(more.iter().map(|(name, value)| (name, value)));
        for (name, text) in &spec.env {
            if !name.is_empty() && !name.contains(['=', '\0']) && !text.contains('\0') {
                command.env(name, value(text));
            }
        }
        let mut child = command.spawn().map_err(|e| failed(&format!("`{}`", argv[0]), &e))?;
        let mut out: Option<File> = child.stdout.take().map(|out| OwnedFd::from(out).into());
        let mut err: Option<File> = child.stderr.take().map(|err| OwnedFd::from(err).into());
        let mut starting = Starting(Some(child));
        let mut last_words = Vec::new();
        let mut connect = |number, role| loop {
            let why = match Socket::connect(&private.socket(number), role) {
                Ok(socket) => return Ok(socket),
                Err(error) if is_early(&error) => "it does not listen".to_owned(),
                Err(error) => return Err(failed("its socket", &error)),
            };
            drain_within(&mut out, &mut err, &mut last_words, RETRY);
            let status = starting.0.as_mut().and_then(|child| child.try_wait().ok().flatten());
            let said = String::from_utf8_lossy(&last_words).trim().to_owned();
            if let Some(status) = status {
                return Err(failed(&format!("it ended ({status})"), &said));
            }
            if Instant::now() >= until {
                return Err(failed(&why, &said));
            }
        };
        let (shell, published, control) =
            (connect(1, Role::Dealer)?, connect(2, Role::Subscriber)?, connect(4, Role::Dealer)?);
        let Some(child) = starting.0.take() else { return Err(failed("it", &"is gone")) };
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pidfd = pid.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        let mut kernel = Self {
            child,
            pidfd,
            stdout: out,
            stderr: err,
            last_words,
            shell,
            control,
            published,
            session: Session::new(),
            by_message: spec.interrupt_mode == "message",
            end: None,
        };
        kernel.greet(until).map_err(|why| failed(&why, &kernel.said()))?;
        Ok(kernel)
    }

    /// Waits until it has answered and is heard on both sockets.
    fn greet(&mut self, until: Instant) -> Result<(), String> {
        let (mut answered, mut heard) = (false, false);
        while !(answered && heard) {
            if Instant::now() >= until {
                return Err("it does not answer".to_owned());
            }
            let request = self.session.request("kernel_info_request", &json!({}));
            self.shell.send(&request.frames()).map_err(|error| error.to_string())?;
            let pause = until.min(Instant::now() + NUDGE);
            while !(answered && heard) && Instant::now() < pause {
                let news = self.wait(None, Some(pause));
                if self.end.is_some() {
                    return Err("it ended".to_owned());
                }
                answered |= news.answers.iter().any(|one| one.kind == "kernel_info_reply");
                heard |= news.published.iter().any(|one| !one.parent.is_empty());
            }
        }
        Ok(())
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.last_words).trim().to_owned()
    }

    /// Sends it a message on the socket that answers; gives the message's id.
    ///
    /// # Errors
    /// When it takes nothing.
    pub fn ask(&mut self, kind: &str, content: &Value) -> io::Result<String> {
        let request: Request = self.session.request(kind, content);
        self.shell.send(&request.frames())?;
        Ok(request.id)
    }

    /// Asks it to stop what it does, as its specification wants it.
    pub fn interrupt(&mut self) {
        if self.by_message {
            let request = self.session.request("interrupt_request", &json!({}));
            // Who does not take it is killed later.
            let _ = self.control.send(&request.frames());
        } else if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // The group: what the code waits for is stopped as well, as on a terminal.
            let _ = rustix::process::kill_process_group(pid, Signal::INT);
        }
    }

    /// How it ended, if it has.
    pub fn end(&mut self) -> Option<End> {
        if self.end.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            let signal = status.signal();
            let exit_code = status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0));
            self.end = Some(End { exit_code, signal });
        }
        self.end
    }

    /// Waits for a message, for its end, or for something on `besides`; at most until then.
    pub fn wait(&mut self, besides: Option<BorrowedFd<'_>>, until: Option<Instant>) -> News {
        let mut news = News::default();
        // Without the descriptor its end is looked for now and then.
        let rest = if self.pidfd.is_some() { None } else { Some(Duration::from_secs(1)) };
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let wait = [left, rest].into_iter().flatten().min();
        let ready = {
            let out = self.stdout.as_ref().map(File::as_fd);
            let err = self.stderr.as_ref().map(File::as_fd);
            let pid = self.pidfd.as_ref().filter(|_| self.end.is_none()).map(OwnedFd::as_fd);
            let sockets = [self.shell.as_fd(), self.published.as_fd(), self.control.as_fd()];
            let all = [besides, out, err, pid].into_iter().chain(sockets.map(Some));
            ready(&all.collect::<Vec<_>>(), wait)
        };
        let is = |at: usize| ready.get(at).copied().unwrap_or(false);
        news.besides = is(0);
        if is(1) {
            drain(&mut self.stdout, &mut self.last_words);
        }
        if is(2) {
            drain(&mut self.stderr, &mut self.last_words);
        }
        let mut broken = false;
        for (at, socket) in
            [&mut self.shell, &mut self.published, &mut self.control].into_iter().enumerate()
        {
            if is(4 + at) && !socket.read().unwrap_or(false) {
                broken = true;
                news.is_over |= at == 1;
            }
        }
        news.answers = std::iter::from_fn(|| self.shell.next()).filter_map(message::read).collect();
        news.published =
            std::iter::from_fn(|| self.published.next()).filter_map(message::read).collect();
        while self.control.next().is_some() {}
        if broken {
            // Who does not speak the protocol any more is no kernel any more; it may be ending.
            let ends = Instant::now() + Duration::from_secs(1);
            while self.end().is_none() && Instant::now() < ends {
                let pid: Vec<_> = self.pidfd.iter().map(|fd| Some(fd.as_fd())).collect();
                ready_within(&pid, RETRY);
            }
            if self.end.is_none() {
                kill_group(&mut self.child);
                self.end = Some(End { exit_code: 137, signal: Some(9) });
            }
        }
        self.end();
        news
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // What one that has ended left behind is the guest's to kill.
        if self.end().is_none() {
            kill_group(&mut self.child);
        }
    }
}

/// It does not listen yet.
fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Reads once from a pipe and keeps the end of it; a pipe that has ended is closed.
fn drain(pipe: &mut Option<File>, last_words: &mut Vec<u8>) {
    let mut buffer = [0; 16 << 10];
    let got = pipe.as_mut().map_or(0, |pipe| pipe.read(&mut buffer).unwrap_or(0));
    if got == 0 {
        *pipe = None;
    }
    last_words.extend_from_slice(&buffer[..got]);
    last_words.drain(..last_words.len().saturating_sub(LAST_WORDS));
}

fn drain_within(
    out: &mut Option<File>,
    err: &mut Option<File>,
    last_words: &mut Vec<u8>,
    wait: Duration,
) {
    let fds = [out.as_ref().map(File::as_fd), err.as_ref().map(File::as_fd)];
    let is_ready = ready_within(&fds, wait);
    if is_ready[0] {
        drain(out, last_words);
    }
    if is_ready[1] {
        drain(err, last_words);
    }
}
