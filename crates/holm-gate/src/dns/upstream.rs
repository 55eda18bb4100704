//! Questions to the host's servers: each from a port and with a number of its own that nobody can
//! guess, over TCP where the answer does not fit, the next server where one does not answer.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::time::{Instant, timeout, timeout_at};

use super::question::Question;
use super::reply::Reply;
use super::servers::Servers;
use super::wire::rcode;
use crate::share::{Common, Share};

/// One question in all, other servers included. Clients wait five seconds.
const IN_ALL: Duration = Duration::from_millis(4500);
/// One server, once.
const ONE: Duration = Duration::from_millis(1400);
/// The most questions of all sandboxes that wait for an answer; of one owner's, half at most.
const OUTSTANDING: usize = 2048;
/// The most datagrams that are looked at for one answer: more is somebody who guesses.
const GUESSES: usize = 16;

/// The servers, and how much they are asked at once.
#[derive(Debug)]
pub(crate) struct Upstream {
    servers: Servers,
    room: Common,
}

/// No answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no server answered")]
pub(crate) struct NoReply;

impl Upstream {
    pub(crate) fn new(servers: Servers, is_shared: bool) -> Self {
        Self { servers, room: Common::new(OUTSTANDING, is_shared) }
    }

    /// The answer of the first server that has one.
    pub(crate) async fn ask(
        &self,
        share: &Share,
        question: &Question,
        until: Instant,
    ) -> Result<Reply, NoReply> {
        let _place = self.room.enter(&share.asking).map_err(|_| NoReply)?;
        let servers = self.servers.now();
        // Each twice, but never longer than in all: a lost datagram is not a dead server.
        for server in servers.iter().chain(&servers) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match timeout(left.min(ONE), datagram(*server, question)).await {
                Ok(Ok(reply)) if reply.truncated => {
                    // The same server, which is there; for the rest of the time.
                    match timeout_at(until, stream(*server, question)).await {
                        Ok(Ok(reply)) if is_answer(&reply) => return Ok(reply),
                        _ => {}
                    }
                }
                Ok(Ok(reply)) if is_answer(&reply) => {
                    if servers.first() != Some(server) {
                        self.servers.prefer(*server);
                    }
                    return Ok(reply);
                }
                _ => {}
            }
        }
        Err(NoReply)
    }

    /// When a question that begins now has had its time.
    pub(crate) fn deadline() -> Instant {
        Instant::now() + IN_ALL
    }
}

/// What a server says about the name, not about itself.
fn is_answer(reply: &Reply) -> bool {
    !reply.truncated && matches!(reply.rcode, rcode::NO_ERROR | rcode::NO_SUCH_NAME)
}

/// By datagram, from a port that the kernel draws.
async fn datagram(server: SocketAddr, question: &Question) -> io::Result<Reply> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    // The kernel gives us what comes from this server's address and port only.
    socket.connect(server).await?;
    let id = random_id()?;
    socket.send(&question.message(id)).await?;
    let mut buffer = vec![0; 4096];
    for _ in 0..GUESSES {
        let length = socket.recv(&mut buffer).await?;
        let message = buffer.get(..length).unwrap_or_default();
        if Reply::is_for(message, id, question) {
            return Reply::read(message).map_err(io::Error::other);
        }
    }
    Err(io::Error::other("too many datagrams that answer something else"))
}

async fn stream(server: SocketAddr, question: &Question) -> io::Result<Reply> {
    let socket = if server.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    let mut stream = socket.connect(server).await?;
    let id = random_id()?;
    let message = question.message(id);
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], &message].concat()).await?;
    let length = usize::from(stream.read_u16().await?);
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    if !Reply::is_for(&message, id, question) {
        return Err(io::Error::other("the answer is to another question"));
    }
    Reply::read(&message).map_err(io::Error::other)
}

fn random_id() -> io::Result<u16> {
    let mut bytes = [0; 2];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u16::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::name::Name;
    use super::super::wire::kind;
    use super::*;

    #[tokio::test]
    async fn however_much_somebody_asks_others_are_answered() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket");
        let servers = Servers::given(vec![server.local_addr().expect("an address")]);
        let upstream = Upstream { servers, room: Common::new(3, true) };
        let question = Question { name: Name::parse("a.example").expect("a name"), kind: kind::A };
        let (one, other) = (Share::default(), Share::default());
        // Nobody answers; a question waits for as long as it is polled.
        let until = Upstream::deadline();
        let ask = |share| Box::pin(upstream.ask(share, &question, until));
        let mut waiting = [ask(&one), ask(&one)];
        for asked in &mut waiting {
            let mut buffer = [0; 512];
            tokio::select! {
                biased;
                _ = asked => panic!("nobody answers"),
                received = server.recv(&mut buffer) => { received.expect("it is asked"); }
            }
        }
        assert!(ask(&one).await.is_err(), "at once: what is free is for others");
        let mut buffer = [0; 512];
        tokio::select! {
            biased;
            _ = ask(&other) => panic!("it is asked, and nobody answers"),
            received = server.recv(&mut buffer) => { received.expect("it is asked"); }
        }
        assert!(other.asking.taken() == 0 && one.asking.taken() == 2, "given back with its end");
    }
}
