//! Connections to port 53: whichever server they are for, the gate answers.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{REFUSED, World, within};

#[tokio::test]
async fn dns_by_stream_is_answered_by_the_gate() {
    let world = World::new("none");
    // A server of the world, and one that no policy opens.
    for server in ["203.0.113.53:53", &format!("{REFUSED}:53")] {
        let mut stream = world.connect(server.parse().expect("an address")).await;
        let mut question = vec![0, 0, 7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        question.extend(b"\x03www\x07example\x00\x00\x01\x00\x01");
        let length = u8::try_from(question.len() - 2).expect("short");
        question[1] = length;
        for _ in 0..3 {
            stream.write_all(&question).await.expect("sent");
            let length = within(stream.read_u16()).await.expect("a length");
            let mut answer = vec![0; usize::from(length)];
            within(stream.read_exact(&mut answer)).await.expect("an answer");
            assert_eq!((&answer[..2], answer[3] & 0xf), (&[7, 7][..], 3), "{server}");
        }
    }
    assert_eq!(world.gate.counters().dns_queries, 6);
    assert_eq!(world.denied(), "www.example 53 the network is off (`none`)");
    world.settled().await;
}
