//! Where a connection was going before the sandbox's rules redirected it to the gate.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use rustix::net::sockopt;

/// The original destination of an accepted connection.
///
/// # Errors
/// When there is none: a connection that was not redirected has no business here.
pub(crate) fn of(stream: &(impl AsFd + Addressed)) -> io::Result<SocketAddr> {
    let own = stream.own_address()?;
    let target = match own {
        SocketAddr::V4(_) => SocketAddr::V4(sockopt::ip_original_dst(stream)?),
        SocketAddr::V6(_) => SocketAddr::V6(sockopt::ipv6_original_dst(stream)?),
    };
    check(own, target)
}

/// The kernel answers with the gate's own socket for a connection that went there directly.
fn check(own: SocketAddr, target: SocketAddr) -> io::Result<SocketAddr> {
    let none = || io::Error::new(io::ErrorKind::AddrNotAvailable, "no original destination");
    let is_scoped = matches!(target, SocketAddr::V6(v6) if v6.scope_id() != 0);
    if target == own || target.port() == 0 || is_scoped {
        return Err(none());
    }
    let address: IpAddr = target.ip();
    Ok(SocketAddr::new(address, target.port()))
}

/// A socket that knows its own address.
pub(crate) trait Addressed {
    fn own_address(&self) -> io::Result<SocketAddr>;
}

impl Addressed for tokio::net::TcpStream {
    fn own_address(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_a_redirected_connection_has_a_destination() {
        let check = |own: &str, target: &str, expected: bool| {
            let (own, target) = (own.parse().expect("one"), target.parse().expect("one"));
            assert_eq!(super::check(own, target).is_ok(), expected, "{own} {target}");
        };
        check("127.0.0.1:4001", "203.0.113.7:443", true);
        check("[::1]:4001", "[2001:db8::1]:443", true);
        check("127.0.0.1:4001", "127.0.0.1:4001", false);
        check("127.0.0.1:4001", "203.0.113.7:0", false);
        check("[::1]:4001", "[fe80::1%7]:443", false);
    }
}
