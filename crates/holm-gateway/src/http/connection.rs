//! One connection: TLS where there is some, then HTTP/1.1 or HTTP/2, whichever its client speaks.
//!
//! With TLS they agree on it by name (ALPN); without, a client that knows beforehand begins HTTP/2
//! with its preface.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::limits::Limits;
use super::places::Seat;
use super::pulse::Pulse;
use super::server::{Peer, Shared};
use super::streams::Streams;

/// Bytes that are read at once. Files come in such parts; with small ones the way costs more than
/// they do. A head that is over its own bound is refused once it is read.
const READ: usize = 128 << 10;
/// How HTTP/2 begins (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes that one stream, or all of a connection, may have on their way here.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Bytes of one answer that wait for their client.
const SEND_BUFFER: usize = 256 << 10;

/// Serves one connection to its end.
pub(super) async fn serve(shared: &Arc<Shared>, stream: TcpStream, peer: Peer, seat: &Arc<Seat>) {
    let time = shared.limits().head_time;
    let is_begun = AtomicBool::new(false);
    let begun = async {
        match shared.tls() {
            Some(tls) => match timeout(time, tls.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    is_begun.store(true, Ordering::Relaxed);
                    speak(shared, stream, (peer, seat), is_h2).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, "no TLS"),
                Err(_elapsed) => {}
            },
            None => {
                if let Ok(Ok(stream)) = timeout(time, Begun::read(stream)).await {
                    let is_h2 = stream.is_h2();
                    is_begun.store(true, Ordering::Relaxed);
                    speak(shared, stream, (peer, seat), is_h2).await;
                }
            }
        }
    };
    // One that has not begun yet does not hold a stop up.
    tokio::select! {
        biased;
        () = begun => {}
        () = not_begun(shared, &is_begun) => {}
    }
}

async fn not_begun(shared: &Shared, is_begun: &AtomicBool) {
    shared.closing().await;
    if is_begun.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// Who is at the other end, and what its connection has.
type Whose<'a> = (Peer, &'a Arc<Seat>);

async fn speak<S>(shared: &Arc<Shared>, stream: S, whose: Whose<'_>, is_h2: bool)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let limits = shared.limits();
    let stream = TokioIo::new(Pulse::new(stream, limits.write_silence));
    let ended = match is_h2 {
        true => second(shared, stream, whose, limits).await,
        false => first(shared, stream, whose, limits).await,
    };
    if let Err(error) = ended {
        // Concerns its client only, who has gone or does not speak HTTP.
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn first<S>(
    shared: &Arc<Shared>,
    stream: TokioIo<Pulse<S>>,
    (peer, seat): Whose<'_>,
    limits: &Limits,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(|mut request: Request<Incoming>| {
        let (shared, seat) = (Arc::clone(shared), Arc::clone(seat));
        request.extensions_mut().insert(peer);
        async move { Ok::<_, Infallible>(shared.answer(request, &seat).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(READ.max(limits.head_bytes));
    let connection = builder.serve_connection(stream, service).with_upgrades();
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => ended,
        () = shared.closing() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

async fn second<S>(
    shared: &Arc<Shared>,
    stream: TokioIo<Pulse<S>>,
    (peer, seat): Whose<'_>,
    limits: &Limits,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let streams = Streams::default();
    let service = service_fn(|mut request: Request<Incoming>| {
        let (shared, seat) = (Arc::clone(shared), Arc::clone(seat));
        let open = streams.open();
        request.extensions_mut().insert(peer);
        async move {
            let mut response = shared.answer(request, &seat).await;
            response.body_mut().watch(open);
            Ok::<_, Infallible>(response)
        }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.head_time / 3)
        .keep_alive_timeout(limits.head_time / 3)
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .enable_connect_protocol();
    let connection = builder.serve_connection(stream, service);
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = streams.stalled(limits.write_silence) => return Ok(()),
        () = streams.idle(limits.head_time) => {}
        () = shared.closing() => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        ended = connection => ended,
        () = streams.stalled(limits.write_silence) => Ok(()),
    }
}

/// A connection of which the first bytes are read.
struct Begun {
    first: Bytes,
    stream: TcpStream,
}

impl Begun {
    /// Reads as much as it takes to know which HTTP it is.
    async fn read(mut stream: TcpStream) -> io::Result<Self> {
        let (mut first, mut length) = ([0; PREFACE.len()], 0);
        while length < first.len() {
            let read = stream.read(&mut first[length..]).await?;
            length += read;
            if read == 0 || first[..length] != PREFACE[..length] {
                break;
            }
        }
        Ok(Self { first: Bytes::copy_from_slice(&first[..length]), stream })
    }

    fn is_h2(&self) -> bool {
        self.first == PREFACE[..]
    }
}

impl AsyncRead for Begun {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, into);
        }
        let length = self.first.len().min(into.remaining());
        into.put_slice(&self.first[..length]);
        self.first.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Begun {
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
