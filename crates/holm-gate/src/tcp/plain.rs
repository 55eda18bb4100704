//! Plain HTTP where a rule by name decides: each request of a connection is read, judged by the
//! host that it asks for, and sent on. What another server could read differently never gets out,
//! because requests are written anew.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holm_http::Sender as Requests;
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::header::{CONNECTION, HOST, HeaderName, HeaderValue, UPGRADE};
use hyper::http::uri::Authority;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::conn::Conn;
use super::near::Near;
use super::serve::{Cut, refuse};
use crate::dial::Far;
use crate::policy::HostName;
use crate::relay::{Counted, Meter};
use crate::state::State;

/// Most bytes of a head. Each way some times as many may wait.
const HEAD: usize = 64 * 1024;
/// The same of connections that are not among a sandbox's first.
const SMALL_HEAD: usize = 16 * 1024;

type Sender = Mutex<Requests<Incoming>>;
/// Both ends of a connection that has become something else than HTTP.
type Upgrade = Arc<Mutex<Option<(OnUpgrade, OnUpgrade)>>>;

/// What the requests of one connection share.
struct Shared {
    state: Arc<State>,
    conn: Arc<Conn>,
    sender: Sender,
    upgrade: Upgrade,
    /// While a request that asks for an upgrade is on its way.
    upgrading: AtomicBool,
}

/// Serves a connection of plain HTTP.
pub(super) async fn serve(
    state: &Arc<State>,
    conn: &Arc<Conn>,
    far: Far,
    first: Vec<u8>,
) -> Result<(), Cut> {
    let most = if conn.wide { HEAD } else { SMALL_HEAD };
    let mut builder = client::Builder::new();
    builder.preserve_header_case(true).max_buf_size(most);
    let handshake = holm_http::handshake(&builder, far, most).await;
    let (sender, upstream) = handshake.map_err(|_| Cut::Gone)?;
    let mut upstream = AbortOnDrop(tokio::spawn(upstream.with_upgrades()));
    let shared = Arc::new(Shared {
        state: Arc::clone(state),
        conn: Arc::clone(conn),
        sender: Mutex::new(sender),
        upgrade: Upgrade::default(),
        upgrading: AtomicBool::new(false),
    });
    let meter = Arc::new(Meter::new(state));
    let near = Counted::new(Near::new(Arc::clone(conn), first), Arc::clone(&meter));
    let requests = Arc::clone(&shared);
    let downstream = server::Builder::new()
        .preserve_header_case(true)
        .half_close(true)
        .auto_date_header(false)
        .max_buf_size(most)
        .serve_connection(
            TokioIo::new(near),
            service_fn(move |request| forward(Arc::clone(&requests), request)),
        )
        .with_upgrades();
    let http = async {
        tokio::pin!(downstream);
        tokio::select! {
            end = &mut downstream => return end.map_err(|_| Cut::Gone),
            _end = &mut upstream.0 => {}
        }
        // The server has closed: what it answered is passed on, then the client hears it. An
        // upgrade ends HTTP too, but not the connection.
        if !shared.upgrading.load(Ordering::Relaxed) {
            downstream.as_mut().graceful_shutdown();
        }
        downstream.await.map_err(|_| Cut::Gone)
    };
    let work = async {
        http.await?;
        let upgrade = shared.upgrade.lock().await.take();
        let Some((near, far)) = upgrade else { return Ok(()) };
        let gone = |_| Cut::Gone;
        let mut near = TokioIo::new(near.await.map_err(gone)?);
        let mut far = TokioIo::new(far.await.map_err(gone)?);
        tokio::io::copy_bidirectional(&mut near, &mut far).await?;
        Ok(())
    };
    tokio::select! {
        end = work => end,
        () = meter.idle() => Err(Cut::Gone),
    }
}

/// A task that does not outlive its connection.
struct AbortOnDrop(JoinHandle<hyper::Result<()>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A request that was not sent on: the connection is reset.
#[derive(Debug, thiserror::Error)]
#[error("not sent on")]
struct NotSent;

async fn forward(
    shared: Arc<Shared>,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>, NotSent> {
    let Shared { state, conn, .. } = &*shared;
    let refused = |rule: &str| {
        let _noted: Cut = refuse(state, conn, rule);
        NotSent
    };
    let claim = asked_for(&request, conn.target.ip()).map_err(refused)?;
    let verdict = conn.judge(state, claim.as_ref().into());
    let verdict = verdict.map_err(|refusal| refused(&refusal.rule))?;
    // Another protocol cannot say whom it wants. This one can, and whoever does not gets whatever the
    // server has at that address for everybody.
    if claim.is_none() && verdict.by_name.is_some() {
        return Err(refused(NO_HOST));
    }
    if is_http2_upgrade(&request) {
        // Offered, not demanded: without the offer the client stays with what can be checked.
        let headers = request.headers_mut();
        for name in [UPGRADE, CONNECTION, HeaderName::from_static("http2-settings")] {
            headers.remove(name);
        }
    }
    let near = request.headers().contains_key(UPGRADE).then(|| hyper::upgrade::on(&mut request));
    shared.upgrading.store(near.is_some(), Ordering::Relaxed);
    let mut sender = shared.sender.lock().await;
    sender.ready().await.map_err(|_| NotSent)?;
    let mut response = sender.send_request(request).await.map_err(|_| NotSent)?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let near = near.ok_or(NotSent)?;
        let far = hyper::upgrade::on(&mut response);
        *shared.upgrade.lock().await = Some((near, far));
    } else {
        shared.upgrading.store(false, Ordering::Relaxed);
    }
    Ok(response)
}

fn is_http2_upgrade<B>(request: &Request<B>) -> bool {
    let offers = |value: &HeaderValue| value.as_bytes().to_ascii_lowercase();
    let mut offers = request.headers().get_all(UPGRADE).iter().map(offers);
    offers.any(|value| value.windows(3).any(|part| part == b"h2c"))
}

/// The name that a request asks for; none where it asks for the address that was dialled, or says
/// nothing.
fn asked_for<B>(request: &Request<B>, address: IpAddr) -> Result<Option<HostName>, &'static str> {
    if request.method() == Method::CONNECT {
        return Err("a proxy that is reached by name cannot be used; allow it by its address");
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next().map(|host| host.to_str().map_err(|_| NOT_A_HOST)).transpose()?;
    if hosts.next().is_some() {
        return Err("the HTTP request names two hosts");
    }
    let host = host.map(str::trim).filter(|host| !host.is_empty());
    let target = request.uri().authority().map(Authority::as_str);
    let host = host.map(|host| named(host, address)).transpose()?;
    let target = target.map(|target| named(target, address)).transpose()?;
    match (host, target) {
        (Some(host), Some(target)) if host != target => Err("the HTTP request names two hosts"),
        (host, target) => Ok(target.or(host).flatten()),
    }
}

const NO_HOST: &str = "the HTTP request names no host, and its address is permitted by name only";
const NOT_A_HOST: &str = "the host in the HTTP request is not one";

/// The name in `name:port`; none for the address itself.
fn named(authority: &str, address: IpAddr) -> Result<Option<HostName>, &'static str> {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            if !port.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(NOT_A_HOST);
            }
            host
        }
        _ => authority,
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(literal) if literal == address => Ok(None),
        Ok(_) => Err("the HTTP request asks for another address"),
        Err(_) => host.parse().map(Some).map_err(|_| NOT_A_HOST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_request_is_found() {
        let check = |uri: &str, hosts: &[&str], expected: Result<Option<&str>, &str>| {
            let mut request = Request::builder().uri(uri);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            let request = request.body(()).expect("a request");
            let found = asked_for(&request, "203.0.113.7".parse().expect("an address"));
            let found = found.as_ref().map(|name| name.as_ref().map(HostName::as_str));
            assert_eq!(found.map_err(|error| *error), expected, "{uri} {hosts:?}");
        };
        let two = Err("the HTTP request names two hosts");
        check("/", &[], Ok(None));
        check("/", &[""], Ok(None));
        check("/", &["A.example."], Ok(Some("a.example")));
        check("/", &["a.example:8080"], Ok(Some("a.example")));
        check("/", &["203.0.113.7"], Ok(None));
        check("/", &["203.0.113.7:80"], Ok(None));
        check("/", &["203.0.113.8"], Err("the HTTP request asks for another address"));
        check("/", &["[2001:db8::1]:80"], Err("the HTTP request asks for another address"));
        check("/", &["a.example", "b.example"], two);
        check("/", &["a.example", "a.example"], two);
        check("http://a.example/", &["b.example"], two);
        check("http://a.example/", &["a.example:80"], Ok(Some("a.example")));
        check("http://b.example/", &[], Ok(Some("b.example")));
        check("http://b.example/", &["203.0.113.7"], two);
        for wrong in ["a.example:x", "a b", "2130706433", "u@a.example", "a.example/", "a,b"] {
            check("/", &[wrong], Err(NOT_A_HOST));
        }
        check("http://u@a.example/", &[], Err(NOT_A_HOST));
    }
}
