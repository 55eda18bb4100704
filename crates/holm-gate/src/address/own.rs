//! The addresses of this machine. The kernel is asked for each connection what it would do with a
//! packet to that address, so that an address which came a moment ago counts, and so do ranges that
//! are delivered here without being anybody's address.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

const NLMSG_ERROR: u16 = 2;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const NLM_F_REQUEST: u16 = 1;
const RTA_DST: u16 = 1;
const RTN_UNICAST: u8 = 1;
/// Of `nlmsghdr`, and of `rtmsg` behind it.
const HEADER: usize = 16;
const ROUTE: usize = 12;

/// Asks the kernel whether an address is one of this machine.
#[derive(Debug, Default)]
pub struct Own {
    channel: Mutex<Option<Channel>>,
}

#[derive(Debug)]
struct Channel {
    socket: OwnedFd,
    sequence: u32,
}

/// The kernel did not say.
#[derive(Debug, thiserror::Error)]
#[error("cannot ask the kernel for its route to {address}: {source}")]
pub struct OwnError {
    address: IpAddr,
    source: io::Error,
}

impl Own {
    /// True for what stays on this machine or goes to a whole network (broadcast, anycast).
    ///
    /// # Errors
    /// The kernel did not say; nothing may be dialled then.
    pub fn is_own(&self, address: IpAddr) -> Result<bool, OwnError> {
        let mut channel = self.channel.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let asked = match channel.take() {
            Some(known) => Ok(known),
            None => Channel::open(),
        }
        .and_then(|mut open| Ok((open.ask(address)?, open)));
        match asked {
            Ok((own, open)) => {
                *channel = Some(open);
                Ok(own)
            }
            // The next question gets a new socket.
            Err(source) => Err(OwnError { address, source }),
        }
    }
}

impl Channel {
    fn open() -> io::Result<Self> {
        let kind = (AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(kind.0, kind.1, kind.2, None)?;
        // The kernel answers within the call that asks; this only keeps a fault from hanging.
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(2)))?;
        Ok(Self { socket, sequence: 0 })
    }

    fn ask(&mut self, address: IpAddr) -> io::Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = request(address, self.sequence);
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::net::sendto(&self.socket, &request, SendFlags::empty(), &kernel)?;
        let mut buffer = [0_u8; 4096];
        let (_, length) = rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
        let answer = buffer.get(..length).unwrap_or_default();
        judge(answer, self.sequence)
    }
}

fn request(address: IpAddr, sequence: u32) -> Vec<u8> {
    let (family, bytes) = match address {
        IpAddr::V4(v4) => (2_u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (10_u8, v6.octets().to_vec()),
    };
    let bits = if bytes.len() == 4 { 32 } else { 128 };
    let attribute: u16 = if bytes.len() == 4 { 8 } else { 20 };
    let length = 28 + u32::from(attribute);
    let mut request = Vec::with_capacity(48);
    request.extend(length.to_ne_bytes());
    request.extend(RTM_GETROUTE.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    request.extend(sequence.to_ne_bytes());
    request.extend(0_u32.to_ne_bytes());
    // rtmsg: family, destination bits, and ten bytes for which zero means any.
    request.extend([family, bits]);
    request.extend([0; 10]);
    request.extend(attribute.to_ne_bytes());
    request.extend(RTA_DST.to_ne_bytes());
    request.extend(bytes);
    request
}

/// What the answer says. No route is no address of this machine.
fn judge(answer: &[u8], sequence: u32) -> io::Result<bool> {
    let odd = || io::Error::new(io::ErrorKind::InvalidData, "an answer that is none");
    let two = |at: usize| answer.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
    let four = |at: usize| answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    let kind = two(4).map(u16::from_ne_bytes).ok_or_else(odd)?;
    if four(8).map(u32::from_ne_bytes) != Some(sequence) {
        return Err(odd());
    }
    match kind {
        RTM_NEWROUTE if answer.len() >= HEADER + ROUTE => Ok(answer[HEADER + 7] != RTN_UNICAST),
        NLMSG_ERROR => {
            let code = four(HEADER).map(i32::from_ne_bytes).ok_or_else(odd)?;
            let error = io::Error::from_raw_os_error(code.saturating_neg());
            let no_route = [rustix::io::Errno::NETUNREACH, rustix::io::Errno::HOSTUNREACH];
            // What a host forbids by a route of its own is none of its addresses either.
            let forbidden = [rustix::io::Errno::ACCESS, rustix::io::Errno::INVAL];
            let known = no_route.iter().chain(&forbidden);
            if known.map(|errno| errno.raw_os_error()).any(|raw| error.raw_os_error() == Some(raw))
            {
                Ok(false)
            } else {
                Err(error)
            }
        }
        _ => Err(odd()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn the_kernel_knows_its_addresses() {
        let own = Own::default();
        let check = |text: &str, expected: bool| {
            let address = text.parse().expect("an address");
            assert_eq!(own.is_own(address).expect("an answer"), expected, "{text}");
        };
        check("127.0.0.1", true);
        check("127.9.9.9", true);
        check("::1", true);
        check("192.0.2.1", false);
        check("2001:db8::1", false);
        check("203.0.113.255", false);
        // Whatever address this machine would use towards others, if it has one. Nothing is sent.
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        if socket.connect("192.0.2.1:9").is_ok() {
            let address = socket.local_addr().expect("an address").ip();
            assert!(own.is_own(address).expect("an answer"), "{address}");
        }
    }

    #[test]
    fn an_odd_answer_is_an_error() {
        let good = {
            let mut message = request("192.0.2.1".parse().expect("an address"), 7);
            message[4..6].copy_from_slice(&RTM_NEWROUTE.to_ne_bytes());
            message[HEADER + 7] = RTN_UNICAST;
            message
        };
        assert!(!judge(&good, 7).expect("an answer"));
        let mut local = good.clone();
        local[HEADER + 7] = 2;
        assert!(judge(&local, 7).expect("an answer"));
        assert!(judge(&good, 8).is_err());
        assert!(judge(&good[..20], 7).is_err());
        assert!(judge(&[], 7).is_err());
        let error = |code: i32| {
            let mut message = good[..HEADER].to_vec();
            message[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
            message.extend(code.to_ne_bytes());
            judge(&message, 7)
        };
        assert!(!error(-101).expect("no route"));
        assert!(error(-1).is_err());
        assert!(error(i32::MIN).is_err());
    }
}
