//! Responses: bytes that are there, and bytes or events that come.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use holm_engine::Room;
use hyper::StatusCode;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::server::Busy;
use super::streams::Open;

/// Bytes that are given at once.
const PART: usize = 128 << 10;

/// A response of this server.
pub type Response = hyper::Response<Reply>;

/// The body of a response.
pub struct Reply {
    content: Content,
    /// Tells the server that this response is not over yet.
    busy: Option<Busy>,
    /// Tells its connection whether its client reads.
    open: Option<Open>,
}

enum Content {
    Whole(Option<Bytes>),
    Events(Stream),
    Parts { source: Pin<Box<dyn Source>>, length: Option<u64> },
    Relayed(Pin<Box<dyn Body<Data = Bytes, Error = std::io::Error> + Send>>),
}

/// Bytes that come, asked for when the client has taken those before. It is dropped where the client
/// has gone.
pub trait Source: Send {
    /// The next part; `None` at the end; an error breaks the connection off.
    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Bytes>>>;
}

/// What a task sends. The task ends with the body, which is what a client that has gone leaves
/// behind.
struct Stream {
    parts: mpsc::Receiver<Bytes>,
    task: AbortHandle,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reply {
    /// Its bytes keep their `room` until they are written, or nobody wants them.
    pub fn tie(&mut self, room: Room) {
        if let Content::Whole(bytes) = &mut self.content {
            *bytes = bytes.take().map(|bytes| room.tie(bytes));
        }
    }

    /// Holds `busy` until the body is sent, or nobody wants it.
    pub(super) fn hold(&mut self, busy: Busy) {
        self.busy = Some(busy);
    }

    /// Tells `open` when the client has something to read.
    pub(super) fn watch(&mut self, open: Open) {
        self.open = Some(open);
    }

    fn poll_content(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        match &mut self.content {
            Content::Whole(bytes) => {
                let Some(all) = bytes else { return Poll::Ready(None) };
                // In parts, so that what nobody reads is seen to wait.
                let part = all.split_to(all.len().min(PART));
                if all.is_empty() {
                    *bytes = None;
                }
                Poll::Ready(Some(Ok(Frame::data(part))))
            }
            Content::Parts { source, length } => {
                let part = std::task::ready!(source.as_mut().poll_next(context));
                Poll::Ready(part.map(|part| {
                    let part = part?;
                    *length = length.map(|left| left.saturating_sub(part.len() as u64));
                    Ok(Frame::data(part))
                }))
            }
            Content::Relayed(body) => body.as_mut().poll_frame(context),
            Content::Events(events) => {
                events.parts.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part))))
            }
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        if let Some(open) = &this.open {
            open.asked();
        }
        let frame = this.poll_content(context);
        if let (Some(open), Poll::Ready(Some(_))) = (&this.open, &frame) {
            open.given();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_none(),
            Content::Events(_) => false,
            Content::Relayed(body) => body.is_end_stream(),
            Content::Parts { length, .. } => *length == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Parts { length: Some(left), .. } => SizeHint::with_exact(*left),
            Content::Relayed(body) => body.size_hint(),
            Content::Events(_) | Content::Parts { length: None, .. } => SizeHint::default(),
        }
    }
}

fn respond(status: u16, content_type: Option<&'static str>, content: Content) -> Response {
    let mut response = hyper::Response::new(Reply { content, busy: None, open: None });
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    if let Some(content_type) = content_type {
        let value = HeaderValue::from_static(content_type);
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

fn whole(bytes: impl Into<Bytes>) -> Content {
    Content::Whole(Some(bytes.into()).filter(|bytes: &Bytes| !bytes.is_empty()))
}

/// JSON.
#[must_use]
pub fn json(status: u16, value: &Value) -> Response {
    respond(status, Some("application/json"), whole(value.to_string()))
}

/// JSON that is written already.
#[must_use]
pub fn json_bytes(status: u16, json: impl Into<Bytes>) -> Response {
    respond(status, Some("application/json"), whole(json))
}

/// A sentence.
#[must_use]
pub fn text(status: u16, sentence: &'static str) -> Response {
    respond(status, Some("text/plain; charset=utf-8"), whole(sentence))
}

/// Text of this type.
#[must_use]
pub fn plain(status: u16, content_type: &'static str, text: String) -> Response {
    respond(status, Some(content_type), whole(text))
}

/// Nothing.
#[must_use]
pub fn empty(status: u16) -> Response {
    respond(status, None, whole(Bytes::new()))
}

/// Server-sent events, as `task` sends them into the channel of `parts`.
#[must_use]
pub fn events(parts: mpsc::Receiver<Bytes>, task: AbortHandle) -> Response {
    let content = Content::Events(Stream { parts, task });
    let mut response = respond(200, Some("text/event-stream"), content);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Proxies that collect responses would hold the events back.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Bytes from `source`. With a `length` the client can tell whether all of them came.
#[must_use]
pub fn parts(
    content_type: &'static str,
    length: Option<u64>,
    source: impl Source + 'static,
) -> Response {
    respond(200, Some(content_type), Content::Parts { source: Box::pin(source), length })
}

/// What somebody else answers.
#[must_use]
pub fn relayed(body: impl Body<Data = Bytes, Error = std::io::Error> + Send + 'static) -> Response {
    respond(200, None, Content::Relayed(Box::pin(body)))
}

/// One event, with JSON as its data.
#[must_use]
pub fn event(name: &str, data: &impl Serialize) -> Bytes {
    let mut event = format!("event: {name}\ndata: ").into_bytes();
    // What is sent is our own, with string keys and no fallible serializers. JSON has no line ends
    // outside of strings, and inside they are escaped.
    let _ = serde_json::to_writer(&mut event, data);
    event.extend_from_slice(b"\n\n");
    event.into()
}

/// What keeps a stream from looking dead.
#[must_use]
pub fn keep_alive() -> Bytes {
    Bytes::from_static(b": keep-alive\n\n")
}

/// The same response with one more header.
#[must_use]
pub fn with(mut response: Response, name: &'static str, value: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
    response
}
