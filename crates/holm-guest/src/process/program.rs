//! One program and those who follow it.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use holm_wire::connect::{Code, Error};
use holm_wire::process::{
    DataEvent, EndEvent, EventResponse, ProcessConfig, ProcessEvent, ProcessInput, StartEvent,
};
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use super::queue::{Queue, wait_for_room};
use super::signals::describe;
use crate::command::capture::unfinished;
use crate::command::run::exit_of;
use crate::command::spawn::{Child, End};
use crate::errors::{Result, invalid};
use crate::io::{drain, read_some, write_all};
use crate::server::rpc::message_frame;

/// How long the caller of `Start` may read nothing. It owns the program: a user who pages
/// through its output must not lose it.
const OWNER_PATIENCE: Duration = Duration::from_secs(600);
/// How long another follower may read nothing.
const FOLLOWER_PATIENCE: Duration = Duration::from_secs(15);
/// How long the beginning of a character waits for its rest, so that text parts hold whole
/// characters. Bytes that are no text are only late by this.
const CHARACTER: Duration = Duration::from_secs(1);
/// How long a terminal's last output is waited for after the program's end.
const TERMINAL_END: Duration = Duration::from_secs(1);

/// Which stream output came from.
#[derive(Debug, Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
    Terminal,
}

type Pipe = AsyncFd<OwnedFd>;

/// A started program.
#[derive(Debug)]
pub struct Program {
    /// Its process id.
    pub pid: u32,
    /// The caller's name for it.
    pub tag: Option<String>,
    /// How it was started.
    pub config: ProcessConfig,
    terminal: bool,
    child: RefCell<Option<Rc<Child>>>,
    stdin: RefCell<Option<Rc<Pipe>>>,
    /// Writers of standard input, one after the other.
    turn: Mutex<()>,
    /// Told when the program has ended, to those who still write to it.
    closing: Notify,
    followers: RefCell<Vec<Rc<Queue>>>,
    room: Rc<Notify>,
    end: RefCell<Option<EndEvent>>,
}

/// Output that waits for the rest of a character.
#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    until: Option<Instant>,
}

fn frame(event: ProcessEvent) -> bytes::Bytes {
    message_frame(&EventResponse { event })
}

/// The frame of a keepalive.
pub fn keepalive() -> bytes::Bytes {
    frame(ProcessEvent::Keepalive(holm_wire::process::Empty {}))
}

impl Program {
    /// Takes a child over.
    pub fn new(mut child: Child, pid: u32, tag: Option<String>, config: ProcessConfig) -> Rc<Self> {
        let stdin = child.stdin.take();
        Rc::new(Self {
            pid,
            tag,
            config,
            terminal: child.stderr.is_none(),
            child: RefCell::new(Some(Rc::new(child))),
            stdin: RefCell::new(stdin.map(Rc::new)),
            turn: Mutex::default(),
            closing: Notify::new(),
            followers: RefCell::default(),
            room: Rc::default(),
            end: RefCell::default(),
        })
    }

    fn child(&self) -> Option<Rc<Child>> {
        self.child.borrow().clone()
    }

    /// A new follower. It gets the start event at once, and the end event if there is one.
    pub fn follow(&self, owner: bool) -> Rc<Queue> {
        let patience = if owner { OWNER_PATIENCE } else { FOLLOWER_PATIENCE };
        let queue = Queue::new(patience, Rc::clone(&self.room));
        queue.push(frame(ProcessEvent::Start(StartEvent { pid: self.pid })));
        if let Some(end) = &*self.end.borrow() {
            queue.push(frame(ProcessEvent::End(end.clone())));
            queue.end(None);
        } else {
            self.followers.borrow_mut().push(Rc::clone(&queue));
        }
        queue
    }

    /// Reads the program to its end and tells all followers. `owner` is the stream of `Start`;
    /// where the program is `owned` by it, the program does not outlive it.
    pub async fn watch(self: Rc<Self>, owner: Rc<Queue>, owned: bool, deadline: Option<Instant>) {
        let Some(child) = self.child() else { return };
        let (mut out, mut err) = (Held::default(), Held::default());
        let status = {
            let late = async {
                tokio::select! {
                    () = at(deadline) => {}
                    () = owner.left(), if owned => {}
                }
            };
            self.read(&child, late, &mut out, &mut err).await
        };
        if status.is_none() {
            child.kill().await;
        }
        let first = if self.terminal { Stream::Terminal } else { Stream::Stdout };
        if self.terminal {
            let rest = async {
                while read_some(&child.stdout, |bytes| self.data(first, &mut out, bytes)).await {}
            };
            let _ = tokio::time::timeout(TERMINAL_END, rest).await;
        } else {
            drain(&child.stdout, |bytes| self.data(first, &mut out, bytes));
        }
        if let Some(fd) = &child.stderr {
            drain(fd, |bytes| self.data(Stream::Stderr, &mut err, bytes));
        }
        self.flush(first, &mut out);
        self.flush(Stream::Stderr, &mut err);
        child.detach();
        self.child.replace(None);
        self.stdin.replace(None);
        self.closing.notify_waiters();
        self.finish(status, &owner);
    }

    fn finish(&self, status: Option<i32>, owner: &Rc<Queue>) {
        let (exit_code, signal) = exit_of(status.unwrap_or(libc::SIGKILL));
        let late = status.is_none();
        let end = EndEvent {
            exit_code,
            exited: signal.is_none(),
            status: match signal {
                Some(signal) => describe(signal),
                None => format!("exit status {exit_code}"),
            },
            error: match signal {
                _ if late => Some("killed: its time was over, or its caller had gone".to_owned()),
                Some(signal) => Some(describe(signal)),
                None if exit_code != 0 => Some(format!("exit status {exit_code}")),
                None => None,
            },
        };
        let bytes = frame(ProcessEvent::End(end.clone()));
        for queue in self.followers.take() {
            if late && Rc::ptr_eq(&queue, owner) {
                queue.end(Some(Error::new(
                    Code::DeadlineExceeded,
                    "the command was killed at its deadline, with all that it started",
                )));
            } else {
                queue.push(bytes.clone());
                queue.end(None);
            }
        }
        self.end.replace(Some(end));
    }

    /// Reads until the program ends; `None` when it is `late` before.
    async fn read(
        &self,
        child: &Child,
        late: impl Future<Output = ()>,
        out: &mut Held,
        err: &mut Held,
    ) -> Option<i32> {
        let first = if self.terminal { Stream::Terminal } else { Stream::Stdout };
        let ended = child.ended();
        tokio::pin!(ended, late);
        let (mut out_open, mut err_open) = (true, child.stderr.is_some());
        loop {
            let held = [out.until, err.until].into_iter().flatten().min();
            tokio::select! {
                () = &mut late => return None,
                end = &mut ended => match end {
                    End::Status(status) => return Some(status),
                    // It runs, so this cannot be; were it so, it would have been killed.
                    End::Failed(_) => return Some(libc::SIGKILL),
                },
                more = self.next(&child.stdout, first, out), if out_open => out_open = more,
                more = self.next_error(child, err), if err_open => err_open = more,
                () = at(held), if held.is_some() => {
                    self.flush_old(first, out);
                    self.flush_old(Stream::Stderr, err);
                }
            }
        }
    }

    async fn next(&self, fd: &Pipe, stream: Stream, held: &mut Held) -> bool {
        wait_for_room(&self.followers, &self.room).await;
        read_some(fd, |bytes| self.data(stream, held, bytes)).await
    }

    async fn next_error(&self, child: &Child, held: &mut Held) -> bool {
        match &child.stderr {
            Some(fd) => self.next(fd, Stream::Stderr, held).await,
            None => false,
        }
    }

    fn data(&self, stream: Stream, held: &mut Held, bytes: &[u8]) {
        held.bytes.extend_from_slice(bytes);
        let back = unfinished(&held.bytes);
        let ready = held.bytes.len() - back;
        if ready > 0 {
            let rest = held.bytes.split_off(ready);
            self.publish(stream, std::mem::replace(&mut held.bytes, rest));
        }
        held.until = (back > 0).then(|| Instant::now() + CHARACTER);
    }

    fn flush_old(&self, stream: Stream, held: &mut Held) {
        if held.until.is_some_and(|until| until <= Instant::now()) {
            self.flush(stream, held);
        }
    }

    fn flush(&self, stream: Stream, held: &mut Held) {
        held.until = None;
        if !held.bytes.is_empty() {
            self.publish(stream, std::mem::take(&mut held.bytes));
        }
    }

    fn publish(&self, stream: Stream, bytes: Vec<u8>) {
        if self.followers.borrow().is_empty() {
            return;
        }
        let event = match stream {
            Stream::Stdout => DataEvent::Stdout(bytes),
            Stream::Stderr => DataEvent::Stderr(bytes),
            Stream::Terminal => DataEvent::Pty(bytes),
        };
        let frame = frame(ProcessEvent::Data(event));
        for queue in self.followers.borrow().iter() {
            queue.push(frame.clone());
        }
    }

    /// Writes to standard input or to the terminal. Waits for as long as the program does not
    /// read.
    ///
    /// # Errors
    /// When it has none, or nobody reads it any more.
    pub async fn feed(&self, input: &ProcessInput) -> Result<()> {
        let (bytes, to_terminal) = match input {
            ProcessInput::Stdin(bytes) => (bytes, false),
            ProcessInput::Pty(bytes) => (bytes, true),
        };
        if to_terminal != self.terminal {
            let (has, hasnt) = if self.terminal { ("pty", "stdin") } else { ("stdin", "pty") };
            return Err(invalid(format!("this process takes `{has}` input, not `{hasnt}`")));
        }
        let closed = |why: &str| Error::new(Code::FailedPrecondition, why.to_owned());
        let closing = self.closing.notified();
        let write = async {
            let _turn = self.turn.lock().await;
            let fd = self.stdin.borrow().clone().ok_or_else(|| {
                closed("the process was started without standard input, or it is closed")
            })?;
            write_all(&fd, bytes)
                .await
                .map_err(|_| closed("the process does not read its input any more"))
        };
        tokio::select! {
            done = write => done,
            () = closing => Err(closed("the process has ended")),
        }
    }

    /// Ends standard input.
    ///
    /// # Errors
    /// On a terminal, which has no end of its own.
    pub async fn close_stdin(&self) -> Result<()> {
        if self.terminal {
            return Err(Error::new(
                Code::FailedPrecondition,
                "a terminal has no end of input; send Ctrl-D (byte 4) instead",
            ));
        }
        // What was sent before comes first.
        let _turn = self.turn.lock().await;
        self.stdin.replace(None);
        Ok(())
    }

    /// Sends a signal to the program's group; `SIGKILL` ends all that it started.
    pub async fn signal(&self, signal: i32) -> bool {
        let Some(child) = self.child() else { return false };
        if signal == libc::SIGKILL {
            child.kill().await;
            return true;
        }
        child.signal(signal)
    }

    /// Changes the terminal's size.
    ///
    /// # Errors
    /// When it runs on none.
    pub fn resize(&self, size: holm_wire::process::PtySize) -> Result<()> {
        let child = self.child().filter(|_| self.terminal);
        let child = child.ok_or_else(|| {
            Error::new(Code::FailedPrecondition, "the process does not run on a terminal")
        })?;
        crate::command::spawn::resize(child.stdout.get_ref(), size)
            .map_err(|error| crate::errors::internal("cannot resize the terminal", error))
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
