//! Requests of one connection of a sandbox, one after the other, and their answers.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex as Guard, PoisonError};
use std::time::Duration;

use http_body_util::Either;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ClientConfig;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::check::{self, Site};
use super::far::{BUFFER, Dialling, Far, Stream};
use super::refusal::{Body, Refusal};
use super::upgrade;
use crate::inject::{self, Set};

/// What one connection is served with.
pub(crate) struct Service<'a, D, N> {
    /// Who is at the other end.
    pub(crate) site: Site,
    /// The credentials of the sandbox, those of each moment.
    pub(crate) secrets: &'a Set,
    /// Whom to trust there.
    pub(crate) trust: Arc<ClientConfig>,
    /// Connects to it.
    pub(crate) dial: D,
    /// Notes what was refused, and why.
    pub(crate) note: N,
    /// How long a connection may take to be there.
    pub(crate) connect: Duration,
    /// How long the sandbox may take for its next request.
    pub(crate) idle: Duration,
}

/// Serves a connection until either side ends it. Dropping this ends it, too.
///
/// # Errors
/// When the connection breaks.
pub(crate) async fn serve<S, F, D, N>(near: S, service: Service<'_, D, N>) -> io::Result<()>
where
    S: Stream,
    F: Stream,
    D: Fn() -> Dialling<F>,
    N: Fn(&str),
{
    let Service { site, secrets, trust, dial, note, connect, idle } = service;
    let far = Mutex::new(Far::new(site.clone(), trust, dial, connect));
    let upgrades = Guard::new(JoinSet::new());
    let answer = async |request: Request<Incoming>| {
        let answered = exchange(&site, secrets, &far, &upgrades, request).await;
        Ok::<_, Infallible>(answered.unwrap_or_else(|refusal| {
            note(refusal.text());
            refusal.response()
        }))
    };
    let connection = http1::Builder::new()
        .preserve_header_case(true)
        .auto_date_header(false)
        .max_buf_size(BUFFER)
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .serve_connection(TokioIo::new(near), service_fn(answer))
        .with_upgrades();
    let served = connection.await.map_err(io::Error::other);
    // A WebSocket goes on when the requests have ended.
    let mut upgrades = upgrades.into_inner().unwrap_or_else(PoisonError::into_inner);
    while upgrades.join_next().await.is_some() {}
    served
}

async fn exchange<D, F>(
    site: &Site,
    secrets: &Set,
    far: &Mutex<Far<D>>,
    upgrades: &Guard<JoinSet<()>>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Refusal>
where
    D: Fn() -> Dialling<F>,
    F: Stream,
{
    let near = hyper::upgrade::on(&mut request);
    let (mut parts, body) = request.into_parts();
    let websocket = check::request(site, &mut parts)?;
    frame(&mut parts, &body);
    put_in(site, secrets, &mut parts)?;
    let mut response = far.lock().await.send(Request::from_parts(parts, body)).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        if !websocket {
            let text = format!("{} changed the protocol without being asked", site.host);
            return Err(Refusal::new(StatusCode::BAD_GATEWAY, text));
        }
        let far = hyper::upgrade::on(&mut response);
        upgrades.lock().unwrap_or_else(PoisonError::into_inner).spawn(async move {
            // Both sides see how it ends.
            let _ended = upgrade::join(near, far).await;
        });
        return Ok(response.map(Either::Left));
    }
    check::end_to_end(response.headers_mut());
    Ok(response.map(Either::Left))
}

/// Says where the body ends, by what was read and not by what was claimed.
fn frame(parts: &mut Parts, body: &Incoming) {
    let claimed = parts.headers.remove(header::CONTENT_LENGTH);
    if body.is_end_stream() {
        // A request that says it has none says so to the host, too.
        if let Some(none) = claimed {
            parts.headers.insert(header::CONTENT_LENGTH, none);
        }
    } else if let Some(length) = body.size_hint().exact() {
        parts.headers.insert(header::CONTENT_LENGTH, length.into());
    } else {
        parts.headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// The credentials of this moment: one that was taken away is not put in any more.
fn put_in(site: &Site, secrets: &Set, parts: &mut Parts) -> Result<(), Refusal> {
    let all = secrets.now();
    let by: Vec<_> = all.iter().filter(|one| one.is_for(&site.host, site.port, site.tls)).collect();
    let done = inject::replace(&mut parts.headers, &by);
    let too_long = |error: inject::TooLong| {
        Refusal::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, error.to_string())
    };
    done.map(|_| ()).map_err(too_long)
}
