//! Connections that wait for their next request.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use holm_http::Sender;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::client::conn::http1;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::connect::Stream;
use crate::error::{Error, ErrorKind};

/// Connections that wait at most.
const MOST: usize = 8;
/// How long one waits. Servers and what stands before them close idle connections, and a request
/// that meets such an end may be lost; most wait a minute or more.
const IDLE: Duration = Duration::from_secs(20);
/// How long a connection may take to become free again after its answer was read.
const SETTLE: Duration = Duration::from_millis(200);
/// Bytes of an answer's head at most.
const HEAD: usize = 64 << 10;

/// What is sent: bytes that are there, or that come.
pub(crate) type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// An open connection. Dropping it closes it, with whatever runs on it.
pub(crate) struct Connection {
    pub sender: Sender<Body>,
    /// True where another request was sent on it before.
    pub used: bool,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    pub async fn open(stream: Box<dyn Stream>) -> Result<Self, Error> {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD);
        let (sender, connection) = holm_http::handshake(&builder, stream, HEAD)
            .await
            .map_err(|_| Error::new(ErrorKind::Unreachable, "the connection ended at once"))?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the service ended");
            }
        });
        Ok(Self { sender, used: false, task })
    }
}

/// The waiting connections of one client.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<(Connection, Instant)>>);

impl Pool {
    /// One that can take a request.
    pub async fn take(&self) -> Option<Connection> {
        loop {
            let (mut connection, since) = self.lock().pop()?;
            if since.elapsed() >= IDLE {
                continue;
            }
            if let Ok(Ok(())) = timeout(SETTLE, connection.sender.ready()).await {
                return Some(connection);
            }
        }
    }

    /// Keeps one whose answer was read to its end.
    pub fn give(&self, mut connection: Connection) {
        connection.used = true;
        let mut waiting = self.lock();
        waiting
            .retain(|(connection, since)| !connection.sender.is_closed() && since.elapsed() < IDLE);
        if waiting.len() < MOST && !connection.sender.is_closed() {
            waiting.push((connection, Instant::now()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Connection, Instant)>> {
        // Every change under the lock is one call of the list: it is whole even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
