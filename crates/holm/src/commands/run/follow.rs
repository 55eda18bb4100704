//! Moves bytes and signals between the caller and the command until one of them ends it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use holm_engine::FirstCall;
use holm_runtime::BoxFuture;
use holm_wire::client::{ClientError, EventStream, GuestClient};
use holm_wire::process::{DataEvent, EndEvent, ProcessEvent, ProcessInput, StartRequest};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::signals::{Forwarded, Signals, Told};
use super::stdio::{self, Writer};
use super::{Target, terminal};
use crate::exit::{self, Failure};

/// A second signal within this time ends the command.
const IMPATIENCE: Duration = Duration::from_secs(1);
/// How long a command may take to end after a signal that is meant to end it.
const GRACE: Duration = Duration::from_secs(10);
const SIGPIPE: u8 = 13;

/// What is followed.
#[derive(Debug)]
pub(super) struct Work<'a> {
    pub guest: &'a GuestClient,
    /// The command has a terminal.
    pub pty: bool,
    pub timeout: Option<Duration>,
    /// When it was asked to start.
    pub begin: Instant,
}

impl Work<'_> {
    fn deadline(&self) -> Option<Instant> {
        self.timeout.map(|limit| self.begin + limit)
    }

    fn timed_out(&self) -> Failure {
        let limit = self.timeout.unwrap_or_default();
        let text = format!("the command did not end within {limit:?} and was ended");
        Failure::new(text).code(exit::TIMED_OUT)
    }

    /// Waits until the command runs. A command may hold its own start up.
    ///
    /// # Errors
    /// When the time is over before.
    pub async fn started(
        &self,
        starting: Starting,
    ) -> Result<Result<EventStream, ClientError>, Failure> {
        tokio::select! {
            started = starting.stream => started
                .map_err(|_lost| Failure::new("the command's start was given up")),
            () = passed(self.deadline()) => Err(self.timed_out()),
        }
    }
}

/// A command that is being started.
pub(super) struct Starting {
    begin: Arc<OnceLock<Instant>>,
    stream: oneshot::Receiver<Result<EventStream, ClientError>>,
}

impl Starting {
    /// When the guest was asked.
    pub fn begin(&self) -> Instant {
        *self.begin.get_or_init(Instant::now)
    }
}

/// The call that starts the command, for a guest that is there soon.
pub(super) fn start(request: StartRequest, user: String) -> (FirstCall, Starting) {
    let (sender, stream) = oneshot::channel();
    let starting = Starting { begin: Arc::default(), stream };
    let begin = Arc::clone(&starting.begin);
    let call = move |guest: GuestClient| -> BoxFuture<'static, ()> {
        begin.get_or_init(Instant::now);
        Box::pin(async move {
            // Nobody waits where the sandbox could not be made after all.
            let _ = sender.send(guest.start(&request, &user).await);
        })
    };
    (Box::new(call), starting)
}

/// How it ended.
#[derive(Debug)]
pub(super) enum Verdict {
    /// With this exit code for holm.
    Code(u8),
    /// The guest refused, or stopped answering.
    Failed(ClientError),
}

/// How the stream of the command's events ended.
enum Streamed {
    End(EndEvent),
    Failed(ClientError),
    /// Nobody reads the output and the command goes on writing.
    Unread,
    /// The output cannot be written.
    Unwritable(std::io::Error),
}

/// Follows the command to its end, or ends it.
pub(super) async fn follow(
    work: Work<'_>,
    mut stream: EventStream,
    signals: &mut Signals,
) -> Result<Verdict, Failure> {
    let first = tokio::select! {
        first = stream.next() => first,
        () = passed(work.deadline()) => return Err(work.timed_out()),
    };
    let pid = match first {
        Ok(Some(ProcessEvent::Start(start))) => start.pid,
        Ok(Some(ProcessEvent::End(end))) => return Ok(Verdict::Code(code_of(&end))),
        Ok(_) => return Ok(Verdict::Failed(ClientError::Protocol("no start event".to_owned()))),
        Err(error) => return Ok(Verdict::Failed(error)),
    };
    let target = Target { guest: work.guest.clone(), pid };
    let raw = match work.pty.then(terminal::Raw::enter) {
        Some(Ok(raw)) => Some(raw),
        Some(Err(error)) => {
            return Err(Failure::new(format!("cannot change the terminal's modes: {error}")));
        }
        None => None,
    };
    let mut outputs = Outputs::new();
    let verdict = converse(&target, &work, &mut stream, &mut outputs, signals).await;
    // Whoever sends a signal now does not want to wait for a reader that does not read.
    let flushed = tokio::select! {
        flushed = outputs.finish() => flushed,
        _told = signals.forwarded() => Ok(()),
    };
    drop(raw);
    flushed.map_err(|error| unwritable(&error))?;
    verdict
}

async fn converse(
    target: &Target,
    work: &Work<'_>,
    stream: &mut EventStream,
    outputs: &mut Outputs,
    signals: &mut Signals,
) -> Result<Verdict, Failure> {
    let (undelivered_sender, mut undelivered) = mpsc::channel(1);
    let pump = pump(stream, outputs, target);
    let feed = feed(target, work.pty);
    tokio::pin!(pump, feed);
    let mut fed = false;
    // The signal that ends the command, and when at the latest.
    let mut ending: Option<(Forwarded, Instant)> = None;
    let mut last: Option<Instant> = None;
    loop {
        tokio::select! {
            biased;
            told = signals.next() => match told {
                Told::Resized if work.pty => resize(target),
                Told::Resized => {}
                Told::Forward(signal) => {
                    let now = Instant::now();
                    if last.is_some_and(|before| now - before < IMPATIENCE) {
                        return Ok(Verdict::Code(exit::SIGNAL_BASE + signal.number()));
                    }
                    last = Some(now);
                    if signal.is_final() && ending.is_none() {
                        ending = Some((signal, now + GRACE));
                    }
                    deliver(target, signal, undelivered_sender.clone());
                }
            },
            // A command that cannot be signalled is ending by itself, or has to be ended.
            Some(signal) = undelivered.recv() => {
                ending = Some((signal, Instant::now() + IMPATIENCE));
            }
            streamed = &mut pump => return match streamed {
                Streamed::End(end) => Ok(Verdict::Code(code_of(&end))),
                Streamed::Failed(error) => Ok(Verdict::Failed(error)),
                Streamed::Unread => Ok(Verdict::Code(exit::SIGNAL_BASE + SIGPIPE)),
                Streamed::Unwritable(error) => Err(unwritable(&error)),
            },
            () = &mut feed, if !fed => fed = true,
            () = passed(work.deadline()) => return Err(work.timed_out()),
            () = passed(ending.map(|(_, at)| at)) => {
                let number = ending.map_or(0, |(signal, _)| signal.number());
                return Ok(Verdict::Code(exit::SIGNAL_BASE + number));
            }
        }
    }
}

async fn passed(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn unwritable(error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write the command's output: {error}"))
}

/// The low eight bits, as every parent of a process sees them.
fn code_of(end: &EndEvent) -> u8 {
    end.exit_code.to_le_bytes()[0]
}

fn deliver(target: &Target, signal: Forwarded, undelivered: mpsc::Sender<Forwarded>) {
    let target = target.clone();
    tokio::spawn(async move {
        if let Err(error) = target.guest.send_signal(target.pid, signal.name()).await {
            tracing::debug!(%error, ?signal, "a signal was not delivered");
            let _ = undelivered.send(signal).await;
        }
    });
}

fn resize(target: &Target) {
    let target = target.clone();
    tokio::spawn(async move {
        if let Err(error) = target.guest.resize(target.pid, terminal::size()).await {
            tracing::debug!(%error, "the terminal was not resized");
        }
    });
}

/// Passes standard input on until its end, one part at a time: the guest answers when the command
/// has taken it.
async fn feed(target: &Target, pty: bool) {
    // A job in the background of a shell, or below `timeout`: there is no input for it.
    if terminal::is_anothers() {
        tracing::debug!("the terminal belongs to another job; the command's input is empty");
        let _ = target.guest.close_stdin(target.pid).await;
        return;
    }
    let mut parts = match stdio::read_stdin() {
        Ok(parts) => parts,
        Err(error) => {
            tracing::warn!(%error, "standard input cannot be read");
            let _ = target.guest.close_stdin(target.pid).await;
            return;
        }
    };
    while let Some(part) = parts.recv().await {
        let input = if pty { ProcessInput::Pty(part) } else { ProcessInput::Stdin(part) };
        if let Err(error) = target.guest.send_input(target.pid, input).await {
            // The command closed its input or has ended; both are its right.
            tracing::debug!(%error, "the command takes no more input");
            return;
        }
    }
    // A terminal has no end of input of its own; the terminal's driver inside makes one of ^D.
    if !pty && let Err(error) = target.guest.close_stdin(target.pid).await {
        tracing::debug!(%error, "the command's input was not closed");
    }
}

struct Outputs {
    stdout: Writer,
    stderr: Writer,
}

impl Outputs {
    fn new() -> Self {
        Self { stdout: Writer::stdout(), stderr: Writer::stderr() }
    }

    async fn finish(&mut self) -> std::io::Result<()> {
        let out = self.stdout.finish().await;
        let err = self.stderr.finish().await;
        out.and(err)
    }
}

/// Passes output on. A part is taken from the guest when the one before has found room, so that a
/// slow reader slows the command.
async fn pump(stream: &mut EventStream, outputs: &mut Outputs, target: &Target) -> Streamed {
    let mut unread_since: Option<Instant> = None;
    loop {
        let (writer, part) = match stream.next().await {
            Ok(Some(ProcessEvent::Data(DataEvent::Stdout(part) | DataEvent::Pty(part)))) => {
                (&mut outputs.stdout, part)
            }
            Ok(Some(ProcessEvent::Data(DataEvent::Stderr(part)))) => (&mut outputs.stderr, part),
            Ok(Some(ProcessEvent::End(end))) => return Streamed::End(end),
            Ok(Some(ProcessEvent::Start(_) | ProcessEvent::Keepalive(_))) => continue,
            Ok(None) => return Streamed::Failed(ClientError::Protocol("no end event".to_owned())),
            Err(error) => return Streamed::Failed(error),
        };
        if unread_since.is_some_and(|since| since.elapsed() > IMPATIENCE) {
            return Streamed::Unread;
        }
        match writer.write(part).await {
            Ok(true) => {}
            Ok(false) => {
                // A full disk is an error; a reader that has gone is what the command is told
                // of, as the kernel would have told it.
                if let Err(error) = writer.finish().await {
                    return Streamed::Unwritable(error);
                }
                if unread_since.is_none() {
                    unread_since = Some(Instant::now());
                    let _ = target.guest.send_signal(target.pid, "SIGNAL_SIGPIPE").await;
                }
            }
            Err(error) => return Streamed::Unwritable(error),
        }
    }
}
