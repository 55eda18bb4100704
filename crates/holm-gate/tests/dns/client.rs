//! A gate over sockets on loopback, and the client that a sandbox would have.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use holm_gate::{EgressPolicy, Gate, Policies, Sockets, Uplink, UplinkOptions};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::upstream::{A, AAAA, Upstream, wire};

/// Longer than anything here takes, so that a hang is a failure.
pub const HANG: Duration = Duration::from_secs(50);

pub struct World {
    pub gate: Gate,
    pub address: SocketAddr,
    _uplink: Arc<Uplink>,
}

/// What a client reads of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub rcode: u8,
    pub truncated: bool,
    pub records: Vec<(u16, Vec<u8>)>,
    pub message: Vec<u8>,
}

impl Reply {
    /// Whether the text is somewhere in the message.
    pub fn says(&self, text: &str) -> bool {
        self.message.windows(text.len()).any(|part| part == text.as_bytes())
    }

    pub fn addresses(&self) -> Vec<IpAddr> {
        let read = |(kind, data): &(u16, Vec<u8>)| match *kind {
            A => <[u8; 4]>::try_from(&**data).ok().map(IpAddr::from),
            AAAA => <[u8; 16]>::try_from(&**data).ok().map(IpAddr::from),
            _ => None,
        };
        self.records.iter().filter_map(read).collect()
    }
}

impl World {
    pub fn new(policy: &str, upstreams: &[&Upstream]) -> Self {
        Self::at(policy, upstreams.iter().map(|upstream| upstream.address).collect())
    }

    /// One of a service that denies something to everybody.
    pub fn denying(deny: &str, policy: &str, upstreams: &[&Upstream]) -> Self {
        let resolvers = Some(upstreams.iter().map(|upstream| upstream.address).collect());
        let deny = vec![deny.parse().expect("a rule")];
        Self::with(policy, UplinkOptions { deny, resolvers, ..UplinkOptions::default() })
    }

    pub fn at(policy: &str, servers: Vec<SocketAddr>) -> Self {
        Self::with(policy, UplinkOptions { resolvers: Some(servers), ..UplinkOptions::default() })
    }

    fn with(policy: &str, options: UplinkOptions) -> Self {
        let uplink = Uplink::new(options).expect("an uplink");
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let address = socket.local_addr().expect("an address");
        let sockets = Sockets { tcp: Vec::new(), dns: vec![OwnedFd::from(socket)] };
        let gate = Gate::start(&uplink, "somebody", sockets, policies(policy)).expect("a gate");
        Self { gate, address, _uplink: uplink }
    }

    pub async fn ask(&self, name: &str, kind: u16) -> Reply {
        self.send(&query(name, kind, Some(1232))).await
    }

    /// Sends a message and waits for the answer.
    pub async fn send(&self, message: &[u8]) -> Reply {
        let socket = self.client().await;
        socket.send(message).await.expect("sent");
        receive(&socket).await
    }

    pub async fn client(&self) -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket");
        socket.connect(self.address).await.expect("connected");
        socket
    }
}

pub fn policies(policy: &str) -> Policies {
    let own: EgressPolicy = policy.parse().expect("a policy");
    Policies { own, ceiling: None }
}

pub async fn receive(socket: &UdpSocket) -> Reply {
    let mut buffer = vec![0; 65535];
    let length = timeout(HANG, socket.recv(&mut buffer)).await.expect("an answer").expect("read");
    read(&buffer[..length])
}

/// A question; with `size` also the record that says how long an answer may be.
pub fn query(name: &str, kind: u16, size: Option<u16>) -> Vec<u8> {
    let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(size.is_some())];
    message.extend(wire(name));
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    if let Some(size) = size {
        message.extend([0, 0, 41]);
        message.extend(size.to_be_bytes());
        message.extend([0; 6]);
    }
    message
}

/// Reads what the gate writes: pointers lead to the question only.
pub fn read(message: &[u8]) -> Reply {
    assert_eq!(message[..2], [0xab, 0xcd], "the id of the question");
    let skip_name = |mut at: usize| loop {
        match message[at] {
            0 => return at + 1,
            0xc0 => return at + 2,
            length => at += 1 + usize::from(length),
        }
    };
    let number = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let mut at = 12;
    if number(4) == 1 {
        at = skip_name(at) + 4;
    }
    let mut records = Vec::new();
    for _ in 0..number(6) {
        at = skip_name(at);
        let length = usize::from(number(at + 8));
        records.push((number(at), message[at + 10..at + 10 + length].to_vec()));
        at += 10 + length;
    }
    Reply {
        rcode: message[3] & 0xf,
        truncated: message[2] & 2 != 0,
        records,
        message: message.to_vec(),
    }
}
