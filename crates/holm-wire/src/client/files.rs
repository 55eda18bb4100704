//! Files up and down, streamed.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use holm_http::with_query;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};

use super::ClientError;
use super::calls::error_of;
use super::pool::{self, ConnectionGuard, GuestClient};
use crate::{guest, paths};

/// Longest silence while a file is moved.
pub(super) const IDLE: Duration = Duration::from_secs(30);

/// A file on its way down.
#[derive(Debug)]
pub struct FileBody {
    /// The whole file's size when it was opened.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    body: Incoming,
    connection: ConnectionGuard,
}

impl FileBody {
    /// Of a stream without a size of its own.
    pub(super) fn new(body: Incoming, connection: ConnectionGuard) -> Self {
        Self { size: 0, mode: 0, body, connection }
    }

    /// How many bytes come, where the guest has said so.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// When the guest stops sending for 30 s, or goes away.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let read = async { Ok(self.body.frame().await) };
            match pool::within(IDLE, read).await? {
                None => {
                    self.connection.release();
                    return Ok(None);
                }
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// Everything, up to `limit` bytes.
    ///
    /// # Errors
    /// As [`Self::next`]; also when there is more than `limit`.
    pub async fn read_to_end(mut self, limit: usize) -> Result<Vec<u8>, ClientError> {
        let mut all = Vec::new();
        while let Some(part) = self.next().await? {
            if all.len() + part.len() > limit {
                let text = format!("the file sent more than the {limit} bytes asked for");
                return Err(ClientError::Protocol(text));
            }
            all.extend_from_slice(&part);
        }
        Ok(all)
    }
}

impl GuestClient {
    /// Asks for what is read part by part.
    pub(super) async fn open(
        &self,
        uri: String,
    ) -> Result<(Response<Incoming>, ConnectionGuard), ClientError> {
        let request = Request::builder().method(Method::GET).uri(uri);
        let request = request.header(header::HOST, "guest").body(pool::full(Bytes::new()));
        let request = request.map_err(|error| ClientError::Protocol(error.to_string()))?;
        let (response, connection) = pool::within(IDLE, self.send(request)).await?;
        if response.status() != StatusCode::OK {
            return Err(failure(response).await);
        }
        Ok((response, connection))
    }

    /// Opens a file for reading, from `offset`, at most `limit` bytes (0: all).
    ///
    /// # Errors
    /// See [`ClientError`]. Only regular files are read.
    pub async fn read_file(
        &self,
        path: &str,
        user: &str,
        offset: u64,
        limit: u64,
    ) -> Result<FileBody, ClientError> {
        let query = [("path", path), ("user", user)];
        let mut uri = with_query(paths::guest::FILE, &query);
        let _ = write!(uri, "&offset={offset}&limit={limit}");
        let (response, connection) = self.open(uri).await?;
        let number = |name: &str, radix| {
            let value = response.headers().get(name).and_then(|v| v.to_str().ok());
            u64::from_str_radix(value.unwrap_or("0"), radix).unwrap_or(0)
        };
        let size = number("x-holm-size", 10);
        let mode = u32::try_from(number("x-holm-mode", 8)).unwrap_or(0);
        Ok(FileBody { size, mode, body: response.into_body(), connection })
    }

    /// Writes a file atomically: readers see the old content or the new, never a part. Missing
    /// directories are made. `mode` (octal bits) applies to the file; an existing file keeps its
    /// own where it is absent, a new one gets 0644.
    ///
    /// # Errors
    /// See [`ClientError`]; after any error no partial file is left.
    pub async fn write_file(
        &self,
        path: &str,
        user: &str,
        mode: Option<u32>,
        bytes: Bytes,
    ) -> Result<guest::FileWritten, ClientError> {
        let mut uri = with_query(paths::guest::FILE, &[("path", path), ("user", user)]);
        if let Some(mode) = mode {
            let _ = write!(uri, "&mode={mode:o}");
        }
        let request = Request::builder().method(Method::PUT).uri(uri).header(header::HOST, "guest");
        let request = request.body(pool::full(bytes));
        let request = request.map_err(|error| ClientError::Protocol(error.to_string()))?;
        let (response, mut connection) = self.send(request).await?;
        if response.status() != StatusCode::OK {
            return Err(failure(response).await);
        }
        let bytes = pool::within(IDLE, pool::collect(response.into_body(), 64 << 10)).await?;
        connection.release();
        serde_json::from_slice(&bytes).map_err(|error| ClientError::Protocol(error.to_string()))
    }
}

pub(super) async fn failure(response: Response<Incoming>) -> ClientError {
    let status = response.status();
    match pool::within(IDLE, pool::collect(response.into_body(), 64 << 10)).await {
        Ok(bytes) => error_of(status, &bytes),
        Err(error) => error,
    }
}
