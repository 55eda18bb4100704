//! Bodies of responses and requests.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use holm_wire::connect::{Code, Error};
use http_body_util::{BodyExt as _, Full};
use hyper::Response;
use hyper::body::{Body, Frame, Incoming};

use crate::errors::{Result, invalid};

/// Longest silence while a request's body arrives.
pub const BODY_IDLE: Duration = Duration::from_secs(60);

/// A source of parts, polled when the peer has taken the part before.
pub trait Source {
    /// The next part; `None` at the end; an error breaks the connection off, so that the peer
    /// sees a cut body and no short one.
    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Bytes>>>;
}

/// A response's body.
pub enum Reply {
    /// Bytes that are there.
    Whole(Full<Bytes>),
    /// Bytes that come.
    Parts(Pin<Box<dyn Source>>),
}

impl Reply {
    /// Bytes that are there.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Full::new(bytes.into()))
    }

    /// Bytes that come.
    pub fn parts(source: impl Source + 'static) -> Self {
        Self::Parts(Box::pin(source))
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(full) => Pin::new(full)
                .poll_frame(context)
                .map(|part| part.map(|frame| frame.map_err(|never| match never {}))),
            Self::Parts(source) => source
                .as_mut()
                .poll_next(context)
                .map(|part| part.map(|bytes| bytes.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(full) => full.is_end_stream(),
            Self::Parts(_) => false,
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(full) => full.size_hint(),
            Self::Parts(_) => hyper::body::SizeHint::default(),
        }
    }
}

/// The next part of a request's body.
///
/// # Errors
/// When the peer breaks off or sends nothing for a minute.
pub async fn next_part(body: &mut Incoming) -> Result<Option<Bytes>> {
    next_part_within(body, BODY_IDLE).await
}

/// The same with a silence of its own.
///
/// # Errors
/// As [`next_part`].
pub async fn next_part_within(body: &mut Incoming, silence: Duration) -> Result<Option<Bytes>> {
    loop {
        let frame = tokio::time::timeout(silence, body.frame()).await.map_err(|_elapsed| {
            Error::new(Code::DeadlineExceeded, "the request's body stopped coming")
        })?;
        match frame {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => {
                return Err(Error::new(Code::Canceled, format!("the request broke off: {error}")));
            }
        }
    }
}

/// A whole request body of at most `limit` bytes.
///
/// # Errors
/// When there is more, or as [`next_part`].
pub async fn collect(mut body: Incoming, limit: usize) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    if body.size_hint().lower() > limit as u64 {
        return Err(too_long(limit));
    }
    while let Some(part) = next_part(&mut body).await? {
        if all.len() + part.len() > limit {
            return Err(too_long(limit));
        }
        all.extend_from_slice(&part);
    }
    Ok(all)
}

fn too_long(limit: usize) -> Error {
    invalid(format!("the request is longer than {limit} bytes"))
}

/// A response of plain bytes.
pub fn respond(status: u16, content_type: &str, bytes: impl Into<Bytes>) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(bytes));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    if let Ok(value) = hyper::header::HeaderValue::from_str(content_type) {
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, value);
    }
    response
}
