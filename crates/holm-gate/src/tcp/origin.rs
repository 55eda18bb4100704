//! Where a connection was going before the sandbox's rules redirected it to the gate.

use std::io;
use std::net::SocketAddr;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// Who knows where a connection was going.
pub(crate) enum Origin {
    /// The kernel's connection tracking.
    Kernel,
    /// A test; there is no such form in the product.
    #[cfg(test)]
    Told(Told),
}

#[cfg(test)]
type Told = Box<dyn Fn(&TcpStream) -> io::Result<SocketAddr> + Send + Sync>;

impl Origin {
    /// The original destination of an accepted connection.
    ///
    /// # Errors
    /// When there is none: a connection that was not redirected has no business here.
    pub(crate) fn of(&self, stream: &TcpStream) -> io::Result<SocketAddr> {
        let own = stream.local_addr()?;
        let target = match self {
            Self::Kernel => match own {
                SocketAddr::V4(_) => SocketAddr::V4(sockopt::ip_original_dst(stream)?),
                SocketAddr::V6(_) => SocketAddr::V6(sockopt::ipv6_original_dst(stream)?),
            },
            #[cfg(test)]
            Self::Told(told) => told(stream)?,
        };
        check(own, target)
    }
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Origin")
    }
}

/// The kernel answers with the gate's own socket for a connection that went there directly.
fn check(own: SocketAddr, target: SocketAddr) -> io::Result<SocketAddr> {
    let is_scoped = matches!(target, SocketAddr::V6(v6) if v6.scope_id() != 0);
    if target == own || target.port() == 0 || is_scoped {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "no original destination"));
    }
    Ok(SocketAddr::new(target.ip(), target.port()))
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
