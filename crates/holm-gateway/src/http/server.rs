//! Accepts connections, hands their requests to faces, and stops in order.
//!
//! The way down: no new connections and no new work; what runs may end by itself for a while; then
//! faces answer what still runs; then connections are closed.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use holm_engine::random_bytes;
use hyper::Request;
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::connection;
use super::face::{Face, HostFace};
use super::limits::Limits;
use super::metrics::Requests;
use super::places::{Class, Places, Seat, Taken};
use super::reply::{self, Response};
use super::tls::Tls;
use super::trace::{self, Collect, Open};

/// Wait after a failed accept (out of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long answers may take once faces were told to finish, and how long to be read.
const FAREWELL: Duration = Duration::from_secs(2);
const FLUSH: Duration = Duration::from_millis(300);

/// What to serve.
pub struct Options {
    /// The first one that serves a path gets the request.
    pub faces: Vec<Arc<dyn Face>>,
    /// What comes before them all, by the host that is asked.
    pub hosts: Option<Arc<dyn HostFace>>,
    /// TLS, where this server speaks it itself.
    pub tls: Option<Arc<Tls>>,
    /// The bounds.
    pub limits: Limits,
    /// Where answers are counted.
    pub requests: Arc<Requests>,
    /// Who collects spans, if anybody does.
    pub traces: Option<Arc<dyn Collect>>,
}

/// The name of a request, in its extensions, the log and the answer's `x-request-id`. Nothing
/// secret.
#[derive(Debug, Clone)]
pub struct RequestId(pub Arc<str>);

impl RequestId {
    /// One that no other request has.
    #[must_use]
    pub fn fresh() -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(4 + 2 * ID);
        text.push_str("req_");
        for byte in RANDOM.with_borrow_mut(Random::next) {
            for half in [byte >> 4, byte & 15] {
                text.push(char::from(DIGITS[usize::from(half)]));
            }
        }
        Self(text.into())
    }
}

/// Random bytes of a name.
const ID: usize = 9;
/// Names for which the system is asked at once.
const AT_ONCE: usize = 100;

thread_local! {
    static RANDOM: RefCell<Random> = const { RefCell::new(Random { bytes: [0; ID * AT_ONCE], left: 0 }) };
}

/// Random bytes for the next names. They are no secret, so they may lie in memory before.
struct Random {
    bytes: [u8; ID * AT_ONCE],
    left: usize,
}

impl Random {
    fn next(&mut self) -> [u8; ID] {
        if self.left == 0 {
            self.bytes = random_bytes().unwrap_or([0; ID * AT_ONCE]);
            self.left = AT_ONCE;
        }
        self.left -= 1;
        let mut id = [0; ID];
        id.copy_from_slice(&self.bytes[self.left * ID..][..ID]);
        id
    }
}

/// Who is at the other end of the connection of a request, in its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Counts one request until its response is over, and holds its span and its connection's place as
/// long.
pub struct Busy {
    place: Option<Taken>,
    count: Arc<watch::Sender<usize>>,
    span: Option<Arc<Open>>,
}

impl Busy {
    fn new(count: &Arc<watch::Sender<usize>>, span: Option<Arc<Open>>) -> Self {
        count.send_modify(|count| *count += 1);
        Self { place: None, count: Arc::clone(count), span }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count -= 1);
    }
}

/// What all connections share.
pub(super) struct Shared {
    options: Options,
    busy: Arc<watch::Sender<usize>>,
    closing: watch::Sender<bool>,
}

/// Serves until `shutdown` resolves and everything has come to its end.
pub async fn serve(listener: TcpListener, options: Options, shutdown: impl Future<Output = ()>) {
    let has_hosts = options.hosts.as_ref().is_some_and(|hosts| hosts.is_here());
    let are_shared = has_hosts && !options.faces.is_empty();
    let places = Places::new(&options.limits, are_shared);
    let shared = Arc::new(Shared {
        options,
        busy: Arc::new(watch::Sender::new(0)),
        closing: watch::Sender::new(false),
    });
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            (stream, peer) = accept(&listener) => {
                let (shared, seat) = (Arc::clone(&shared), places.enter());
                connections.spawn(async move {
                    tokio::select! {
                        biased;
                        () = connection::serve(&shared, stream, peer, &seat) => {}
                        () = seat.evicted() => {}
                    }
                });
            }
        }
    }
    drop(listener);
    shared.stop(&mut connections).await;
}

async fn accept(listener: &TcpListener) -> (TcpStream, Peer) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Small answers must not wait for acknowledgements. Where it cannot be set they do.
                let _ = stream.set_nodelay(true);
                // Nor may they fill the kernel's memory where nobody reads.
                let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
                return (stream, Peer(peer));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Bytes that the kernel keeps of what has not been sent: more waits with whoever makes it, and what is
/// on its way is bounded by what its reader takes.
const UNSENT: u32 = 256 << 10;

/// Its connection has no place, and ends.
fn crowded() -> Response {
    let response = reply::text(503, "too many connections are open; try again\n");
    reply::with(reply::with(response, "retry-after", "1"), "connection", "close")
}

/// What a head has at least had on the wire.
fn head_bytes(request: &Request<Incoming>) -> usize {
    let uri = request.uri().path_and_query().map_or(0, |uri| uri.as_str().len());
    let headers = request.headers().iter();
    headers.fold(uri, |sum, (name, value)| sum + name.as_str().len() + value.len() + 4)
}

impl Shared {
    pub(super) fn limits(&self) -> &Limits {
        &self.options.limits
    }

    pub(super) fn tls(&self) -> Option<&Tls> {
        self.options.tls.as_deref()
    }

    /// Resolves when connections are to close after what they do.
    pub(super) async fn closing(&self) {
        // The sender is in `self`.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    pub(super) async fn answer(
        &self,
        mut request: Request<Incoming>,
        seat: &Arc<Seat>,
    ) -> Response {
        let id = RequestId::fresh();
        request.extensions_mut().insert(id.clone());
        let since = Instant::now();
        let method = request.method().clone();
        // Without the query: keys are put there by mistake.
        let path = request.uri().path().to_owned();
        let hosts = self.options.hosts.as_ref().filter(|hosts| hosts.claims(&request));
        let face = match hosts {
            // Upcast: from here on it is a face like the others.
            Some(hosts) => Some(Arc::clone(hosts) as Arc<dyn Face>),
            None => self.options.faces.iter().find(|face| face.serves(&path)).cloned(),
        };
        let is_traced = face.as_ref().is_some_and(|face| face.is_traced());
        let span = self.options.traces.as_ref().filter(|_| is_traced).and_then(|collect| {
            Open::request(collect, &method, request.headers(), Arc::clone(&id.0))
        });
        let mut busy = Busy::new(&self.busy, span);
        let is_host = hosts.is_some();
        busy.place = seat.take(if is_host { Class::Host } else { Class::Path }).await;
        let response = match &face {
            _ if busy.place.is_none() => crowded(),
            _ if head_bytes(&request) > self.options.limits.head_bytes => {
                reply::with(reply::text(431, "the head is too long\n"), "connection", "close")
            }
            Some(face) => trace::within(busy.span.clone(), Arc::clone(face).answer(request)).await,
            None => reply::text(404, "not found\n"),
        };
        let status = response.status().as_u16();
        if let Some(span) = &busy.span {
            span.answered(status);
        }
        let path = face.as_ref().map_or((&*path).into(), |face| face.shown(&path));
        self.options.requests.add(face.as_ref().map_or("none", |face| face.name()), status);
        let request_id = &id.0;
        let elapsed_us = since.elapsed().as_micros();
        tracing::debug!(%request_id, %method, %path, status, elapsed_us, "answered");
        // A program behind a host has names of its own.
        let mut response = match is_host {
            true => response,
            false => reply::with(response, "x-request-id", request_id),
        };
        response.body_mut().hold(busy);
        response
    }

    async fn stop(&self, connections: &mut JoinSet<()>) {
        let hosts = self.options.hosts.iter().map(|hosts| Arc::clone(hosts) as Arc<dyn Face>);
        let faces: Vec<Arc<dyn Face>> = self.options.faces.iter().cloned().chain(hosts).collect();
        faces.iter().for_each(|face| face.refuse());
        self.closing.send_replace(true);
        if !self.quiet(self.options.limits.stop_grace).await {
            faces.iter().for_each(|face| face.finish());
            self.quiet(FAREWELL).await;
        }
        let flushed = async { while connections.join_next().await.is_some() {} };
        // Whoever has not read the last answer by then does not want it.
        let _ = timeout(FLUSH, flushed).await;
        connections.shutdown().await;
    }

    /// Waits until no request is open.
    async fn quiet(&self, time: Duration) -> bool {
        let mut busy = self.busy.subscribe();
        // The sender lives as long as `self`.
        timeout(time, busy.wait_for(|count| *count == 0)).await.is_ok()
    }
}
