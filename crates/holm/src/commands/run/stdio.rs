//! The caller's standard streams, moved by threads of their own.
//!
//! They may be anything (files, pipes whose reader sleeps, terminals), and only a blocking call
//! works on all of them without changing modes that other processes share. The channels hold a
//! few parts, so that a slow side slows the other side instead of filling memory.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::{mpsc, oneshot};

/// Bytes of one read. The guest takes larger ones, but they would not be faster.
const PART: usize = 128 << 10;
/// Parts on their way between a thread and the event loop.
const PARTS: usize = 2;

/// Reads standard input until its end; the channel closes there. The thread cannot be stopped
/// while it waits for input; it ends with the process.
pub(super) fn read_stdin() -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(PARTS);
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut buffer = vec![0; PART];
        // A descriptor that cannot be read (closed, or a directory) is at its end.
        while let Ok(count) = read(rustix::stdio::stdin(), &mut buffer)
            && count > 0
            && sender.blocking_send(buffer[..count].to_vec()).is_ok()
        {}
    })?;
    Ok(receiver)
}

/// One of the output streams. Its thread starts with the first part, because most commands write
/// on one stream or none.
#[derive(Debug)]
pub(super) struct Writer {
    to: fn() -> BorrowedFd<'static>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    parts: mpsc::Sender<Vec<u8>>,
    done: oneshot::Receiver<io::Result<()>>,
}

impl Writer {
    /// To standard output.
    pub(super) fn stdout() -> Self {
        Self { to: rustix::stdio::stdout, running: None }
    }

    /// To standard error.
    pub(super) fn stderr() -> Self {
        Self { to: rustix::stdio::stderr, running: None }
    }

    /// Hands a part over, waiting for room. False when the reader went away.
    pub(super) async fn write(&mut self, part: Vec<u8>) -> io::Result<bool> {
        let running = match &mut self.running {
            Some(running) => running,
            None => self.running.insert(start(self.to)?),
        };
        Ok(running.parts.send(part).await.is_ok())
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// What writing failed with, except that the reader went away.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        let Some(running) = self.running.take() else { return Ok(()) };
        drop(running.parts);
        match running.done.await {
            Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

fn start(to: fn() -> BorrowedFd<'static>) -> io::Result<Running> {
    let (parts, mut receiver) = mpsc::channel::<Vec<u8>>(PARTS);
    let (sender, done) = oneshot::channel();
    std::thread::Builder::new().name("output".into()).spawn(move || {
        let mut result = Ok(());
        while result.is_ok()
            && let Some(part) = receiver.blocking_recv()
        {
            result = write_all(to(), &part);
        }
        // Closed before the result is there, so that a writer sees that nobody reads.
        drop(receiver);
        let _ = sender.send(result);
    })?;
    Ok(Running { parts, done })
}

/// Descriptors may have been made non-blocking by whoever shares them, hence the waits.
fn read(from: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::io::read(from, &mut *buffer) {
            Ok(count) => return Ok(count),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => wait(from, PollFlags::IN)?,
            Err(error) => return Err(error.into()),
        }
    }
}

fn write_all(to: BorrowedFd<'_>, mut part: &[u8]) -> io::Result<()> {
    while !part.is_empty() {
        match rustix::io::write(to, part) {
            Ok(count) => part = &part[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => wait(to, PollFlags::OUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn wait(on: BorrowedFd<'_>, flags: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::from_borrowed_fd(on, flags)], None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
