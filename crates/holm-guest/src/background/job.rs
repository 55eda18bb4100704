//! One command in the background.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use holm_wire::background::{Command as View, GetRequest, MOST_AT_ONCE, State};
use holm_wire::connect::{Code, Error};
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Duration, Instant};

use super::log::Log;
use crate::command::run::exit_of;
use crate::command::spawn::{Child, End};
use crate::errors::Result;
use crate::io::{drain, read_some, write_all};

/// A command, while it runs and after.
#[derive(Debug)]
pub struct Job {
    /// Its id.
    pub id: String,
    /// Its process id.
    pub pid: u32,
    /// What it runs, for people.
    pub shown: String,
    /// Milliseconds since 1970.
    pub started_ms: u64,
    began: Instant,
    child: RefCell<Option<Rc<Child>>>,
    stdin: RefCell<Option<Rc<AsyncFd<OwnedFd>>>>,
    /// Writers of standard input, one after the other.
    turn: Mutex<()>,
    stdout: RefCell<Log>,
    stderr: RefCell<Log>,
    /// Somebody here asked for its end.
    was_killed: Cell<bool>,
    end: RefCell<Option<Ended>>,
    /// Told when something was written, and at the end.
    news: Notify,
}

/// How it ended.
#[derive(Debug, Clone, Copy)]
struct Ended {
    state: State,
    exit_code: i32,
    signal: Option<i32>,
    duration: Duration,
}

impl Job {
    /// Takes a child over that runs; of each stream at most `limit` bytes are kept.
    pub fn new(mut child: Child, id: String, pid: u32, shown: String, limit: usize) -> Rc<Self> {
        let stdin = child.stdin.take();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let started_ms = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        Rc::new(Self {
            id,
            pid,
            shown,
            started_ms,
            began: Instant::now(),
            child: RefCell::new(Some(Rc::new(child))),
            stdin: RefCell::new(stdin.map(Rc::new)),
            turn: Mutex::default(),
            stdout: RefCell::new(Log::new(limit)),
            stderr: RefCell::new(Log::new(limit)),
            was_killed: Cell::new(false),
            end: RefCell::default(),
            news: Notify::new(),
        })
    }

    fn child(&self) -> Option<Rc<Child>> {
        self.child.borrow().clone()
    }

    /// True while it runs.
    pub fn runs(&self) -> bool {
        self.end.borrow().is_none()
    }

    /// Bytes that are kept of it.
    pub fn kept(&self) -> usize {
        self.stdout.borrow().len() + self.stderr.borrow().len()
    }

    /// Gives up what is kept of it.
    pub fn forget_output(&self) {
        self.stdout.borrow_mut().clear();
        self.stderr.borrow_mut().clear();
    }

    /// Reads it to its end; at `deadline` it is killed, with all that it started.
    pub async fn watch(&self, deadline: Option<Instant>) {
        let Some(child) = self.child() else { return };
        let status = self.read(&child, deadline).await;
        if status.is_none() {
            child.kill().await;
        }
        drain(&child.stdout, |bytes| self.stdout.borrow_mut().push(bytes));
        if let Some(fd) = &child.stderr {
            drain(fd, |bytes| self.stderr.borrow_mut().push(bytes));
        }
        child.detach();
        let (exit_code, signal) = exit_of(status.unwrap_or(libc::SIGKILL));
        let state = match (status, signal) {
            (None, _) => State::TimedOut,
            (_, Some(_)) if self.was_killed.get() => State::Killed,
            (_, Some(_)) => State::Signaled,
            _ => State::Exited,
        };
        self.end.replace(Some(Ended { state, exit_code, signal, duration: self.began.elapsed() }));
        self.child.replace(None);
        self.stdin.replace(None);
        self.news.notify_waiters();
    }

    /// Reads until it ends; `None` when the deadline came first.
    async fn read(&self, child: &Child, deadline: Option<Instant>) -> Option<i32> {
        let late = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let ended = child.ended();
        tokio::pin!(late, ended);
        let (mut out_open, mut err_open) = (true, child.stderr.is_some());
        loop {
            tokio::select! {
                () = &mut late => return None,
                end = &mut ended => return Some(match end {
                    End::Status(status) => status,
                    // It runs, so this cannot be; were it so, it would have been killed.
                    End::Failed(_) => libc::SIGKILL,
                }),
                more = self.next(&child.stdout, &self.stdout), if out_open => out_open = more,
                more = self.next_error(child), if err_open => err_open = more,
            }
        }
    }

    async fn next(&self, fd: &AsyncFd<OwnedFd>, log: &RefCell<Log>) -> bool {
        let more = read_some(fd, |bytes| log.borrow_mut().push(bytes)).await;
        self.news.notify_waiters();
        more
    }

    async fn next_error(&self, child: &Child) -> bool {
        match &child.stderr {
            Some(fd) => self.next(fd, &self.stderr).await,
            None => false,
        }
    }

    /// Waits until it has written something past those places or has ended, or time is over.
    pub async fn news_after(&self, stdout: u64, stderr: u64, until: Instant) {
        loop {
            let told = self.news.notified();
            let is_new = self.stdout.borrow().total() > stdout
                || self.stderr.borrow().total() > stderr
                || !self.runs();
            if is_new || tokio::time::timeout_at(until, told).await.is_err() {
                return;
            }
        }
    }

    /// How it is, and what it wrote.
    pub fn view(&self, asked: &GetRequest) -> View {
        let most = match asked.max_bytes {
            0 => MOST_AT_ONCE,
            some => some.min(MOST_AT_ONCE),
        };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let is_over = !self.runs();
        View {
            stdout: self.stdout.borrow().part(asked.stdout_from, most, is_over),
            stderr: self.stderr.borrow().part(asked.stderr_from, most, is_over),
            ..self.head()
        }
    }

    /// The same without output.
    pub fn head(&self) -> View {
        let end = *self.end.borrow();
        let duration = end.map_or_else(|| self.began.elapsed(), |end| end.duration);
        let sizes = |log: &RefCell<Log>| {
            let total = log.borrow().total();
            holm_wire::background::Part { from: total, bytes: Vec::new(), total }
        };
        View {
            id: self.id.clone(),
            pid: self.pid,
            command: self.shown.clone(),
            state: end.map_or(State::Running, |end| end.state),
            exit_code: end.map(|end| end.exit_code),
            signal: end.and_then(|end| end.signal),
            started_ms: self.started_ms,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            stdin_open: self.stdin.borrow().is_some(),
            stdout: sizes(&self.stdout),
            stderr: sizes(&self.stderr),
        }
    }

    /// Writes to standard input. Waits for as long as the program does not read, up to `patience`:
    /// what fits by then is written.
    ///
    /// # Errors
    /// When it has none, or nobody reads it any more, or not soon enough.
    pub async fn feed(&self, bytes: &[u8], close: bool, patience: Duration) -> Result<()> {
        let closed = |why: &str| Error::new(Code::OutOfRange, format!("{}: {why}", self.id));
        let write = async {
            let _turn = self.turn.lock().await;
            let fd = self.stdin.borrow().clone();
            let fd = fd.ok_or_else(|| {
                let why = "it has no standard input that is open; start it with `stdin`";
                closed(if self.runs() { why } else { "it has ended" })
            })?;
            write_all(&fd, bytes)
                .await
                .map_err(|_| closed("it does not read its input any more"))?;
            if close {
                self.stdin.replace(None);
            }
            Ok(())
        };
        tokio::select! {
            done = write => done,
            () = self.ended() => Err(closed("it has ended")),
            () = tokio::time::sleep(patience) => Err(closed(
                "it does not read its input; a part of this may have been written",
            )),
        }
    }

    async fn ended(&self) {
        loop {
            let told = self.news.notified();
            if !self.runs() {
                return;
            }
            told.await;
        }
    }

    /// Sends a signal to its group; `SIGKILL` ends all that it started, and then it has ended.
    pub async fn kill(&self, signal: i32) {
        let Some(child) = self.child() else { return };
        self.was_killed.set(true);
        if signal == libc::SIGKILL {
            child.kill().await;
            self.ended().await;
        } else {
            child.signal(signal);
        }
    }
}
