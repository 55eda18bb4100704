//! The network of a sandbox: loopback, and on it the way to the egress gate.
//!
//! The namespace has no other interface, so nothing can leave it. Rules inside it turn every TCP
//! connection that is not for the sandbox itself, and every DNS question, to sockets that are made
//! here and then belong to the driver's owner alone. When the owner is gone the sockets are too, and
//! connections are refused. All of this is done by PID 1 before it gives up the right to it, in
//! messages of our own, so that no program is needed.

mod bound;
mod link;
mod message;
pub(crate) mod resolver;
mod rules;
mod session;
mod sockets;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
pub(crate) use sockets::{bind, unconnected};

/// The number of the gate's sockets, TCP and UDP alike, on 127.0.0.1 and `::1`.
///
/// Below 512: no program gets it by chance, neither as the port of an outgoing connection (from
/// 32768) nor as one of those that `bindresvport` deals out, and only root inside could take it. Of
/// 225 to 241 because these are reserved for nobody, so that no service has its place there.
pub(crate) const PORT: u16 = 236;

/// What a sandbox has of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Gate {
    /// This host cannot give one, for that reason. There is loopback and nothing else.
    Missing(String),
    /// IPv4 alone; the host has no IPv6.
    V4,
    /// IPv4 and IPv6.
    Both,
}

impl Gate {
    /// How many sockets there are of each kind.
    pub(crate) fn families(&self) -> usize {
        match self {
            Self::Missing(_) => 0,
            Self::V4 => 1,
            Self::Both => 2,
        }
    }
}

impl Default for Gate {
    /// Of a sandbox that says nothing about it.
    fn default() -> Self {
        Self::Missing("it was made without one".into())
    }
}

/// In the new network namespace: rules, addresses, routes, and the sockets in the order of
/// [`crate::GateSockets`]. `wanted`: false for the way of a host that cannot.
///
/// Rules come first: where they are not to be had, there is nothing that they would have to guard.
pub(crate) fn prepare(wanted: bool) -> Result<(Gate, Vec<OwnedFd>), Failure> {
    let loaded = if wanted { rules::load() } else { Err(Errno::PROTONOSUPPORT) };
    if let Some(gate) = missing("rules of nf_tables", loaded)? {
        return Ok((gate, Vec::new()));
    }
    bound::set();
    let configured = link::configure();
    let gate = match configured {
        Ok(true) => Gate::Both,
        Ok(false) => Gate::V4,
        Err(errno) => match missing("addresses and routes", Err(errno))? {
            Some(gate) => return Ok((gate, Vec::new())),
            None => Gate::V4,
        },
    };
    let sockets = bind(&gate)?;
    Ok((gate, sockets))
}

/// Lack of memory or descriptors is a failure, which may pass; anything else is how this host is.
fn missing(what: &str, tried: Result<(), Errno>) -> Result<Option<Gate>, Failure> {
    match tried {
        Ok(()) => Ok(None),
        Err(errno @ (Errno::NOMEM | Errno::NOBUFS | Errno::MFILE | Errno::NFILE)) => {
            Err(Failure::internal(format!("set {what}: {errno}")))
        }
        Err(errno) => Ok(Some(Gate::Missing(format!("{what}: {errno}")))),
    }
}
