//! A file on its way to a guest, over a connection of its own: what comes goes to the socket at
//! once, and whoever is slower sets the pace.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use holm_http::{Heads, with_query};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::ClientError;
use super::files::failure;
use super::pool::{self, GuestClient};
use crate::connect::{Decoder, EndOfStream};
use crate::{guest, paths};

/// Longest wait for the guest to begin the file.
const BEGIN: Duration = Duration::from_secs(30);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 64 << 10;

/// A file on its way up. Dropped before [`Self::finish`] it leaves what was there.
#[derive(Debug)]
pub struct Upload {
    stream: UnixStream,
    /// What is left of the length that was announced.
    announced: Option<u64>,
}

fn broken(error: std::io::Error) -> ClientError {
    ClientError::Unreachable(error.into())
}

impl GuestClient {
    /// Begins to write a file, as [`Self::write_file`] does with bytes that are there. Of a
    /// `length` that is announced not a byte less or more may come.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn upload(
        &self,
        path: &str,
        user: &str,
        mode: Option<u32>,
        length: Option<u64>,
    ) -> Result<Upload, ClientError> {
        let mut uri = with_query(paths::guest::UPLOAD, &[("path", path), ("user", user)]);
        if let Some(mode) = mode {
            let _ = write!(uri, "&mode={mode:o}");
        }
        let request = Request::builder()
            .method(Method::PUT)
            .uri(uri)
            .header(header::HOST, "guest")
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, paths::guest::UPLOAD_PROTOCOL)
            .body(pool::full(Bytes::new()))
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        let began = async {
            let (response, _connection) = self.send(request).await?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Err(failure(response).await);
            }
            Ok(hyper::upgrade::on(response).await?)
        };
        let upgraded = pool::within(BEGIN, began).await?;
        let odd = || ClientError::Protocol("the guest answered an upload before its end".into());
        let parts = upgraded.downcast::<TokioIo<Heads<UnixStream>>>().map_err(|_other| odd())?;
        if !parts.read_buf.is_empty() {
            return Err(odd());
        }
        let mut upload = Upload { stream: parts.io.into_inner().into_inner(), announced: length };
        if let Some(length) = length.filter(|length| *length > 0) {
            upload.send(&length.to_be_bytes()).await?;
        }
        Ok(upload)
    }
}

impl Upload {
    /// Adds content, and waits until the guest takes it; without a deadline.
    ///
    /// # Errors
    /// When the guest could not write the file, or is gone; see [`ClientError`].
    pub async fn write(&mut self, part: &[u8]) -> Result<(), ClientError> {
        if part.is_empty() {
            return Ok(());
        }
        match &mut self.announced {
            Some(left) => {
                let length = part.len() as u64;
                *left = left.checked_sub(length).ok_or_else(|| cut("more than was announced"))?;
            }
            None => self.send(&(part.len() as u64).to_be_bytes()).await?,
        }
        self.send(part).await
    }

    /// Ends it: the file has its name when this returns. Without a deadline.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn finish(mut self) -> Result<guest::FileWritten, ClientError> {
        if self.announced.is_some_and(|left| left > 0) {
            return Err(cut("less than was announced"));
        }
        self.send(&0_u64.to_be_bytes()).await?;
        self.answer().await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        let Err(error) = self.stream.write_all(bytes).await else { return Ok(()) };
        // A guest that cannot go on says why and closes.
        match self.answer().await {
            Err(ClientError::Guest(refusal)) => Err(ClientError::Guest(refusal)),
            _ => Err(broken(error)),
        }
    }

    async fn answer(&mut self) -> Result<guest::FileWritten, ClientError> {
        let protocol = |error: &dyn std::fmt::Display| ClientError::Protocol(error.to_string());
        let mut decoder = Decoder::new(MAX_ANSWER);
        let mut buffer = vec![0; 4096];
        loop {
            if let Some(frame) = decoder.next_frame().map_err(|error| protocol(&error))? {
                let payload = &frame.payload;
                if !frame.end {
                    return serde_json::from_slice(payload).map_err(|error| protocol(&error));
                }
                let end: EndOfStream =
                    serde_json::from_slice(payload).map_err(|error| protocol(&error))?;
                return Err(end.error.map_or_else(|| protocol(&"no answer"), ClientError::Guest));
            }
            match self.stream.read(&mut buffer).await.map_err(broken)? {
                0 => return Err(broken(std::io::ErrorKind::UnexpectedEof.into())),
                length => decoder.push(&buffer[..length]),
            }
        }
    }
}

fn cut(what: &str) -> ClientError {
    ClientError::Upload(std::io::Error::other(what.to_owned()))
}
