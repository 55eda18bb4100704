//! The gate's sockets inside a namespace.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use super::{Gate, PORT};
use crate::driver::DriverErrorKind;
use crate::failure::{Attempt, Failure};

/// Connections that wait to be accepted, per listener.
const BACKLOG: i32 = 4096;

/// Binds them in the namespace that this process is in, in the order of [`crate::GateSockets`].
///
/// Those for datagrams on exactly these addresses: an answer from a socket of the wildcard would come
/// from an address that nobody has asked.
pub(crate) fn bind(gate: &Gate) -> Result<Vec<OwnedFd>, Failure> {
    let all = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let places = all.map(|ip| SocketAddr::new(ip, PORT));
    let places = &places[..gate.families()];
    let listeners = places.iter().map(|place| one(*place, SocketType::STREAM));
    listeners.chain(places.iter().map(|place| one(*place, SocketType::DGRAM))).collect()
}

fn one(place: SocketAddr, kind: SocketType) -> Result<OwnedFd, Failure> {
    match try_one(place, kind) {
        Err(Errno::ADDRINUSE) => Err(Failure::of(
            DriverErrorKind::InUse,
            format!(
                "A program inside the sandbox occupies port {PORT}, which its network needs: end \
                 that program, or the sandbox."
            ),
        )),
        other => other.tried(&format!("make the gate's socket at {place}")),
    }
}

fn try_one(place: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let family = if place.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if place.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if kind == SocketType::STREAM {
        // What connections of an owner before us have left at this port is in nobody's way. For
        // datagrams the same would let a program inside share the port.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &place)?;
    if kind == SocketType::STREAM {
        rustix::net::listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}
