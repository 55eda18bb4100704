//! The cable itself: every packet that opens something is taken note of, whether a server is there
//! or not.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with};

use crate::host::Network;

/// Somebody who sends to somebody.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// `tcp` (the first packet of a connection), `udp`, or the protocol's number.
    pub protocol: String,
    /// Sender; the port of an opening side says nothing and is left out.
    pub from: IpAddr,
    /// Receiver.
    pub to: SocketAddr,
}

/// What went over the cable, with how often.
#[derive(Debug, Default, Clone)]
pub struct Wire {
    flows: Arc<Mutex<BTreeMap<Flow, u64>>>,
}

/// The Ethernet address of the host's end.
const HOST: [u8; 6] = [2, 0, 0, 0, 0, 1];
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
const HOP_BY_HOP: u8 = 0;

impl Wire {
    /// Everything that the host sent so far.
    pub fn flows(&self) -> Vec<(Flow, u64)> {
        let flows = self.flows.lock().expect("no panic inside");
        flows.iter().map(|(flow, count)| (flow.clone(), *count)).collect()
    }

    /// Whether anything went to an address.
    pub fn reached(&self, address: IpAddr) -> bool {
        self.flows().iter().any(|(flow, _)| flow.to.ip() == address)
    }

    /// Forgets what was.
    pub fn clear(&self) {
        self.flows.lock().expect("no panic inside").clear();
    }

    /// Waits until everything that was sent so far is known: sends one datagram more from the
    /// host's `network`, waits for that, and forgets it.
    pub(crate) fn settle(&self, network: &Network) -> Result<(), String> {
        static NEXT: AtomicU16 = AtomicU16::new(1);
        let mark = SocketAddr::from(([192, 0, 2, 254], NEXT.fetch_add(1, Ordering::SeqCst).max(1)));
        let send = || {
            network.enter()?;
            let sent =
                UdpSocket::bind(("0.0.0.0", 0)).and_then(|socket| socket.send_to(b"x", mark));
            sent.map(drop).map_err(|error| format!("a datagram on the cable: {error}"))
        };
        let sent = thread::scope(|scope| scope.spawn(send).join());
        sent.map_err(|_| "a thread panicked".to_owned())??;
        let begun = Instant::now();
        loop {
            let mut flows = self.flows.lock().expect("no panic inside");
            let before = flows.len();
            flows.retain(|flow, _| flow.to != mark);
            if flows.len() < before {
                return Ok(());
            }
            drop(flows);
            if begun.elapsed() > Duration::from_secs(60) {
                return Err("a datagram was never seen on the cable".to_owned());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Opens the socket in the network of the calling thread.
    pub(crate) fn socket() -> Result<OwnedFd, String> {
        // All protocols, in network byte order.
        let all = NonZero::new(u32::from(3u16.to_be())).map(Protocol::from_raw);
        let made = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, all)
            .and_then(|socket| {
                // So that the end is noticed where nothing comes.
                set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_millis(50)))?;
                Ok(socket)
            });
        made.map_err(|error| format!("a packet socket: {error}"))
    }

    /// Reads until `over` says so.
    pub(crate) fn watch(&self, socket: &OwnedFd, over: impl Fn() -> bool) {
        let mut packet = [0; 128];
        while !over() {
            let Ok((_, length)) = recv(socket, &mut packet, RecvFlags::TRUNC) else { continue };
            let packet = &packet[..length.min(packet.len())];
            // The internet's own packets pass by here too.
            let of_host = packet.get(6..12) == Some(&HOST[..]);
            if let Some(flow) = packet.get(14..).filter(|_| of_host).and_then(parse) {
                let mut flows = self.flows.lock().expect("no panic inside");
                if flows.len() < 10_000 || flows.contains_key(&flow) {
                    *flows.entry(flow).or_default() += 1;
                }
            }
        }
    }
}

fn parse(packet: &[u8]) -> Option<Flow> {
    let (protocol, from, to, rest) = match packet.first()? >> 4 {
        4 => {
            let four = |at: usize| <[u8; 4]>::try_from(packet.get(at..at + 4)?).ok();
            let header = usize::from(packet[0] & 15) * 4;
            let (from, to) = (Ipv4Addr::from(four(12)?), Ipv4Addr::from(four(16)?));
            (packet[9], IpAddr::V4(from), IpAddr::V4(to), packet.get(header..)?)
        }
        6 => {
            let address = |at: usize| <[u8; 16]>::try_from(packet.get(at..at + 16)?).ok();
            let (from, to) = (Ipv6Addr::from(address(8)?), Ipv6Addr::from(address(24)?));
            (packet[6], IpAddr::V6(from), IpAddr::V6(to), packet.get(40..)?)
        }
        _ => return None,
    };
    // Neighbours that look for each other or name their groups.
    let among_neighbours = protocol == ICMP6
        || protocol == HOP_BY_HOP && from.is_ipv6() && rest.first() == Some(&ICMP6);
    if among_neighbours {
        return None;
    }
    let port = || Some(u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]));
    match protocol {
        TCP => {
            // SYN without ACK.
            let opens = rest.get(13)? & 0x12 == 2;
            let to = SocketAddr::new(to, port()?);
            opens.then(|| Flow { protocol: "tcp".to_owned(), from, to })
        }
        UDP => Some(Flow { protocol: "udp".to_owned(), from, to: SocketAddr::new(to, port()?) }),
        other => Some(Flow { protocol: other.to_string(), from, to: SocketAddr::new(to, 0) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_opens_something_counts() {
        let mut packet =
            vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, TCP, 0, 0, 198, 51, 100, 1, 10, 0, 0, 1];
        packet.extend([0x99, 0x99, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2]);
        let flow = parse(&packet).expect("a connection begins");
        assert_eq!(
            (flow.protocol.as_str(), flow.to.to_string()),
            ("tcp", "10.0.0.1:80".to_owned())
        );
        packet[33] = 0x10;
        assert_eq!(parse(&packet), None);
        packet[9] = UDP;
        assert_eq!(parse(&packet).expect("a datagram").protocol, "udp");
        packet[9] = 1;
        assert_eq!(parse(&packet).expect("a ping").to.to_string(), "10.0.0.1:0");
        assert_eq!(parse(&packet[..12]), None);
    }
}
