//! Previews on a listener of their own.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use tokio::net::TcpListener;

use super::page::Form;
use super::site::{Base, Previews, Where};
use crate::http::face::{Answering, Face, HostFace};
use crate::http::tls::Tls;
use crate::http::{self, Limits};

/// Stands on a server that has none, so that no other face answers for their hosts.
pub struct Elsewhere(pub Arc<Previews>);

impl Face for Elsewhere {
    fn name(&self) -> &'static str {
        "preview"
    }

    fn serves(&self, _path: &str) -> bool {
        false
    }

    fn is_traced(&self) -> bool {
        false
    }

    fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answering {
        let response = Form::of(request.method(), request.headers()).unknown();
        Box::pin(std::future::ready(response))
    }

    fn refuse(&self) {}

    fn finish(&self) {}
}

impl HostFace for Elsewhere {
    fn claims(&self, request: &Request<Incoming>) -> bool {
        self.0.claims(request)
    }

    fn is_here(&self) -> bool {
        false
    }
}

/// A server for previews alone.
#[must_use]
pub fn options(previews: Arc<Previews>, limits: Limits, tls: Option<Arc<Tls>>) -> http::Options {
    http::Options {
        faces: Vec::new(),
        hosts: Some(previews),
        tls,
        limits,
        requests: Arc::default(),
        traces: None,
    }
}

/// On loopback, on any free port, once there is something to show, until the process ends. Needs a
/// tokio runtime by then.
#[must_use]
pub fn on_demand() -> Where {
    Where::OnDemand(Box::new(|previews| {
        let (first, second) = loopback()?;
        let port = first.local_addr()?.port();
        for listener in std::iter::once(first).chain(second) {
            let listener = TcpListener::from_std(listener)?;
            let options = options(Arc::clone(&previews), Limits::default(), None);
            tokio::spawn(http::serve(listener, options, std::future::pending()));
        }
        Ok(Base::plain(port))
    }))
}

/// Browsers know `localhost` by both addresses; where there is no IPv6, or the port is somebody's
/// there, one does.
fn loopback() -> io::Result<(StdListener, Option<StdListener>)> {
    let listen = |address: SocketAddr| {
        let listener = StdListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok::<_, io::Error>(listener)
    };
    let first = listen((Ipv4Addr::LOCALHOST, 0).into())?;
    let second = listen((Ipv6Addr::LOCALHOST, first.local_addr()?.port()).into());
    Ok((first, second.ok()))
}
