//! The guest's side of a command: its descriptors, its supervisor, its end.

use std::cell::Cell;
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::time::Duration;

use holm_wire::connect::{Code, Error};
use holm_wire::process::PtySize;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use tokio::io::unix::AsyncFd;

use super::plan::{Command, plan, too_large};
use super::reaper;
use crate::errors::{Result, internal, invalid, shorten};
use crate::state::{Guest, Shared};
use crate::sys::child::Stage;
use crate::sys::{child, raw, supervise};

/// Room in a command's output pipes, where the system gives it.
const PIPE_SIZE: usize = 256 << 10;
/// How long a supervisor may take to say that the command runs.
const START_PATIENCE: Duration = Duration::from_secs(5);
/// How long a supervisor may take to kill before the guest does it itself.
const KILL_PATIENCE: Duration = Duration::from_secs(4);

/// Where standard input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// At its end from the start.
    None,
    /// A pipe.
    Pipe,
    /// A terminal, which is also the output.
    Terminal(PtySize),
}

/// What a supervisor says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Report {
    Started(i32),
    Failed(i32, i32),
    Exited(i32),
    /// The supervisor is gone, and with it (or soon) everything below it.
    Gone,
}

/// A running command.
#[derive(Debug)]
pub struct Child {
    /// Its process id, which is also its session's and group's.
    pub pid: Cell<i32>,
    /// Where it should have started, for the text of an error.
    cwd: String,
    /// Writes to its standard input.
    pub stdin: Option<AsyncFd<OwnedFd>>,
    /// Its standard output, or its terminal.
    pub stdout: AsyncFd<OwnedFd>,
    /// Its standard error; none on a terminal.
    pub stderr: Option<AsyncFd<OwnedFd>>,
    guest: Shared,
    supervisor: i32,
    control: AsyncFd<OwnedFd>,
    status: Cell<Option<i32>>,
    /// The supervisor is gone.
    gone: Cell<bool>,
    /// Nobody need end it when this is dropped.
    settled: Cell<bool>,
}

fn nonblocking(fd: OwnedFd) -> Result<AsyncFd<OwnedFd>> {
    let watch = || {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)
    };
    watch().map_err(|error| internal("cannot prepare a pipe", error))?;
    raw::watched(fd).map_err(|error| internal("cannot watch a pipe", error))
}

/// A pipe whose command's side belongs to the user, so that /dev/stdout can be opened again.
fn pipe(uid: u32, gid: u32) -> Result<(OwnedFd, OwnedFd)> {
    let (read, write) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(exhausted)?;
    // Best effort, both: without them output is slower, or /dev/stderr cannot be reopened.
    let _ = rustix::pipe::fcntl_setpipe_size(&read, PIPE_SIZE);
    let _ = rustix::fs::fchown(
        &write,
        Some(rustix::process::Uid::from_raw(uid)),
        Some(rustix::process::Gid::from_raw(gid)),
    );
    Ok((read, write))
}

fn exhausted(error: Errno) -> Error {
    match error {
        Errno::MFILE | Errno::NFILE => Error::new(
            Code::ResourceExhausted,
            "too many commands run at once in this sandbox; end some first",
        ),
        Errno::AGAIN | Errno::NOMEM => Error::new(
            Code::ResourceExhausted,
            "the sandbox has no process or memory left for another command; end some first",
        ),
        _ => internal("cannot prepare the command", error),
    }
}

/// The descriptors of a new command.
struct Stdio {
    child: Vec<OwnedFd>,
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: Option<OwnedFd>,
}

fn stdio(guest: &Guest, command: &Command, input: Input) -> Result<Stdio> {
    let (uid, gid) = (command.user.uid, command.user.gid);
    if let Input::Terminal(size) = input {
        return terminal(size, uid);
    }
    let (stdout, out) = pipe(uid, gid)?;
    let (stderr, err) = pipe(uid, gid)?;
    let (source, stdin) = if input == Input::Pipe {
        let (source, stdin) = pipe(uid, gid)?;
        (source, Some(stdin))
    } else {
        (rustix::io::fcntl_dupfd_cloexec(&guest.null, 3).map_err(exhausted)?, None)
    };
    Ok(Stdio { child: vec![source, out, err], stdin, stdout, stderr: Some(stderr) })
}

fn terminal(size: PtySize, uid: u32) -> Result<Stdio> {
    use rustix::pty::OpenptFlags;
    let open = || {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags)?;
        rustix::pty::unlockpt(&master)?;
        resize(&master, size)?;
        let slave = raw::open_terminal_peer(master.as_fd())?;
        // Best effort: without it the user cannot open its terminal by name.
        let _ = rustix::fs::fchown(&slave, Some(rustix::process::Uid::from_raw(uid)), None);
        Ok::<_, std::io::Error>((master, slave))
    };
    let (master, slave) = open().map_err(|error| internal("cannot make a terminal", error))?;
    let input = rustix::io::fcntl_dupfd_cloexec(&master, 3).map_err(exhausted)?;
    Ok(Stdio { child: vec![slave], stdin: Some(input), stdout: master, stderr: None })
}

/// Sets a terminal's size.
pub fn resize(master: &OwnedFd, size: PtySize) -> rustix::io::Result<()> {
    let size = rustix::termios::Winsize {
        ws_col: size.cols,
        ws_row: size.rows,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(master, size)
}

/// How a command ended.
#[derive(Debug)]
pub enum End {
    /// With this wait status.
    Status(i32),
    /// It never ran.
    Failed(Error),
}

/// Starts a command. Whether it could be started shows in [`Child::started`] or [`Child::ended`]:
/// nothing waits here, because the command could hold its own supervisor up.
///
/// # Errors
/// When there is no room for it, or the caller asks for what cannot be.
pub fn spawn(guest: &Shared, command: &Command, input: Input) -> Result<Child> {
    let mut plan = plan(guest, command)?;
    let ruleset = ruleset(guest, command)?;
    let stdio = stdio(guest, command, input)?;
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
    .map_err(exhausted)?;
    let fds: Vec<_> = stdio.child.iter().map(AsRawFd::as_raw_fd).collect();
    plan.terminal = fds.len() == 1;
    plan.stdio =
        if let [stdin, stdout, stderr] = fds[..] { [stdin, stdout, stderr] } else { [fds[0]; 3] };
    plan.landlock = ruleset.as_ref().map(AsRawFd::as_raw_fd);
    let drains = [stdio.stdout.as_raw_fd(), stdio.stderr.as_ref().map_or(-1, AsRawFd::as_raw_fd)];
    let supervisor = supervise::fork(&plan, theirs.as_raw_fd(), drains)
        .map_err(|error| exhausted(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)))?;
    guest.supervisors.borrow_mut().insert(supervisor);
    drop((theirs, stdio.child, ruleset));
    let cwd = command.cwd.as_deref().unwrap_or(&command.default_cwd);
    Ok(Child {
        pid: Cell::new(0),
        cwd: cwd.to_owned(),
        stdin: stdio.stdin.map(nonblocking).transpose()?,
        stdout: nonblocking(stdio.stdout)?,
        stderr: stdio.stderr.map(nonblocking).transpose()?,
        guest: Shared::clone(guest),
        supervisor,
        control: nonblocking(ours)?,
        status: Cell::new(None),
        gone: Cell::new(false),
        settled: Cell::new(false),
    })
}

/// Starts a process that goes through every step of `command`'s start and reports itself instead
/// of becoming a program. It needs no supervisor, because nothing of a user's runs in it.
///
/// # Errors
/// When there is no room for it.
pub fn report(guest: &Guest, command: &Command) -> Result<AsyncFd<OwnedFd>> {
    let mut plan = plan(guest, command)?;
    let ruleset = ruleset(guest, command)?;
    let (output, theirs) = pipe(command.user.uid, command.user.gid)?;
    plan.stdio = [guest.null.as_raw_fd(), theirs.as_raw_fd(), theirs.as_raw_fd()];
    plan.landlock = ruleset.as_ref().map(AsRawFd::as_raw_fd);
    let pid = child::fork_report(&plan)
        .map_err(|error| exhausted(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)))?;
    // Not an orphan.
    guest.supervisors.borrow_mut().insert(pid);
    nonblocking(output)
}

fn ruleset(guest: &Guest, command: &Command) -> Result<Option<std::rc::Rc<OwnedFd>>> {
    let ruleset = guest.rulesets.get(guest.landlock, command.user.uid == 0);
    ruleset.map_err(|error| internal("cannot prepare Landlock", error))
}

fn failed(cwd: &str, stage: Stage, error: Errno) -> Error {
    match stage {
        Stage::Directory => {
            let why = match error {
                Errno::NOENT => "does not exist",
                Errno::NOTDIR => "is not a directory",
                Errno::ACCESS => "cannot be entered by this user",
                _ => "cannot be used",
            };
            invalid(format!("the working directory {} {why}", shorten(cwd)))
        }
        Stage::Exec if error == Errno::TOOBIG => too_large(),
        Stage::Fork | Stage::Exec if matches!(error, Errno::AGAIN | Errno::NOMEM) => {
            exhausted(error)
        }
        Stage::User if error == Errno::AGAIN => exhausted(error),
        _ => internal(&format!("cannot start the command ({stage:?})"), error),
    }
}

impl Child {
    async fn report(&self) -> Report {
        loop {
            if self.gone.get() {
                return Report::Gone;
            }
            let Ok(mut ready) = self.control.readable().await else { return Report::Gone };
            let mut record = [0u8; supervise::RECORD];
            let got = ready.try_io(|fd| {
                rustix::net::recv(fd, &mut record[..], RecvFlags::DONTWAIT)
                    .map(|(length, _)| length)
                    .map_err(std::io::Error::from)
            });
            let number = |at: usize| {
                i32::from_ne_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
            };
            match got {
                Err(_not_ready) => {}
                Ok(Ok(supervise::RECORD)) => match number(0) {
                    supervise::STARTED => {
                        self.pid.set(number(4));
                        return Report::Started(number(4));
                    }
                    supervise::FAILED => return Report::Failed(number(4), number(8)),
                    _ => {
                        self.status.set(Some(number(4)));
                        return Report::Exited(number(4));
                    }
                },
                Ok(_) => self.gone.set(true),
            }
        }
    }

    /// Waits until the command runs; gives its process id.
    ///
    /// # Errors
    /// When it cannot be started, or its supervisor does not say so in time.
    pub async fn started(&self) -> Result<u32> {
        let report = tokio::time::timeout(START_PATIENCE, self.report()).await;
        match report {
            Ok(Report::Started(pid)) => Ok(pid.unsigned_abs()),
            Ok(Report::Failed(stage, error)) => Err(self.not_started(stage, error)),
            Ok(Report::Exited(_) | Report::Gone) | Err(_) => {
                self.kill().await;
                Err(internal("cannot start the command", "its supervisor was killed or stopped"))
            }
        }
    }

    fn not_started(&self, stage: i32, error: i32) -> Error {
        self.settled.set(true);
        failed(&self.cwd, Stage::of(stage), Errno::from_raw_os_error(error))
    }

    /// Waits for the command's end. A supervisor that was killed counts as the command killed:
    /// the guest kills what is left of it.
    pub async fn ended(&self) -> End {
        loop {
            if let Some(status) = self.status.get() {
                return End::Status(status);
            }
            match self.report().await {
                Report::Started(_) | Report::Exited(_) => {}
                Report::Failed(stage, error) => {
                    return End::Failed(self.not_started(stage, error));
                }
                Report::Gone => {
                    return End::Status(self.status.get().unwrap_or(libc::SIGKILL));
                }
            }
        }
    }

    fn order(&self, byte: u8) {
        // A supervisor that is gone needs no order.
        let _ = rustix::net::send(&self.control, &[byte], SendFlags::NOSIGNAL);
    }

    /// The command has ended by itself: what it left in the background goes on without the
    /// guest.
    pub fn detach(&self) {
        self.settled.set(true);
        self.order(supervise::DETACH);
    }

    /// Kills the command and everything that it started, and waits until that is done.
    pub async fn kill(&self) {
        self.settled.set(true);
        self.order(supervise::KILL);
        // Commands of the same user (in a rootless sandbox) could have stopped it.
        if self.guest.supervisors.borrow().contains(&self.supervisor) {
            raw::kill(self.supervisor, libc::SIGCONT);
        }
        let gone = async { while self.report().await != Report::Gone {} };
        if tokio::time::timeout(KILL_PATIENCE, gone).await.is_err() {
            // The set still holds it, so the number is not another process's by now.
            if self.guest.supervisors.borrow().contains(&self.supervisor) {
                raw::kill(self.supervisor, libc::SIGKILL);
            }
            let gone = async { while self.report().await != Report::Gone {} };
            let _ = tokio::time::timeout(KILL_PATIENCE, gone).await;
        }
        reaper::reap(&self.guest);
        reaper::sweep(Shared::clone(&self.guest)).await;
    }

    /// Sends a signal to the command's process group. False when it has ended.
    pub fn signal(&self, signal: i32) -> bool {
        self.status.get().is_none()
            && !self.gone.get()
            && self.pid.get() > 0
            && raw::kill(-self.pid.get(), signal)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The closing of the control socket alone makes the supervisor kill; this wakes one that
        // was stopped.
        if !self.settled.get() && self.guest.supervisors.borrow().contains(&self.supervisor) {
            self.order(supervise::KILL);
            raw::kill(self.supervisor, libc::SIGCONT);
        }
    }
}
