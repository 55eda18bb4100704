//! A raw connection to a port inside.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use super::ClientError;
use super::files::failure;
use super::pool::{self, GuestClient};
use crate::paths;

/// Longest wait for the guest, which itself gives each of two addresses 5 seconds.
const BEGIN: Duration = Duration::from_secs(15);

/// Bytes to and from a program inside. What comes may be anything.
#[derive(Debug)]
pub struct Tunnel {
    /// What the program said before the way was clear.
    first: Bytes,
    stream: UnixStream,
}

impl GuestClient {
    /// Connects to a port on 127.0.0.1 inside, else on ::1.
    ///
    /// # Errors
    /// `Unavailable` of the guest where nothing listens; see [`ClientError`].
    pub async fn tunnel(&self, port: u16) -> Result<Tunnel, ClientError> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}?port={port}", paths::guest::TUNNEL))
            .header(header::HOST, "guest")
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, paths::guest::TUNNEL_PROTOCOL)
            .body(pool::full(Bytes::new()))
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        let began = async {
            let (response, mut connection) = self.send(request).await?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                let failure = failure(response).await;
                if matches!(failure, ClientError::Guest(_)) {
                    connection.release();
                }
                return Err(failure);
            }
            Ok(hyper::upgrade::on(response).await?)
        };
        let upgraded = pool::within(BEGIN, began).await?;
        let parts = upgraded.downcast::<TokioIo<UnixStream>>().map_err(|_other| {
            ClientError::Protocol("the connection is not the guest's".to_owned())
        })?;
        Ok(Tunnel { first: parts.read_buf, stream: parts.io.into_inner() })
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let length = self.first.len().min(into.remaining());
            into.put_slice(&self.first[..length]);
            self.first.advance(length);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
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

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
