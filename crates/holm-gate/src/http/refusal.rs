//! Answers that the gate gives itself. Their texts are for whoever reads them inside, so they hold
//! nothing of a credential.

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

/// The body of an answer: the host's, or the gate's own.
pub(super) type Body = Either<Incoming, Full<Bytes>>;

/// An answer of the gate.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    text: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// A request that is none.
    pub(super) fn bad(text: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    #[cfg(test)]
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The answer; after it the connection ends, for what follows may be part of what was refused.
    pub(super) fn response(&self) -> Response<Body> {
        let text = format!("holm egress gate: {}\n", self.text);
        let mut response = Response::new(Either::Right(Full::new(Bytes::from(text))));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }
}
