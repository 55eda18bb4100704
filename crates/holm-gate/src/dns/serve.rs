//! The resolver of one sandbox, by datagram and by stream. Whatever a sandbox sends, there is a bound
//! on what it costs: how many questions wait, how many are read in a second, how long a stream idles.
//! Names and answers carry data as well as connections do, so their bytes are counted with those of
//! connections, and the sandbox's bandwidth bounds them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::answer::{self, Answer};
use super::question::{NoQuery, Query};
use super::resolve;
use super::wire::rcode;
use crate::counters::count;
use crate::pace::Pace;
use crate::relay::{Bucket, Way};
use crate::state::State;
use crate::uplink::Uplink;

/// The most questions of one sandbox that wait for an answer.
pub(crate) const OUTSTANDING: usize = 64;
/// Questions that are read in a second; what comes faster waits in the kernel, or is lost there.
const IN_A_SECOND: u32 = 1000;
/// The longest question.
const LONGEST: usize = 1024;
/// The length in front of a message of a stream.
const LENGTH: usize = 2;
/// How long a stream waits for its next question, or for the client to take an answer.
const IDLE: Duration = Duration::from_secs(10);

/// What bounds the questions of one sandbox.
#[derive(Debug)]
pub(crate) struct Bounds {
    room: Semaphore,
    pace: Pace,
    /// Connections pay for bytes of DNS, and DNS does not for theirs: as fast as the sandbox may be
    /// it has answers also while connections use up everything.
    bucket: Bucket,
}

impl Bounds {
    /// With a bandwidth in bytes per second; 0 for no limit.
    pub(crate) fn new(bandwidth: u64) -> Self {
        let (room, pace) = (Semaphore::new(OUTSTANDING), Pace::new(IN_A_SECOND));
        Self { room, pace, bucket: Bucket::new(bandwidth) }
    }

    /// Waits until the next question may be read.
    async fn turn(&self) {
        self.pace.wait().await;
        // Others may have moved more meanwhile.
        while let Some(pause) = self.bucket.due() {
            sleep(pause).await;
        }
    }
}

/// Counts bytes of DNS.
fn moved(state: &State, way: Way, bytes: usize) {
    let _connections_wait = state.moved(way, bytes);
    let _the_next_turn_waits = state.dns.bucket.take(u64::try_from(bytes).unwrap_or(u64::MAX));
}

/// What is known of an answer when its question has been read.
enum Step {
    /// Nothing is said.
    Nothing,
    /// It was no question.
    Message(Vec<u8>),
    /// It is answered at once.
    Now(Query, Answer),
    /// Somebody else must be asked.
    Ask(Query, resolve::Permitted),
}

fn read(state: &State, message: &[u8]) -> Step {
    let query = match Query::read(message) {
        Ok(query) => query,
        Err(NoQuery::Drop) => return Step::Nothing,
        Err(NoQuery::Answer { id, rcode }) => {
            return Step::Message(answer::without_question(id, rcode));
        }
    };
    count(&state.tally.dns_queries, 1);
    match resolve::permit(state, &query.question) {
        Ok(permitted) => Step::Ask(query, permitted),
        Err(answer) => Step::Now(query, answer),
    }
}

/// Where there is no room to ask the answer is there at once, too.
async fn ask(state: &State, query: &Query, permitted: &resolve::Permitted) -> Answer {
    match state.dns.room.try_acquire() {
        Ok(_room) => resolve::resolve(state, &query.question, permitted).await,
        Err(_) => Answer::code(rcode::SERVER_FAILURE),
    }
}

/// A socket of the sandbox, ready to be served by the uplink's thread.
pub(crate) fn socket(uplink: &Uplink, socket: OwnedFd) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::from(socket);
    socket.set_nonblocking(true)?;
    let _worker = uplink.worker().enter();
    UdpSocket::from_std(socket)
}

/// Answers datagrams for as long as it is polled.
pub(crate) async fn datagrams(state: Arc<State>, socket: UdpSocket) {
    let socket = Arc::new(socket);
    let mut asking = JoinSet::new();
    let mut buffer = [0; LONGEST];
    loop {
        state.dns.turn().await;
        while asking.try_join_next().is_some() {}
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            // No error of one datagram ends the service; one that stays must not turn round.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        moved(&state, Way::Out, length);
        let message = buffer.get(..length).unwrap_or_default();
        match read(&state, message) {
            Step::Nothing => {}
            Step::Message(message) => send(&state, &socket, &message, from),
            Step::Now(query, answer) => {
                send(&state, &socket, &answer.datagram(&query), from);
            }
            Step::Ask(query, permitted) => {
                if asking.len() >= OUTSTANDING {
                    let answer = Answer::code(rcode::SERVER_FAILURE);
                    send(&state, &socket, &answer.datagram(&query), from);
                    continue;
                }
                let (state, socket) = (Arc::clone(&state), Arc::clone(&socket));
                asking.spawn(async move {
                    let answer = ask(&state, &query, &permitted).await;
                    send(&state, &socket, &answer.datagram(&query), from);
                });
            }
        }
    }
}

/// Answers by datagram. Who does not take answers loses them.
fn send(state: &State, socket: &UdpSocket, message: &[u8], to: SocketAddr) {
    if socket.try_send_to(message, to).is_ok() {
        moved(state, Way::In, message.len());
    }
}

/// Answers the questions of one connection, one after the other, until it ends or idles.
///
/// # Errors
/// When the connection breaks, or its client is too slow.
pub(crate) async fn stream<S>(state: &State, mut stream: S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut buffer = [0; LONGEST];
    loop {
        state.dns.turn().await;
        let length = match timeout(IDLE, stream.read_u16()).await? {
            Ok(length) => usize::from(length),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let too_long = || io::Error::other("a question that is too long");
        let message = buffer.get_mut(..length).ok_or_else(too_long)?;
        timeout(IDLE, stream.read_exact(message)).await??;
        moved(state, Way::Out, LENGTH + length);
        let message = match read(state, message) {
            // Where nothing is said by datagram a stream has no more to say.
            Step::Nothing => return Ok(()),
            Step::Message(message) => message,
            Step::Now(query, answer) => answer.stream(&query),
            Step::Ask(query, permitted) => ask(state, &query, &permitted).await.stream(&query),
        };
        let length = u16::try_from(message.len()).map_err(io::Error::other)?;
        let whole = [&length.to_be_bytes()[..], &message].concat();
        timeout(IDLE, stream.write_all(&whole)).await??;
        moved(state, Way::In, whole.len());
    }
}
