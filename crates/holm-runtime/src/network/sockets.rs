//! Sockets inside a namespace: the gate's, and those for connections to ports.

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

/// How many sockets are made at once, for IPv4 and IPv6: together what one message carries.
const UNCONNECTED: [(AddressFamily, usize); 2] =
    [(AddressFamily::INET, 24), (AddressFamily::INET6, 8)];

/// Bytes that the kernel holds in either direction of a connection to a port, at most; it doubles them
/// for what it needs itself. Without a bound of our own a program that sends and a visitor who does
/// not read, or the other way round, would make it some megabytes each.
const BUFFER: usize = 128 << 10;

/// Makes sockets in the namespace that this process is in. Nothing of them is said to anybody inside
/// before they are connected.
pub(crate) fn unconnected() -> Result<Vec<OwnedFd>, Failure> {
    let mut sockets = Vec::new();
    for (family, count) in UNCONNECTED {
        for _ in 0..count {
            match try_unconnected(family) {
                Ok(socket) => sockets.push(socket),
                // The host has no IPv6.
                Err(Errno::AFNOSUPPORT) if family == AddressFamily::INET6 => return Ok(sockets),
                Err(errno) => return Err(errno).tried("make a socket for connections to ports"),
            }
        }
    }
    Ok(sockets)
}

fn try_unconnected(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_send_buffer_size(&socket, BUFFER)?;
    sockopt::set_socket_recv_buffer_size(&socket, BUFFER)?;
    Ok(socket)
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
