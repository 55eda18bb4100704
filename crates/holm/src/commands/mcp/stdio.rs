//! The caller's standard input and output, moved by the event loop itself where they are pipes or
//! sockets.
//!
//! Every message passes here twice. `tokio::io::stdin()` and `stdout()` hand each read, write and
//! flush to another thread, which costs more than the message. So readiness is waited for, and
//! then one call is made that never waits. That call says so itself: the non-blocking mode of the
//! descriptor is never touched, because it belongs to everybody who shares the pipe (standard
//! error with `2>&1`, a parent shell) and would break their plain writes.
//!
//! What cannot be waited for (files, `/dev/null`), or knows no call that does not wait (terminals,
//! named pipes, pipes before Linux 6.4), goes the old way. Which it is shows with the first call.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Stdin, Stdout};

use crate::sys;

/// Bytes of one read at most: what a pipe holds.
const PART: usize = 64 << 10;
/// The offset that means the place where the descriptor is, as a stream wants it.
const HERE: u64 = u64::MAX;

/// Standard input.
#[derive(Debug)]
pub(super) struct Input {
    way: Way<Stdin>,
    /// Filled once and used again, so that no read has to clear a buffer first.
    part: Vec<u8>,
}

/// Standard output. Nothing is kept back: what was taken is written.
#[derive(Debug)]
pub(super) struct Output {
    way: Way<Stdout>,
}

#[derive(Debug)]
enum Way<T> {
    /// Waits in the event loop.
    Polled(Polled),
    /// Waits in other threads.
    Blocking(T),
}

#[derive(Debug)]
struct Polled {
    fd: AsyncFd<BorrowedFd<'static>>,
    is_socket: bool,
}

impl Input {
    /// The process's standard input. There must be one only, and it needs an event loop.
    pub(super) fn new() -> Self {
        let polled = Polled::new(rustix::stdio::stdin(), Interest::READABLE);
        let way = polled.map_or_else(|| Way::Blocking(tokio::io::stdin()), Way::Polled);
        Self { way, part: vec![0; PART] }
    }
}

impl Output {
    /// The process's standard output. There must be one only, and it needs an event loop.
    pub(super) fn new() -> Self {
        let polled = Polled::new(rustix::stdio::stdout(), Interest::WRITABLE);
        Self { way: polled.map_or_else(|| Way::Blocking(tokio::io::stdout()), Way::Polled) }
    }
}

impl Polled {
    /// Nothing where the descriptor cannot be polled.
    fn new(fd: BorrowedFd<'static>, interest: Interest) -> Option<Self> {
        let kind = FileType::from_raw_mode(fstat(fd).ok()?.st_mode);
        let fd = sys::watched(fd, interest).ok()?;
        Some(Self { fd, is_socket: kind == FileType::Socket })
    }

    fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let fd = self.fd.get_ref();
        if self.is_socket {
            // Kernels before 6.5 know no other call for sockets.
            return recv(fd, into, RecvFlags::DONTWAIT).map(|(count, _)| count);
        }
        preadv2(fd, &mut [IoSliceMut::new(into)], HERE, ReadWriteFlags::NOWAIT)
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let fd = self.fd.get_ref();
        if self.is_socket {
            return send(fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        pwritev2(fd, &[IoSlice::new(bytes)], HERE, ReadWriteFlags::NOWAIT)
    }
}

/// True where a descriptor, or the kernel, has no such call that does not wait.
fn is_unknown(error: Errno) -> bool {
    matches!(error, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { way, part } = self.get_mut();
        loop {
            let polled = match way {
                Way::Polled(polled) => polled,
                Way::Blocking(stdin) => return Pin::new(stdin).poll_read(context, into),
            };
            let mut ready = ready!(polled.fd.poll_read_ready(context))?;
            let room = into.remaining().min(part.len());
            match polled.read(&mut part[..room]) {
                Ok(count) => {
                    into.put_slice(&part[..count]);
                    return Poll::Ready(Ok(()));
                }
                // Only this says that it is empty: a short read may have ended at a boundary that
                // the sender made, and then nothing would wake us for what lies behind it.
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) if is_unknown(error) => *way = Way::Blocking(tokio::io::stdin()),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let way = &mut self.get_mut().way;
        loop {
            let polled = match way {
                Way::Polled(polled) => polled,
                Way::Blocking(stdout) => return Pin::new(stdout).poll_write(context, bytes),
            };
            let mut ready = ready!(polled.fd.poll_write_ready(context))?;
            match polled.write(bytes) {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) if is_unknown(error) => *way = Way::Blocking(tokio::io::stdout()),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().way {
            Way::Polled(_) => Poll::Ready(Ok(())),
            Way::Blocking(stdout) => Pin::new(stdout).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().way {
            Way::Polled(_) => Poll::Ready(Ok(())),
            Way::Blocking(stdout) => Pin::new(stdout).poll_shutdown(context),
        }
    }
}
