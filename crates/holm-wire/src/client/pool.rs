//! Connections to one guest, kept for reuse.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use holm_http::Sender;
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use tokio::net::UnixStream;

use super::ClientError;

pub(super) type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// Connections kept open while idle.
const MAX_IDLE: usize = 4;
/// Most bytes that are read at once, which bounds a response's head as well. Files come in such
/// parts.
const MAX_READ: usize = 256 << 10;

/// Bounds of one call.
#[derive(Debug, Clone, Copy)]
pub struct CallLimits {
    /// From the first byte sent to the last byte received.
    pub deadline: Duration,
    /// Most bytes of the response's body.
    pub max_response: usize,
}

impl Default for CallLimits {
    /// 10 s, 4 MiB: enough for every call that does not run a program or move a file.
    fn default() -> Self {
        Self { deadline: Duration::from_secs(10), max_response: 4 << 20 }
    }
}

/// A client of one guest. Cheap to clone; all clones share the idle connections.
#[derive(Debug, Clone)]
pub struct GuestClient {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    socket: PathBuf,
    idle: Mutex<Vec<Sender<Body>>>,
}

/// Keeps a connection alive while its response is being read. Dropping it before the end closes
/// the connection, which tells the guest that nobody waits.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    sender: Option<Sender<Body>>,
    shared: Arc<Shared>,
}

impl ConnectionGuard {
    /// The body was read to its end: the connection may serve again.
    pub fn release(&mut self) {
        if let Some(sender) = self.sender.take() {
            self.shared.put(sender);
        }
    }
}

impl Shared {
    fn put(&self, sender: Sender<Body>) {
        let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !sender.is_closed() && idle.len() < MAX_IDLE {
            idle.push(sender);
        }
    }

    fn take(&self) -> Option<Sender<Body>> {
        let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        while let Some(sender) = idle.pop() {
            if !sender.is_closed() && sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }
}

impl GuestClient {
    /// A client of the guest that listens on `socket`. Nothing is opened yet.
    #[must_use]
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { shared: Arc::new(Shared { socket: socket.into(), idle: Mutex::default() }) }
    }

    /// The guest's socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.shared.socket
    }

    async fn connect(&self) -> Result<Sender<Body>, ClientError> {
        let stream = UnixStream::connect(&self.shared.socket)
            .await
            .map_err(|error| ClientError::Unreachable(error.into()))?;
        own_user()
            .and_then(|own| made_by(&stream, own))
            .map_err(|error| ClientError::Unreachable(error.into()))?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_READ);
        let (sender, connection) = holm_http::handshake(&builder, stream, MAX_READ).await?;
        tokio::spawn(async move {
            // An error here is also seen, with its context, by whoever waits for the response.
            let _ = connection.with_upgrades().await;
        });
        Ok(sender)
    }

    /// Sends one request and waits for the head of its response. No deadline of its own.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<(Response<Incoming>, ConnectionGuard), ClientError> {
        let mut sender = match self.shared.take() {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let shared = Arc::clone(&self.shared);
        Ok((response, ConnectionGuard { sender: Some(sender), shared }))
    }
}

/// The user of this process, as a socket tells it. In an async runtime only.
fn own_user() -> std::io::Result<u32> {
    static OWN: OnceLock<u32> = OnceLock::new();
    if let Some(own) = OWN.get() {
        return Ok(*own);
    }
    let own = UnixStream::pair()?.0.peer_cred()?.uid();
    Ok(*OWN.get_or_init(|| own))
}

/// Sockets of guests are made by the launcher, not by anybody inside. What is sent there, commands
/// and their environment, is for nobody else.
fn made_by(stream: &UnixStream, uid: u32) -> std::io::Result<()> {
    if stream.peer_cred()?.uid() == uid {
        return Ok(());
    }
    Err(std::io::Error::other("another user made the guest's socket"))
}

/// A body that is already there.
pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Reads a body up to `limit` bytes.
pub(super) async fn collect(body: Incoming, limit: usize) -> Result<Bytes, ClientError> {
    match http_body_util::Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(ClientError::Protocol(format!("the reply is over the limit of {limit} bytes")))
        }
        Err(error) => Err(ClientError::Unreachable(error)),
    }
}

/// Runs `call` under a deadline.
pub(super) async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    match tokio::time::timeout(deadline, call).await {
        Ok(result) => result,
        Err(_elapsed) => Err(ClientError::Deadline(deadline.as_millis())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_another_user_is_no_guests() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let _inside = runtime.enter();
        let (stream, _other) = UnixStream::pair().unwrap();
        let own = own_user().unwrap();
        assert!(made_by(&stream, own).is_ok());
        assert!(made_by(&stream, own + 1).is_err());
    }
}
