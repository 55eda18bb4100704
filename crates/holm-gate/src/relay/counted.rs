//! The sandbox's end where something else than the relay moves its bytes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::{Meter, Way};

/// The sandbox's end, with its bytes counted and its bandwidth kept to.
pub(crate) struct Counted<S> {
    near: S,
    meter: Arc<Meter>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S> Counted<S> {
    pub(crate) fn new(near: S, meter: Arc<Meter>) -> Self {
        Self { near, meter, pause: None }
    }

    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        Poll::Ready(())
    }

    fn count(&mut self, way: Way, bytes: usize) {
        let pause = self.meter.moved(way, bytes);
        self.pause = pause.map(|pause| Box::pin(tokio::time::sleep(pause)));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_pause(context));
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.near).poll_read(context, buffer))?;
        this.count(Way::Out, buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_pause(context));
        let piece = bytes.get(..this.meter.chunk()).unwrap_or(bytes);
        let written = ready!(Pin::new(&mut this.near).poll_write(context, piece))?;
        this.count(Way::In, written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.near).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.near).poll_shutdown(context)
    }
}
