//! Taking connections in, within bounds. What has no place is reset at once.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};

use super::conn::{Conn, reset};
use super::serve as one;
use crate::counters::count;
use crate::denial::Protocol;
use crate::dial;
use crate::share::{Full, Taken};
use crate::state::State;
use crate::uplink::Uplink;

/// Connections of a sandbox that have large buffers in the kernel, for distant hosts. Further ones
/// have small ones, so that a sandbox which does not read cannot make the kernel keep gigabytes.
const WIDE: usize = 16;

/// Why one is refused while others' would find a place.
const SHARE: &str = "limit: this account's share of the service's open connections";

/// A socket of the sandbox, ready to be served by the uplink's thread.
pub(crate) fn listener(uplink: &Uplink, socket: OwnedFd) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    // Connections inherit these. On the way to the sandbox nothing is ever lost, and what hosts use
    // against loss (pacing, by timers) only costs.
    sockopt::set_tcp_nodelay(&listener, true)?;
    let _as_it_is = sockopt::set_tcp_congestion(&listener, "reno");
    let _worker = uplink.worker().enter();
    TcpListener::from_std(listener)
}

/// Serves until it is dropped.
pub(crate) async fn serve(state: Arc<State>, listener: Arc<TcpListener>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if !admit(&state, stream) {
                    // What is refused faster than it can be noted gets one turn among all others,
                    // so that a sandbox which has its refusals by the thousand takes its share only.
                    tokio::task::yield_now().await;
                }
            }
            // Nothing to do about it but to wait: mostly no descriptor is left.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        // However fast a sandbox connects, others of this thread have a turn.
        tokio::task::coop::consume_budget().await;
    }
}

/// The port of DNS.
pub(super) const DNS: u16 = 53;

/// False where it was refused, and faster than such are noted.
fn admit(state: &Arc<State>, near: TcpStream) -> bool {
    count(&state.tally.connections_total, 1);
    let Ok(target) = state.origin.of(&near) else {
        state.deny(Protocol::Tcp, None, None, 0, "the connection has no destination");
        reset(&near);
        return true;
    };
    let limits = state.uplink.limits();
    let wide = state.open.len() < WIDE;
    let conn = Arc::new(Conn::new(near, target, wide));
    // What no policy opens needs no task. Whomever DNS is meant for, the gate answers it.
    let refused = (target.port() != DNS).then(|| state.uplink.refused(target.ip())).flatten();
    if let Some(rule) = refused {
        return refuse(state, &conn, &rule);
    }
    let place = match state.uplink.enter(&state.share) {
        Ok(place) => place,
        Err(Full::All) => return refuse(state, &conn, "limit: open connections of the service"),
        Err(Full::Own) => return refuse(state, &conn, SHARE),
    };
    let Some(key) = state.open.enter(&conn, limits.connections) else {
        let rule = format!("limit: {} open connections", limits.connections);
        return refuse(state, &conn, &rule);
    };
    count(&state.tally.connections_open, 1);
    let open = Open { state: Arc::clone(state), key, _place: place };
    if prepare(&conn).is_err() {
        conn.reset();
        return true;
    }
    tokio::spawn(async move {
        one::run(&open.state, &conn).await;
        drop(conn);
        drop(open);
    });
    true
}

fn refuse(state: &State, conn: &Conn, rule: &str) -> bool {
    let is_noted = conn.refuse(state, rule);
    conn.reset();
    is_noted
}

fn prepare(conn: &Conn) -> io::Result<()> {
    dial::buffers(&conn.near, conn.wide)
}

/// A connection's places; its end gives them back.
struct Open {
    state: Arc<State>,
    key: u64,
    _place: Taken,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.state.open.leave(self.key);
        self.state.tally.connections_open.fetch_sub(1, Ordering::Relaxed);
    }
}
