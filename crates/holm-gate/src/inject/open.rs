//! Opening a connection to a host that credentials are bound to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::denial::Protocol;
use crate::http::{self, Dialling, Service, Site, Stream};
use crate::policy::HostName;
use crate::relay::{Counted, Meter};
use crate::state::State;

/// Connections of one sandbox that are opened at a time: each costs buffers of TLS and HTTP on both
/// sides, some hundred KiB at most.
pub(super) const MOST: usize = 256;

/// A connection that is opened.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The host that the client asks for, which this sandbox was told the address for.
    pub(crate) host: HostName,
    /// The address, checked.
    pub(crate) address: SocketAddr,
    /// Whether the client begins with TLS.
    pub(crate) tls: bool,
}

/// Serves it until either side ends it; `dial` connects to the address, each time after checking it.
/// Dropping this ends it, too.
///
/// # Errors
/// When it cannot be served, or breaks.
pub(crate) async fn open<S, F, D>(
    state: &Arc<State>,
    near: S,
    opened: Opened,
    dial: D,
) -> io::Result<()>
where
    S: Stream,
    F: Stream,
    D: Fn() -> Dialling<F>,
{
    let Opened { host, address, tls } = opened;
    let note = |text: &str| {
        state.deny(Protocol::Tcp, Some(&host), Some(address.ip()), address.port(), text);
    };
    let failed = |text: String| {
        note(&text);
        io::Error::other(text)
    };
    let Some(_place) = state.opened.enter(MOST) else {
        return Err(failed(format!("limit: {MOST} open connections that secrets are put into")));
    };
    let limits = state.uplink.limits();
    let meter = Arc::new(Meter::new(state));
    let near = Counted::new(near, Arc::clone(&meter));
    let service = Service {
        site: Site { host: host.clone(), port: address.port(), tls },
        secrets: &state.injections,
        trust: state.uplink.trust().map_err(failed)?,
        dial,
        note,
        connect: limits.connect,
        idle: limits.idle,
    };
    let work = async {
        if !tls {
            return http::serve(near, service).await;
        }
        let config = state.uplink.leaf(&host).map_err(failed)?;
        let accepted = timeout(limits.opening, TlsAcceptor::from(config).accept(near)).await?;
        let distrusted =
            |error| failed(format!("the client does not accept the gate's certificate: {error}"));
        http::serve(accepted.map_err(distrusted)?, service).await
    };
    tokio::select! {
        served = work => served,
        () = meter.idle() => Err(io::ErrorKind::TimedOut.into()),
    }
}
