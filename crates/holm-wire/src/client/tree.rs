//! Trees up and down as tar streams.

use std::time::Duration;

use bytes::Bytes;
use holm_http::{PartSender, with_query};
use http_body_util::BodyExt as _;
use hyper::{Method, Request, StatusCode, header};
use tokio::task::JoinHandle;

use super::ClientError;
use super::files::{FileBody, IDLE, failure};
use super::pool::{self, GuestClient};
use crate::{guest, paths};

/// Longest wait for the guest's word after the last part: what it has gathered is written first.
const SETTLE: Duration = Duration::from_secs(120);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 64 << 10;

/// A tar stream on its way up. Dropped before [`Self::finish`] it breaks off: what was unpacked
/// until then stays.
#[derive(Debug)]
pub struct TreeUpload {
    parts: PartSender,
    answer: JoinHandle<Result<guest::FileWritten, ClientError>>,
}

impl Drop for TreeUpload {
    fn drop(&mut self) {
        self.answer.abort();
    }
}

impl GuestClient {
    /// Opens a tree, or one file, as a tar stream. [`FileBody::size`] and `mode` say nothing here.
    ///
    /// # Errors
    /// See [`ClientError`]. What cannot be read on the way breaks the stream off.
    pub async fn read_tree(&self, path: &str, user: &str) -> Result<FileBody, ClientError> {
        let uri = with_query(paths::guest::TAR, &[("path", path), ("user", user)]);
        let (response, connection) = self.open(uri).await?;
        Ok(FileBody::new(response.into_body(), connection))
    }

    /// Begins to unpack a tar stream below a directory, which is made where it is missing.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn write_tree(&self, path: &str, user: &str) -> Result<TreeUpload, ClientError> {
        let uri = with_query(paths::guest::TAR, &[("path", path), ("user", user)]);
        let (parts, taken) = holm_http::parts();
        let request = Request::builder()
            .method(Method::PUT)
            .uri(uri)
            .header(header::HOST, "guest")
            .body(taken.boxed_unsync())
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        let client = self.clone();
        let answer = tokio::spawn(async move {
            let (response, mut connection) = client.send(request).await?;
            if response.status() != StatusCode::OK {
                return Err(failure(response).await);
            }
            let bytes = pool::collect(response.into_body(), MAX_ANSWER);
            let bytes = pool::within(IDLE, bytes).await?;
            connection.release();
            serde_json::from_slice(&bytes).map_err(|error| ClientError::Protocol(error.to_string()))
        });
        Ok(TreeUpload { parts, answer })
    }
}

impl TreeUpload {
    /// Hands over the next part, and waits until there is room for it; without a deadline.
    ///
    /// # Errors
    /// When the guest could not unpack it, or is gone; see [`ClientError`].
    pub async fn write(&mut self, part: Bytes) -> Result<(), ClientError> {
        if self.parts.send(part).await {
            return Ok(());
        }
        // Nobody takes parts any more: the answer is there.
        match pool::within(IDLE, self.answered()).await {
            Ok(_) => Err(ClientError::Protocol("the guest took a part of a stream".into())),
            Err(error) => Err(error),
        }
    }

    /// Ends it: all of it was unpacked when this returns.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn finish(mut self) -> Result<guest::FileWritten, ClientError> {
        // Where nobody takes it the answer says why.
        self.parts.end().await;
        pool::within(SETTLE, self.answered()).await
    }

    async fn answered(&mut self) -> Result<guest::FileWritten, ClientError> {
        match (&mut self.answer).await {
            Ok(answer) => answer,
            Err(error) => Err(ClientError::Unreachable(error.into())),
        }
    }
}
