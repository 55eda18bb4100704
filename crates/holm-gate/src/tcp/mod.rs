//! Connections of a sandbox: accept, judge, dial, relay.

mod origin;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::counters::count;
use crate::denial::Protocol;
use crate::policy::Question;
use crate::state::State;
use crate::uplink::Uplink;

/// A socket of the sandbox, ready to be served by the uplink's thread.
pub(crate) fn listener(uplink: &Uplink, socket: OwnedFd) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    let _worker = uplink.worker().enter();
    TcpListener::from_std(listener)
}

/// Serves until it is dropped.
pub(crate) async fn serve(state: Arc<State>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                count(&state.tally.connections_total, 1);
                refuse(&state, &stream);
            }
            // No descriptor is left, mostly: the connection waits until one is.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Resets a connection and notes why.
fn refuse(state: &State, stream: &TcpStream) {
    let rule = match origin::of(stream) {
        Ok(target) => judge(state, target).unwrap_or_else(|| "not reachable yet".to_owned()),
        Err(_) => "no valid destination".to_owned(),
    };
    let target = origin::of(stream).ok();
    let port = target.map_or(0, |target| target.port());
    state.deny(Protocol::Tcp, None, target.map(|target| target.ip()), port, &rule);
    let _gone = stream.set_zero_linger();
}

fn judge(state: &State, target: SocketAddr) -> Option<String> {
    let names = state.names.of(target.ip());
    let question =
        Question { address: target.ip(), port: target.port(), names: &names, claim: None };
    let refused = state.uplink.refused(target.ip());
    refused.or_else(|| state.policies().judge(&question).err().map(|refusal| refusal.rule))
}
