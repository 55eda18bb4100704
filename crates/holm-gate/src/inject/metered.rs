//! The sandbox's side of a connection that is opened: counted like any other.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::counters::count;
use crate::state::State;

/// When bytes moved last.
#[derive(Debug)]
pub(super) struct Activity {
    started: Instant,
    /// Milliseconds after that.
    moved: AtomicU64,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), moved: AtomicU64::new(0) })
    }

    fn note(&self) {
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved.store(elapsed, Ordering::Relaxed);
    }

    /// Waits until nothing has moved for so long.
    pub(super) async fn idle(&self, limit: Duration) {
        loop {
            let moved = Duration::from_millis(self.moved.load(Ordering::Relaxed));
            let end = self.started + moved + limit;
            if end <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

/// A stream of the sandbox.
pub(super) struct Metered<S> {
    stream: S,
    state: Arc<State>,
    activity: Arc<Activity>,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, state: Arc<State>, activity: Arc<Activity>) -> Self {
        Self { stream, state, activity }
    }

    fn moved(&self, counter: &AtomicU64, bytes: usize) {
        count(counter, u64::try_from(bytes).unwrap_or(u64::MAX));
        self.activity.note();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        if bytes > 0 {
            self.moved(&self.state.tally.bytes_out, bytes);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(bytes)) = polled {
            self.moved(&self.state.tally.bytes_in, bytes);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
