//! A stream that counts what is read while a head is waited for.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Nothing is waited for.
const FREE: u64 = u64::MAX;

/// What may still be read; shared by a stream and its sender.
#[derive(Debug, Clone)]
pub(crate) struct Left(Arc<AtomicU64>);

impl Left {
    pub(crate) fn free() -> Self {
        Self(Arc::new(AtomicU64::new(FREE)))
    }

    /// A request goes out.
    pub(crate) fn begin(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Release);
    }

    /// The head of its answer is there, or none will come.
    pub(crate) fn came(&self) {
        self.0.store(FREE, Ordering::Release);
    }

    /// Takes note of what was read. False when that is too much.
    fn took(&self, bytes: u64) -> bool {
        let less = |left: u64| (left != FREE).then(|| left.saturating_sub(bytes));
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
            Ok(before) => before > bytes,
            Err(_free) => true,
        }
    }
}

/// A stream whose reads fail when too much comes before a head.
#[derive(Debug)]
pub struct Heads<S> {
    stream: S,
    left: Left,
}

impl<S> Heads<S> {
    pub(crate) fn new(stream: S, left: Left) -> Self {
        Self { stream, left }
    }

    /// The stream itself, when HTTP is over.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().len().saturating_sub(before);
        if self.left.took(u64::try_from(read).unwrap_or(FREE)) {
            return Poll::Ready(Ok(()));
        }
        let text = "more came before the head of an answer than a head has";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heads<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
