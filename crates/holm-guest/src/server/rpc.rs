//! Connect: requests in, replies and errors out.

use std::time::Duration;

use holm_wire::connect::{self, Code, Decoder, EndOfStream, Error, STREAM_JSON, UNARY_JSON};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response, header};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::body::{self, Reply, respond};
use crate::errors::{Result, invalid};

/// Most bytes of a request, unless a call says otherwise.
pub const MAX_REQUEST: usize = 16 << 20;
/// A reply over this size gives its memory back to the kernel afterwards.
const LARGE_REPLY: usize = 1 << 20;

fn media(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or("").split(';').next().unwrap_or("").trim()
}

/// Reads a message.
///
/// # Errors
/// When it is not JSON of that form.
pub fn parse<Q: DeserializeOwned>(bytes: &[u8]) -> Result<Q> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    serde_json::from_slice(bytes).map_err(|error| invalid(format!("not a valid request: {error}")))
}

fn check_plain(headers: &HeaderMap) -> Result<()> {
    for name in ["content-encoding", "connect-content-encoding"] {
        if headers.get(name).is_some_and(|value| value != "identity") {
            return Err(Error::new(Code::Unimplemented, "compressed requests are not supported"));
        }
    }
    Ok(())
}

/// Reads the request of a unary call.
///
/// # Errors
/// When it is too long, no JSON, or compressed.
pub async fn unary<Q: DeserializeOwned>(request: Request<Incoming>) -> Result<Q> {
    check_plain(request.headers())?;
    if media(request.headers()) != UNARY_JSON {
        return Err(invalid(format!("the content type of this call is {UNARY_JSON}")));
    }
    parse(&body::collect(request.into_body(), MAX_REQUEST).await?)
}

/// Refuses what is no stream of JSON messages.
///
/// # Errors
/// Another content type, or compressed.
pub fn check_stream(headers: &HeaderMap) -> Result<()> {
    check_plain(headers)?;
    if media(headers) != STREAM_JSON {
        return Err(invalid(format!("the content type of this call is {STREAM_JSON}")));
    }
    Ok(())
}

/// Reads the one message that begins a server stream.
///
/// # Errors
/// As [`unary`], and when the envelope is broken.
pub async fn first_message<Q: DeserializeOwned>(request: Request<Incoming>) -> Result<Q> {
    check_stream(request.headers())?;
    let bytes = body::collect(request.into_body(), MAX_REQUEST).await?;
    let mut decoder = Decoder::new(MAX_REQUEST);
    decoder.push(&bytes);
    match decoder.next_frame() {
        Ok(Some(frame)) if !frame.end => parse(&frame.payload),
        Ok(_) => Err(invalid("the stream holds no message")),
        Err(error) => Err(invalid(error.to_string())),
    }
}

/// The reply of a unary call.
pub fn reply<R: Serialize>(result: Result<R>) -> Response<Reply> {
    let encoded = result.and_then(|value| {
        serde_json::to_vec(&value)
            .map_err(|e| crate::errors::internal("cannot encode the reply", e))
    });
    whole(encoded)
}

/// The same of a reply that is JSON already.
pub fn whole(encoded: Result<Vec<u8>>) -> Response<Reply> {
    match encoded {
        Ok(bytes) => {
            if bytes.len() > LARGE_REPLY {
                tokio::task::spawn_local(async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    crate::sys::malloc::trim();
                });
            }
            respond(200, UNARY_JSON, bytes)
        }
        Err(error) => failure(&error),
    }
}

/// An error as the reply of a unary call or of plain HTTP.
pub fn failure(error: &Error) -> Response<Reply> {
    respond(error.code.http_status(), UNARY_JSON, encode(error))
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_else(|_| b"{\"code\":\"internal\"}".to_vec())
}

/// A stream's reply.
pub fn stream(parts: Reply) -> Response<Reply> {
    let mut response = Response::new(parts);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(STREAM_JSON));
    response
}

/// A stream that only says why it failed.
pub fn stream_failure(error: Error) -> Response<Reply> {
    stream(Reply::whole(end_frame(Some(error))))
}

/// The last frame of a stream.
pub fn end_frame(error: Option<Error>) -> bytes::Bytes {
    connect::envelope(connect::FLAG_END, &encode(&EndOfStream { error }))
}

/// One message of a stream.
pub fn message_frame(message: &impl Serialize) -> bytes::Bytes {
    connect::envelope(0, &encode(message))
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// The caller's deadline; absent and 0 mean none.
pub fn timeout(headers: &HeaderMap) -> Option<Duration> {
    number(headers, "connect-timeout-ms").filter(|ms| *ms > 0).map(Duration::from_millis)
}

/// How often a silent stream says that it lives.
pub fn keepalive(headers: &HeaderMap) -> Duration {
    let seconds = number(headers, "keepalive-ping-interval").filter(|seconds| *seconds > 0);
    Duration::from_secs(seconds.unwrap_or(90).min(3600))
}

/// The user of a call, from basic authentication without a password; empty where there is none.
///
/// # Errors
/// When the header is there and is not that.
pub fn user(headers: &HeaderMap) -> Result<String> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(String::new()) };
    let broken =
        || Error::new(Code::Unauthenticated, "the Authorization header is not `Basic user:`");
    let text = value.to_str().map_err(|_| broken())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(broken)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(broken());
    }
    let bytes = holm_wire::encoding::bytes::decode(token.trim()).map_err(|_| broken())?;
    let text = String::from_utf8(bytes).map_err(|_| broken())?;
    Ok(text.split(':').next().unwrap_or("").to_owned())
}
