//! Questions by stream, as a connection to port 53 brings them, and what both ways of asking cost.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::name::Name;
use super::question::Question;
use super::reply::Reply;
use super::{datagrams, stream};
use crate::limits::Limits;
use crate::policy::{EgressPolicy, Policies};
use crate::state::State;
use crate::uplink::{Uplink, UplinkOptions};

/// A question that is refused without asking anybody.
fn question() -> Question {
    Question { name: Name::parse("www.example").expect("a name"), kind: 1 }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).expect("short");
    [&length.to_be_bytes()[..], message].concat()
}

/// Of a sandbox that may move so many bytes in a second.
fn state(bandwidth: u64) -> Arc<State> {
    let limits = Limits { bandwidth, ..Limits::default() };
    let uplink = Uplink::new(UplinkOptions { limits, ..UplinkOptions::default() });
    let policies = Policies { own: EgressPolicy::none(), ceiling: None };
    let uplink = uplink.expect("an uplink");
    Arc::new(State::new(uplink, "somebody", crate::tcp::Origin::Kernel, &policies))
}

fn serve() -> (DuplexStream, JoinHandle<std::io::Result<()>>) {
    serve_of(state(0))
}

fn serve_of(state: Arc<State>) -> (DuplexStream, JoinHandle<std::io::Result<()>>) {
    let (near, far) = duplex(4096);
    (near, tokio::spawn(async move { stream(&state, far).await }))
}

async fn answer(near: &mut DuplexStream) -> Vec<u8> {
    let length = near.read_u16().await.expect("a length");
    let mut message = vec![0; usize::from(length)];
    near.read_exact(&mut message).await.expect("an answer");
    message
}

#[tokio::test]
async fn one_connection_asks_many_questions() {
    let (mut near, served) = serve();
    let messages: Vec<u8> = (1..=20).flat_map(|id| framed(&question().message(id))).collect();
    near.write_all(&messages).await.expect("sent");
    for id in 1..=20 {
        let message = answer(&mut near).await;
        assert!(Reply::is_for(&message, id, &question()), "{id}");
        assert_eq!(message[3] & 0xf, 3);
    }
    // Byte by byte is a question, too.
    for byte in framed(&question().message(21)) {
        near.write_all(&[byte]).await.expect("sent");
    }
    assert!(Reply::is_for(&answer(&mut near).await, 21, &question()));
    near.write_all(&framed(&[0; 13])).await.expect("sent");
    assert_eq!(answer(&mut near).await[3] & 0xf, 1);
    drop(near);
    served.await.expect("no panic").expect("ended");
}

#[tokio::test]
async fn what_is_no_question_ends_the_connection() {
    for message in [vec![0; 11], [0xff; 40].to_vec(), vec![0; 1025], vec![0; 65535]] {
        let (mut near, served) = serve();
        // The other side may be gone before all is written.
        let _gone = near.write_all(&framed(&message)).await;
        let mut rest = Vec::new();
        near.read_to_end(&mut rest).await.expect("the end");
        assert_eq!(rest, b"", "{}", message.len());
        let _either = served.await.expect("no panic");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_idles_is_closed() {
    // Nothing, half a length, half a question.
    for sent in [&b""[..], &b"\0"[..], &b"\0\x40abc"[..]] {
        let (mut near, served) = serve();
        near.write_all(sent).await.expect("sent");
        assert!(served.await.expect("no panic").is_err());
    }
}

/// Bytes of DNS are bytes of the sandbox: counted, and no faster than it may be.
#[tokio::test(start_paused = true)]
async fn questions_and_answers_by_stream_use_up_the_bandwidth() {
    let state = state(1_000);
    let (mut near, _served) = serve_of(Arc::clone(&state));
    let (begin, mut out, mut back) = (Instant::now(), 0, 0);
    for id in 0..100 {
        let message = framed(&question().message(id));
        near.write_all(&message).await.expect("sent");
        out += message.len();
        back += 2 + answer(&mut near).await.len();
    }
    check(&state, begin, out, back);
}

#[tokio::test(start_paused = true)]
async fn questions_and_answers_by_datagram_use_up_the_bandwidth() {
    let state = state(1_000);
    let bind = async || UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let (inside, client) = (bind().await, bind().await);
    client.connect(inside.local_addr().expect("an address")).await.expect("connected");
    let served = tokio::spawn(datagrams(Arc::clone(&state), inside));
    let (begin, mut out, mut back) = (Instant::now(), 0, 0);
    for id in 0..100 {
        let message = question().message(id);
        client.send(&message).await.expect("sent");
        out += message.len();
        back += client.recv(&mut [0; 512]).await.expect("an answer");
    }
    check(&state, begin, out, back);
    served.abort();
}

/// That `out` and `back` are counted, and took as long as they must at 1,000 bytes in a second.
fn check(state: &State, begin: Instant, out: usize, back: usize) {
    let counted = state.tally.read();
    let counted = [counted.bytes_out, counted.bytes_in].map(|it| usize::try_from(it).unwrap_or(0));
    assert_eq!(counted, [out, back]);
    // A quarter of a second is for nothing, and the last question and its answer are not waited for.
    let least = u64::try_from(out + back - 100 - 250).expect("above zero");
    let took = begin.elapsed();
    assert!(took.as_millis() >= u128::from(least), "{took:?} for {out} and {back} bytes");
    assert!(state.bucket.due().is_some(), "connections pay for it");
}
