//! Questions by stream, as a connection to port 53 brings them.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::name::Name;
use super::question::Question;
use super::reply::Reply;
use super::stream;
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

fn serve() -> (DuplexStream, JoinHandle<std::io::Result<()>>) {
    let uplink = Uplink::new(UplinkOptions::default()).expect("an uplink");
    let policies = Policies { own: EgressPolicy::none(), ceiling: None };
    let state = Arc::new(State::new(uplink, crate::tcp::Origin::Kernel, &policies));
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
