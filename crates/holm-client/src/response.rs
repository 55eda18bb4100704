//! Answers, read as they come.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName};
use tokio::time::timeout;

use crate::error::{Error, ErrorKind};
use crate::pool::{Connection, Pool};

/// An answer whose head is there. Dropping it before its end closes the connection, which tells the
/// service that nobody waits any more.
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    pub(crate) body: Incoming,
    /// There until the body was read to its end.
    pub(crate) connection: Option<Connection>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) origin: Arc<str>,
}

impl Response {
    /// A header's text.
    #[must_use]
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// True for a stream of events.
    #[must_use]
    pub fn is_events(&self) -> bool {
        let kind = self.header(&CONTENT_TYPE).unwrap_or_default();
        kind.split(';')
            .next()
            .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
    }

    /// The next part of the body, or its end. With `silence` it must come within that time.
    ///
    /// # Errors
    /// `Broken`, `Silent`.
    pub async fn chunk(&mut self, silence: Option<Duration>) -> Result<Option<Bytes>, Error> {
        loop {
            let next = match silence {
                None => self.body.frame().await,
                Some(time) => timeout(time, self.body.frame()).await.map_err(|_| {
                    let text = format!("{} went silent within its answer", self.origin);
                    Error::new(ErrorKind::Silent, text)
                })?,
            };
            match next {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Ok(Some(data)),
                    // Trailers say nothing here.
                    Err(_) => {}
                },
                Some(Err(error)) => {
                    tracing::debug!(%error, "an answer broke off");
                    let text = format!("{} broke off its answer", self.origin);
                    return Err(Error::new(ErrorKind::Broken, text));
                }
                None => {
                    if let Some(connection) = self.connection.take() {
                        self.pool.give(connection);
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// The whole body, of at most `limit` bytes.
    ///
    /// # Errors
    /// `Broken`, `Silent`, `TooLong`.
    pub async fn bytes(&mut self, limit: usize, silence: Duration) -> Result<Bytes, Error> {
        let mut all = BytesMut::new();
        while let Some(chunk) = self.chunk(Some(silence)).await? {
            if all.len() + chunk.len() > limit {
                let text = format!("{} answers more than {limit} bytes", self.origin);
                return Err(Error::new(ErrorKind::TooLong, text));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }
}

impl std::fmt::Debug for Response {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}
