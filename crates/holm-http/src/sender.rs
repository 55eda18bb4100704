//! Requests, each with its bound.

use hyper::body::{Body, Incoming};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::heads::{Heads, Left};

/// How many times a connection's buffer may be read between a request and the head of its answer:
/// the head itself fits into one, and a reader may be two ahead of whoever waits for it.
const BUFFERS: u64 = 4;

/// Sends requests over one connection.
#[derive(Debug)]
pub struct Sender<B> {
    sender: SendRequest<B>,
    left: Left,
    most: u64,
}

/// Opens a connection by the rules of a builder whose `max_buf_size` is `buffer` bytes. Between a
/// request and the head of its answer at most four times as much is read.
///
/// # Errors
/// Those of [`Builder::handshake`].
pub async fn handshake<S, B>(
    builder: &Builder,
    stream: S,
    buffer: usize,
) -> hyper::Result<(Sender<B>, Connection<TokioIo<Heads<S>>, B>)>
where
    S: AsyncRead + AsyncWrite + Unpin,
    B: Body + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let left = Left::free();
    let stream = TokioIo::new(Heads::new(stream, left.clone()));
    let (sender, connection) = builder.handshake(stream).await?;
    let most = u64::try_from(buffer).unwrap_or(u64::MAX).saturating_mul(BUFFERS);
    Ok((Sender { sender, left, most }, connection))
}

impl<B> Sender<B> {
    /// See [`SendRequest::ready`].
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn ready(&mut self) -> hyper::Result<()> {
        self.sender.ready().await
    }

    /// See [`SendRequest::is_ready`].
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// See [`SendRequest::is_closed`].
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl<B: Body + 'static> Sender<B> {
    /// Sends a request, and gives its answer when the head is there.
    ///
    /// # Errors
    /// Those of [`SendRequest::send_request`]; also when too much comes before the head.
    pub fn send_request(
        &mut self,
        request: Request<B>,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + use<B> {
        self.left.begin(self.most);
        let (sent, left) = (self.sender.send_request(request), self.left.clone());
        async move {
            let answer = sent.await;
            left.came();
            answer
        }
    }

    /// The same; gives the request back where nothing of it was sent.
    ///
    /// # Errors
    /// As [`Self::send_request`].
    pub fn try_send_request(
        &mut self,
        request: Request<B>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<B>>>> + use<B> {
        self.left.begin(self.most);
        let (sent, left) = (self.sender.try_send_request(request), self.left.clone());
        async move {
            let answer = sent.await;
            left.came();
            answer
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Empty};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;

    const BUFFER: usize = 16 << 10;
    const GUARD: Duration = Duration::from_secs(60);

    async fn open() -> (Sender<Empty<Bytes>>, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let mut builder = Builder::new();
        builder.max_buf_size(BUFFER);
        let (sender, connection) = handshake(&builder, ours, BUFFER).await.unwrap();
        tokio::spawn(connection);
        (sender, theirs)
    }

    fn request() -> Request<Empty<Bytes>> {
        Request::builder().uri("/").header("host", "a").body(Empty::new()).unwrap()
    }

    async fn asked(server: &mut DuplexStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(server.read_u8().await.unwrap());
        }
    }

    #[tokio::test]
    async fn interim_answers_without_end_break_off() {
        let (mut sender, mut server) = open().await;
        let sent = sender.send_request(request());
        let flood = async {
            asked(&mut server).await;
            let many = b"HTTP/1.1 103 \r\n\r\n".repeat(1000);
            let mut bytes = 0;
            while server.write_all(&many).await.is_ok() {
                bytes += many.len();
            }
            bytes
        };
        let (answer, bytes) =
            tokio::time::timeout(GUARD, async { tokio::join!(sent, flood) }).await.unwrap();
        assert!(answer.is_err());
        assert!(bytes < 4 * BUFFER + (256 << 10), "{bytes}");
    }

    #[tokio::test]
    async fn some_interim_answers_and_large_bodies_pass_again_and_again() {
        let (mut sender, mut server) = open().await;
        let serve = tokio::spawn(async move {
            for _ in 0..20 {
                asked(&mut server).await;
                server.write_all(&b"HTTP/1.1 103 \r\nlink: x\r\n\r\n".repeat(20)).await.unwrap();
                let head = b"HTTP/1.1 200 \r\ncontent-length: 1000000\r\n\r\n";
                server.write_all(head).await.unwrap();
                server.write_all(&vec![7; 1_000_000]).await.unwrap();
            }
        });
        for _ in 0..20 {
            sender.ready().await.unwrap();
            let answer = sender.send_request(request()).await.unwrap();
            // Whoever reads may be late: what is ahead of it is no head.
            tokio::task::yield_now().await;
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body.len(), 1_000_000);
        }
        serve.await.unwrap();
    }
}
