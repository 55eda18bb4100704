//! Which call is where.

use holm_wire::connect::{Code, Error};
use holm_wire::guest::{Configure, RunRequest};
use holm_wire::paths;
use holm_wire::process::Empty;
use hyper::body::Incoming;
use hyper::{Method, Request, Response};

use super::body::{Reply, respond};
use super::rpc::{failure, first_message, reply, stream_failure, unary};
use crate::errors::Result;
use crate::state::Shared;
use crate::{command, files, settings};

/// Answers one request.
pub async fn answer(guest: Shared, request: Request<Incoming>) -> Response<Reply> {
    let path = request.uri().path().to_owned();
    if path.starts_with("/process.")
        || path.starts_with("/filesystem.")
        || path.starts_with("/holm.")
    {
        if request.method() != Method::POST {
            return failure(&Error::new(Code::Unimplemented, "calls are made with POST"));
        }
        return call(guest, &path, request).await;
    }
    let method = request.method().clone();
    match (&method, path.as_str()) {
        (&Method::GET, paths::http::HEALTH) => respond(204, "text/plain", ""),
        (&Method::GET, paths::http::ENVS) => reply(settings::environment(&guest, &request)),
        (&Method::GET, paths::guest::FILE) => files::http::download(guest, request).await,
        (&Method::PUT, paths::guest::FILE) => files::http::upload(guest, request).await,
        _ => {
            respond(404, "application/json", r#"{"code":"unimplemented","message":"no such call"}"#)
        }
    }
}

async fn call(guest: Shared, path: &str, request: Request<Incoming>) -> Response<Reply> {
    match path {
        paths::guest::CONFIGURE => {
            reply(with(request, async |q: Configure| settings::configure(&guest, q)).await)
        }
        paths::guest::RUN => {
            reply(with(request, async |q: RunRequest| command::run::run(guest, q).await).await)
        }
        paths::guest::PROBE => {
            reply(with(request, async |_: Empty| command::probe::probe(guest).await).await)
        }
        _ => failure(&Error::new(Code::Unimplemented, format!("there is no call {path}"))),
    }
}

/// Reads the request and hands it on.
async fn with<Q, R>(
    request: Request<Incoming>,
    answer: impl AsyncFnOnce(Q) -> Result<R>,
) -> Result<R>
where
    Q: serde::de::DeserializeOwned,
{
    answer(unary(request).await?).await
}

/// Reads the message that begins a stream and hands it on; a failure becomes the stream's end.
pub async fn with_stream<Q>(
    request: Request<Incoming>,
    answer: impl AsyncFnOnce(Q) -> Result<Response<Reply>>,
) -> Response<Reply>
where
    Q: serde::de::DeserializeOwned,
{
    let result = match first_message(request).await {
        Ok(message) => answer(message).await,
        Err(error) => Err(error),
    };
    result.unwrap_or_else(stream_failure)
}
