//! Connecting to what a sandbox may reach: directly, or by way of the host's proxy.

mod connect;
mod proxy;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::client::TlsStream;

use crate::policy::HostName;
use crate::uplink::Uplink;

pub use proxy::{Proxy, ProxyError};

/// Bytes that the kernel buffers each way of a connection that is not among a sandbox's first.
const SMALL_BUFFER: usize = 64 * 1024;
/// Most bytes that it keeps unread of one that is. Newer kernels would keep many times as much.
const LARGE_BUFFER: usize = 2 * 1024 * 1024;

/// A connection to the outside.
#[derive(Debug)]
pub(crate) enum Far {
    /// A plain socket, also one through a proxy that is spoken to plainly.
    Plain(TcpStream),
    /// Through a proxy that is spoken to by TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

/// What is dialled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The address, already checked.
    pub(crate) address: SocketAddr,
    /// The name by which a rule permits it, if one had to.
    pub(crate) by_name: Option<&'a HostName>,
    /// Whether the kernel may give it large buffers.
    pub(crate) wide: bool,
}

/// Connects within the time that is allowed.
///
/// # Errors
/// When there is no connection.
pub(crate) async fn dial(uplink: &Uplink, target: Target<'_>) -> io::Result<Far> {
    let work = async {
        match uplink.proxy().filter(|proxy| proxy.is_for(&target)) {
            Some(proxy) => connect::through(proxy, target).await,
            None => direct(target.address, target.wide).await.map(Far::Plain),
        }
    };
    let late = || io::Error::from(io::ErrorKind::TimedOut);
    tokio::time::timeout(uplink.limits().connect, work).await.map_err(|_| late())?
}

/// A connection to an address.
async fn direct(address: SocketAddr, wide: bool) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    buffers(&socket, wide)?;
    // Dropped before its time, as when the sandbox's end is reset, it is reset.
    socket.set_zero_linger()?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    // A host that has vanished is noticed long before the idle bound.
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, Duration::from_secs(60))?;
    sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(30))?;
    sockopt::set_tcp_keepcnt(&stream, 4)?;
    Ok(stream)
}

/// Bounds what the kernel buffers for a connection.
pub(crate) fn buffers(socket: impl AsFd, wide: bool) -> io::Result<()> {
    if wide {
        // Without the right to say so the kernel goes on choosing.
        let _as_it_is = sockopt::set_socket_recv_buffer_size_force(&socket, LARGE_BUFFER);
        return Ok(());
    }
    sockopt::set_socket_send_buffer_size(&socket, SMALL_BUFFER)?;
    Ok(sockopt::set_socket_recv_buffer_size(&socket, SMALL_BUFFER)?)
}

impl Far {
    /// Ends in order when it is dropped, where it would be reset.
    pub(crate) fn keep_what_is_sent(&self) {
        if let Self::Plain(socket) = self {
            let _kept = sockopt::set_socket_linger(socket, None);
        }
    }
}

impl AsyncRead for Far {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Far {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
