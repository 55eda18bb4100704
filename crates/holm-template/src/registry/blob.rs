//! A blob as a stream. Where it breaks off it is taken up again at that byte, and its digest is checked
//! by whoever reads it, over all parts.

use std::io::{self, Read};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use holm_client::Response;
use hyper::header::{CONTENT_RANGE, HeaderMap, HeaderValue, RANGE};
use tokio::runtime::Runtime;

use super::session::{SILENCE, Session, unreachable};
use crate::error::{Result, TemplateError, TemplateErrorKind};
use crate::id::Digest;

/// Attempts in a row that bring nothing.
const MAX_IDLE: u32 = 5;
/// Pause before the second of them; twice as long before each further one.
const PAUSE: Duration = Duration::from_millis(100);

/// One that is being read. Blocks.
pub(super) struct Blob<'a> {
    runtime: Rc<Runtime>,
    session: Rc<Session<'a>>,
    digest: Digest,
    size: u64,
    /// Bytes that were given out.
    at: u64,
    part: Bytes,
    response: Option<Response>,
    idle: u32,
}

impl<'a> Blob<'a> {
    pub(super) fn new(
        runtime: Rc<Runtime>,
        session: Rc<Session<'a>>,
        digest: Digest,
        size: u64,
    ) -> Self {
        let (part, response) = (Bytes::new(), None);
        Self { runtime, session, digest, size, at: 0, part, response, idle: 0 }
    }

    /// The next part, from wherever it can be had.
    async fn next(&mut self) -> Result<Bytes> {
        loop {
            let result = self.attempt().await;
            let error = match result {
                Ok(Some(part)) => {
                    self.idle = 0;
                    return Ok(part);
                }
                // It ended before its end.
                Ok(None) => self.session.says("broke off a layer"),
                Err(error) => error,
            };
            self.response = None;
            self.idle += 1;
            if error.kind != TemplateErrorKind::Registry || self.idle >= MAX_IDLE {
                return Err(error);
            }
            tracing::debug!(at = self.at, error = %error, "a layer is taken up again");
            tokio::time::sleep(PAUSE * 2_u32.pow(self.idle - 1)).await;
        }
    }

    async fn attempt(&mut self) -> Result<Option<Bytes>> {
        if self.response.is_none() {
            let (response, part) = self.open().await?;
            self.response = Some(response);
            if !part.is_empty() {
                return Ok(Some(part));
            }
        }
        let Some(response) = &mut self.response else { return Ok(None) };
        response.chunk(Some(SILENCE)).await.map_err(unreachable)
    }

    /// Asks for what is still to come. Gives what came of it already as well.
    async fn open(&self) -> Result<(Response, Bytes)> {
        let mut headers = HeaderMap::new();
        if self.at > 0 {
            let range = format!("bytes={}-", self.at);
            let range = HeaderValue::try_from(range)
                .map_err(|_| TemplateError::internal("a range cannot be written"))?;
            headers.insert(RANGE, range);
        }
        let mut response = self.session.get(&format!("blobs/{}", self.digest), &headers).await?;
        if response.status == 206 {
            let from = response.header(&CONTENT_RANGE).and_then(first_of_range);
            return match from {
                Some(from) if from == self.at => Ok((response, Bytes::new())),
                _ => Err(self.session.says("answers with another part than it was asked for")),
            };
        }
        // One that knows no parts begins anew.
        let mut left = self.at;
        let mut part = Bytes::new();
        while left > 0 {
            let next = response.chunk(Some(SILENCE)).await.map_err(unreachable)?;
            part = next.ok_or_else(|| self.session.says("broke off a layer"))?;
            let known = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= known as u64;
            part = part.slice(known..);
        }
        Ok((response, part))
    }
}

fn first_of_range(text: &str) -> Option<u64> {
    text.strip_prefix("bytes ")?.split_once('-')?.0.trim().parse().ok()
}

impl Read for Blob<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.part.is_empty() {
            if self.at >= self.size {
                return Ok(0);
            }
            let runtime = Rc::clone(&self.runtime);
            self.part = runtime.block_on(self.next()).map_err(io::Error::other)?;
        }
        // A registry that sends more than it said is not read further; the digest tells.
        let left = usize::try_from(self.size - self.at).unwrap_or(usize::MAX);
        let count = out.len().min(self.part.len()).min(left);
        out[..count].copy_from_slice(&self.part.split_to(count));
        self.at += count as u64;
        if self.at >= self.size {
            self.part = Bytes::new();
        }
        Ok(count)
    }
}
