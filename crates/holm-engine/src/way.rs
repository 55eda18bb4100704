//! A connection to a port of a sandbox, whichever way it goes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use holm_wire::client::{ClientError, Tunnel};
use holm_wire::connect::Code;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::direct::Tried;
use crate::port::NotConnected;
use crate::sandbox::Sandbox;
use crate::{Engine, health};

/// Bytes to and from a program inside. What comes may be anything.
#[derive(Debug)]
pub enum Way {
    /// Straight to it.
    Direct(TcpStream),
    /// Through the guest.
    Tunnel(Tunnel),
}

impl Engine {
    /// The best way there is.
    pub(crate) async fn way(
        &self,
        sandbox: &Arc<Sandbox>,
        number: u16,
    ) -> Result<Way, NotConnected> {
        match self.direct(sandbox, number).await {
            Tried::Connected(stream) => Ok(Way::Direct(stream)),
            Tried::Refused => Err(NotConnected::Refused),
            Tried::NoWay => self.tunnel(sandbox, number).await.map(Way::Tunnel),
        }
    }

    async fn tunnel(&self, sandbox: &Arc<Sandbox>, number: u16) -> Result<Tunnel, NotConnected> {
        let Ok(guest) = sandbox.guest() else { return Err(NotConnected::Unreachable) };
        match guest.tunnel(number).await {
            Ok(tunnel) => Ok(tunnel),
            Err(ClientError::Guest(said)) if said.code == Code::Unavailable => {
                Err(NotConnected::Refused)
            }
            Err(error) => {
                tracing::debug!(id = %sandbox.id, number, ?error, "no way to a port");
                health::check_later(self, sandbox);
                Err(NotConnected::Unreachable)
            }
        }
    }
}

impl AsyncRead for Way {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Direct(stream) => Pin::new(stream).poll_read(context, into),
            Self::Tunnel(tunnel) => Pin::new(tunnel).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Way {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Direct(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tunnel(tunnel) => Pin::new(tunnel).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Direct(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::Tunnel(tunnel) => Pin::new(tunnel).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Direct(stream) => stream.is_write_vectored(),
            Self::Tunnel(tunnel) => tunnel.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Direct(stream) => Pin::new(stream).poll_flush(context),
            Self::Tunnel(tunnel) => Pin::new(tunnel).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Direct(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tunnel(tunnel) => Pin::new(tunnel).poll_shutdown(context),
        }
    }
}
