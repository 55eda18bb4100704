//! The sandbox's end as a stream that can be given away, while the connection can still be reset
//! from outside.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::conn::Conn;

/// The sandbox's end, with bytes that were read already.
#[derive(Debug)]
pub(crate) struct Near {
    conn: Arc<Conn>,
    first: Vec<u8>,
    given: usize,
}

impl Near {
    pub(crate) fn new(conn: Arc<Conn>, first: Vec<u8>) -> Self {
        Self { conn, first, given: 0 }
    }
}

impl AsyncRead for Near {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let rest = this.first.get(this.given..).unwrap_or_default();
        if !rest.is_empty() {
            let length = rest.len().min(buffer.remaining());
            buffer.put_slice(rest.get(..length).unwrap_or_default());
            this.given += length;
            if this.given == this.first.len() {
                this.first = Vec::new();
                this.given = 0;
            }
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(this.conn.near.poll_read_ready(context))?;
            match this.conn.near.try_read(buffer.initialize_unfilled()) {
                Ok(length) => {
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Near {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut Writer(&self.conn.near)).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut Writer(&self.conn.near)).poll_shutdown(context)
    }
}

/// Writes to a socket that others have, too.
pub(super) struct Writer<'a>(pub(super) &'a TcpStream);

impl AsyncWrite for Writer<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return Poll::Ready(other),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(rustix::net::shutdown(self.0, rustix::net::Shutdown::Write)?))
    }
}
