//! Networks for tests and benchmarks: a host on which holm runs, and an internet in front of it.
//!
//! Both are network namespaces of their own with a cable between them, held by two processes that
//! end with whoever made them, so that nothing is left whatever happens. The host has global
//! addresses of the documentation ranges, which exist nowhere else. The internet answers at *every*
//! address, also at private ones and at those of clouds' metadata: what gets past holm's gate does
//! connect, and is seen. Beside what the servers there record, every packet that opens something is
//! taken note of on the cable itself.

mod counted;
mod dns;
mod git;
mod host;
mod http;
mod internet;
mod message;
mod proxy;
mod seen;
mod tls;
mod wire;

use std::net::{Ipv4Addr, Ipv6Addr};

pub use dns::{Dns, Query};
pub use git::Repositories;
pub use host::{Host, Network};
pub use internet::Internet;
pub use message::{Data, Reply};
pub use proxy::Proxy;
pub use seen::{Connection, Request, Seen};
pub use tls::authority_pem;
pub use wire::{Flow, Wire};

/// The host of holm, its global addresses.
pub const HOLM4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// The same of version 6.
pub const HOLM6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
/// Further global addresses of the host.
pub const HOLM_ALSO4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);
/// The same of version 6.
pub const HOLM_ALSO6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x77, 0, 0, 0, 0, 1);
/// Where the internet's server of names is.
pub const DNS4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 53);
/// The same of version 6.
pub const DNS6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x53, 0, 0, 0, 0, 0x53);
/// A site, for `site.bed.test`.
pub const SITE4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
/// The same of version 6.
pub const SITE6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x10, 0, 0, 0, 0, 0x10);
/// Another site, for `other.bed.test`.
pub const OTHER4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 20);
/// The same of version 6.
pub const OTHER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x20, 0, 0, 0, 0, 0x20);
/// Where the forward proxy is.
pub const PROXY4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 128);

/// Ports at which plain HTTP is spoken.
pub const HTTP_PORTS: [u16; 4] = [80, 8000, 8080, 22];
/// The port at which TLS is spoken.
pub const TLS_PORT: u16 = 443;
/// The port at which the server speaks first.
pub const GREETING_PORT: u16 = 2525;
/// The port at which bytes come back.
pub const ECHO_PORT: u16 = 7;
/// Ports at which datagrams come back.
pub const UDP_PORTS: [u16; 3] = [7, 123, 443];
/// The port of the forward proxy.
pub const PROXY_PORT: u16 = 3128;

/// A host for holm and an internet in front of it.
pub struct Bed {
    /// Where holm runs.
    pub host: Host,
    /// All the rest.
    pub internet: Internet,
}

impl Bed {
    /// Makes both; needs the rights of root and `ip`.
    pub fn new() -> Result<Self, String> {
        let host = Host::new()?;
        let other = Host::new()?;
        host.ip(&format!(
            "link set lo up\n\
             link add wan address 02:00:00:00:00:01 type veth peer name lan netns {}\n\
             address add {HOLM4}/24 dev wan\n\
             address add {HOLM6}/64 dev wan nodad\n\
             address add {HOLM_ALSO4}/32 dev wan\n\
             address add {HOLM_ALSO6}/128 dev wan nodad\n\
             link set wan up\n\
             route add default via 198.51.100.254\n\
             route add default via 2001:db8:1::fe dev wan\n",
            other.pid()
        ))?;
        // Every address but the host's own is one of this machine; those of version 6 at which
        // datagrams are served have to be its own by name.
        other.ip(&format!(
            "link set lo up\n\
             address add 198.51.100.254/24 dev lan\n\
             address add 2001:db8:1::fe/64 dev lan nodad\n\
             address add {DNS6}/128 dev lan nodad\n\
             address add {SITE6}/128 dev lan nodad\n\
             link set lan up\n\
             route add {HOLM4}/32 dev lan table local\n\
             route add {HOLM6}/128 dev lan table local\n\
             route add {HOLM_ALSO4}/32 dev lan table local\n\
             route add {HOLM_ALSO6}/128 dev lan table local\n\
             route add fe80::/64 dev lan table local\n\
             route add local 0.0.0.0/0 dev lo table local\n\
             route add local ::/1 dev lo table local\n\
             route add local 8000::/1 dev lo table local\n"
        ))?;
        host.resolvers(&format!("nameserver {DNS4}\nnameserver {DNS6}\n"))?;
        let internet = Internet::start(other)?;
        Ok(Self { host, internet })
    }

    /// Everything that the host has sent so far; nothing of it is still on its way.
    pub fn sent(&self) -> Vec<Flow> {
        let settled = self.host.network().and_then(|network| self.internet.wire.settle(&network));
        settled.expect("the host's network is there");
        self.internet.wire.flows().into_iter().map(|(flow, _)| flow).collect()
    }
}
