//! Connections that are permitted by their address: bytes, ends, counters.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

#[tokio::test]
async fn bytes_go_both_ways_and_are_counted() {
    let world = World::new("open");
    let mut stream = world.connect(echo().await).await;
    ping(&mut stream, "hello").await;
    ping(&mut stream, "again and again").await;
    assert_eq!(world.gate.counters().connections_open, 1);
    stream.shutdown().await.expect("an end");
    assert_eq!(outcome(&mut stream).await, "end");
    world.settled().await;
    let counters = world.gate.counters();
    assert_eq!((counters.bytes_out, counters.bytes_in), (20, 20));
    assert_eq!((counters.connections_total, counters.denied_total), (1, 0));
}

#[tokio::test]
async fn a_half_close_is_kept() {
    let world = World::new("open");
    let (listener, address) = outside().await;
    let mut stream = world.connect(address).await;
    let (mut server, _) = listener.accept().await.expect("a connection");
    stream.write_all(b"question").await.expect("sent");
    stream.shutdown().await.expect("an end");
    assert_eq!(outcome(&mut server).await, "question");
    server.write_all(b"answer").await.expect("the other way is open");
    server.shutdown().await.expect("an end");
    assert_eq!(outcome(&mut stream).await, "answer");
    world.settled().await;

    // The server's end first.
    let mut stream = world.connect(address).await;
    let (mut server, _) = listener.accept().await.expect("a connection");
    server.shutdown().await.expect("an end");
    assert_eq!(outcome(&mut stream).await, "end");
    stream.write_all(b"late").await.expect("the other way is open");
    drop(stream);
    assert_eq!(outcome(&mut server).await, "late");
    world.settled().await;
}

#[tokio::test]
async fn resets_are_passed_on() {
    let world = World::new("open");
    let (listener, address) = outside().await;
    let mut stream = world.connect(address).await;
    let (server, _) = listener.accept().await.expect("a connection");
    server.set_zero_linger().expect("set");
    drop(server);
    assert_eq!(outcome(&mut stream).await, "reset");

    let stream = world.connect(address).await;
    let (mut server, _) = listener.accept().await.expect("a connection");
    stream.set_zero_linger().expect("set");
    drop(stream);
    assert_eq!(outcome(&mut server).await, "reset");
    world.settled().await;
}

#[tokio::test]
async fn nobody_there_is_a_reset() {
    let world = World::new("open");
    let (listener, address) = outside().await;
    drop(listener);
    assert_eq!(world.tried(address).await, "reset");
    assert_eq!(world.denied(), "nothing");
    world.settled().await;
}

#[tokio::test]
async fn refusals_are_noted_no_faster_than_their_pace_and_stand_in_nobodys_way() {
    let world = World::new("open");
    let refused: SocketAddr = format!("{REFUSED}:80").parse().expect("an address");
    let mut kept = world.connect(echo().await).await;
    let begun = std::time::Instant::now();
    for _ in 0..2500 {
        assert_eq!(world.tried(refused).await, "reset");
    }
    // What is permitted goes on, and begins, as before.
    ping(&mut kept, "hello").await;
    let mut new = world.connect(echo().await).await;
    ping(&mut new, "hello").await;
    let counters = world.gate.counters();
    assert_eq!((counters.denied_total, counters.connections_total), (2500, 2502));
    let noted = counters.denied_total - counters.denied_unlogged;
    let pace = u64::from(crate::state::NOTED);
    assert!((pace..=pace * (begun.elapsed().as_secs() + 2)).contains(&noted), "{noted}");
    drop((kept, new));
    world.settled().await;
}

/// Bytes that tell where they belong.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at * 31 + at / 251) % 256).expect("a byte")).collect()
}

#[tokio::test]
async fn many_bytes_arrive_whole_both_ways_at_once() {
    for bandwidth in [0, 512 * 1024 * 1024] {
        let limits = crate::Limits { bandwidth, ..crate::Limits::default() };
        let world = World::with("open", UplinkOptions { limits, ..UplinkOptions::default() });
        let stream = world.connect(echo().await).await;
        let (mut read, mut write) = stream.into_split();
        let sent = pattern(24 * 1024 * 1024);
        let expected = sent.clone();
        let sender = tokio::spawn(async move {
            for piece in sent.chunks(77_777) {
                write.write_all(piece).await.expect("sent");
            }
            write.shutdown().await.expect("an end");
        });
        let mut received = Vec::new();
        within(read.read_to_end(&mut received)).await.expect("received");
        sender.await.expect("all sent");
        assert!(received == expected, "the bytes differ");
        world.settled().await;
        let moved = u64::try_from(expected.len()).expect("a number");
        let counters = world.gate.counters();
        assert_eq!((counters.bytes_out, counters.bytes_in), (moved, moved));
    }
}

#[tokio::test]
async fn without_pipes_bytes_are_copied() {
    let world = World::new("open");
    // All pipes of this sandbox are in use elsewhere.
    world.gate.state().pipes_used.store(usize::MAX / 2, std::sync::atomic::Ordering::Relaxed);
    let (listener, address) = outside().await;
    let mut stream = world.connect(address).await;
    let (mut server, _) = listener.accept().await.expect("a connection");
    let sent = pattern(8 * 1024 * 1024);
    let expected = sent.clone();
    let sender = tokio::spawn(async move {
        server.write_all(&sent).await.expect("sent");
    });
    let mut received = Vec::new();
    within(stream.read_to_end(&mut received)).await.expect("received");
    sender.await.expect("all sent");
    assert!(received == expected, "the bytes differ");
}

#[tokio::test]
async fn a_silent_connection_ends_after_its_time() {
    let limits = crate::Limits { idle: Duration::from_millis(50), ..crate::Limits::default() };
    let world = World::with("open", UplinkOptions { limits, ..UplinkOptions::default() });
    let (listener, address) = outside().await;
    let mut stream = world.connect(address).await;
    let (mut server, _) = listener.accept().await.expect("a connection");
    assert_eq!(outcome(&mut stream).await, "reset");
    assert_eq!(outcome(&mut server).await, "reset");
    world.settled().await;
}
