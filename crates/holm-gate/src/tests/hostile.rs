//! Clients that mean no good: what they cost is bounded, what they leave is nothing, and others go
//! on.

use std::sync::atomic::Ordering;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// Raises the number of files that this process may have open as far as it may.
fn raise_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Some(limit.maximum.unwrap_or(0).max(65_536));
    // Root may raise the upper limit as well.
    if setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: wanted }).is_err() {
        let most = Rlimit { current: limit.maximum, maximum: limit.maximum };
        setrlimit(Resource::Nofile, most).expect("as many files as the upper limit says");
    }
    let current = getrlimit(Resource::Nofile).current.unwrap_or(65_536);
    usize::try_from(current).expect("a number")
}

#[tokio::test]
async fn ten_thousand_connections_leave_nothing() {
    // Each has four descriptors in this process, the gate's two among them.
    let at_once = ((raise_files() - 2_000) / 4).min(10_000);
    // All of them are of one owner, who has half of all.
    let limits = crate::Limits {
        connections: 10_000,
        connections_total: 20_000,
        ..crate::Limits::default()
    };
    let world = World::with("open", UplinkOptions { limits, ..UplinkOptions::default() });
    let target = echo().await;
    let mut served = 0;
    while served < 10_000 {
        let wave = at_once.min(10_000 - served);
        let mut open = Vec::with_capacity(wave);
        while open.len() < wave {
            let mut stream = world.connect(target).await;
            ping(&mut stream, "hello").await;
            open.push(stream);
        }
        let counted = usize::try_from(world.gate.counters().connections_open).expect("a number");
        assert_eq!(counted, wave);
        // All are alive still, whichever comes first.
        for stream in open.iter_mut().step_by(97) {
            ping(stream, "again").await;
        }
        for (index, stream) in open.iter().enumerate() {
            // No address stays in use for a minute on account of this test; every other one ends
            // without an order.
            if index % 2 == 0 {
                stream.set_zero_linger().expect("set");
            }
        }
        drop(open);
        world.settled().await;
        served += wave;
    }
    assert_eq!(world.gate.counters().connections_total, 10_000);
    assert_eq!(world.gate.counters().denied_total, 0);
}

#[tokio::test]
async fn who_does_not_read_takes_nothing_from_others() {
    let world = World::new("open");
    let other = World::of(&world.gate.state().uplink, "open");
    let (listener, target) = outside().await;
    // More than the kernel's buffers on the way hold.
    let size = 24 * 1024 * 1024;
    let sender = tokio::spawn(async move {
        let mut sending = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let (mut server, _) = listener.accept().await.expect("a connection");
            sending.spawn(async move {
                let piece = vec![7; 64 * 1024];
                for _ in 0..size / piece.len() {
                    server.write_all(&piece).await?;
                }
                server.shutdown().await
            });
        }
        sending.join_all().await
    });
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut stream = world.connect(target).await;
        let mut first = [0];
        within(stream.read_exact(&mut first)).await.expect("it has begun");
        slow.push(stream);
    }
    // As many pipes as one sandbox may have are in use, and the next connections work without.
    let used = || world.gate.state().pipes_used.load(Ordering::Relaxed);
    eventually(|| used() >= 64).await;
    let echo = echo().await;
    ping(&mut world.connect(echo).await, "the same sandbox").await;
    ping(&mut other.connect(echo).await, "another one").await;
    // The first of them reads after all and gets everything.
    let mut first = slow.swap_remove(0);
    let mut rest = Vec::new();
    within(first.read_to_end(&mut rest)).await.expect("read");
    assert_eq!(rest.len(), size - 1);
    for stream in &slow {
        stream.set_zero_linger().expect("set");
    }
    drop((first, slow));
    let sent = within(sender).await.expect("all ended");
    assert_eq!(sent.iter().filter(|sent| sent.is_ok()).count(), 1, "the others were reset");
    world.settled().await;
}

#[tokio::test]
async fn a_storm_of_resets_leaves_nothing() {
    let (listener, silent) = outside().await;
    let world = World::new("allow:a.example,127.0.0.1:1-65535;deny:b.example");
    world.resolve("a.example", silent);
    for index in 0..2_000 {
        let Ok(mut stream) = world.try_connect(silent).await else { continue };
        if index % 3 == 0 {
            let _sent = stream.write_all(&[0x16, 3, 1]).await;
        }
        stream.set_zero_linger().expect("set");
        drop(stream);
        if index % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    world.settled().await;
    drop(listener);
    ping(&mut world.connect(echo().await).await, "\0still there").await;
}

#[tokio::test]
async fn clients_that_say_nothing_are_only_connections() {
    let target = echo().await;
    let world = World::new("allow:a.example");
    world.resolve("a.example", target);
    let mut silent = Vec::new();
    for index in 0..300 {
        let mut stream = world.connect(target).await;
        match index % 3 {
            0 => {}
            1 => stream.write_all(&[0x16]).await.expect("sent"),
            _ => stream.shutdown().await.expect("an end"),
        }
        silent.push(stream);
    }
    ping(&mut world.connect(target).await, "\0another").await;
    drop(silent);
    world.settled().await;
}

#[tokio::test]
async fn noise_of_all_kinds_is_survived() {
    let target = echo().await;
    let world = World::new("allow:a.example");
    world.resolve("a.example", target);
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..300 {
        let mut noise = Vec::new();
        while noise.len() < 40 + round {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            noise.extend(seed.to_le_bytes());
        }
        match round % 4 {
            0 => noise.splice(..0, [0x16, 3, 1, 0, 0x28, 1, 0, 0, 0x24]).for_each(drop),
            1 => noise.splice(..0, *b"GET / HTTP/1.1\r\nHost: ").for_each(drop),
            2 => noise.splice(..0, *b"GET ").for_each(drop),
            _ => {}
        }
        let mut stream = world.connect(target).await;
        if stream.write_all(&noise).await.is_ok() {
            let _either = stream.shutdown().await;
        }
        let mut rest = Vec::new();
        let _either = within(stream.read_to_end(&mut rest)).await;
    }
    world.settled().await;
    ping(&mut world.connect(target).await, "\0still there").await;
}

#[tokio::test]
async fn a_flood_of_refused_connections_is_only_counted() {
    let world = World::new("none");
    for port in 1_001..=2_000 {
        assert_eq!(world.tried(SocketAddr::from(([127, 0, 0, 1], port))).await, "reset");
    }
    assert_eq!(world.gate.denials().len(), 100);
    assert_eq!(world.gate.counters().denied_total, 1_000);
    world.settled().await;
}

#[tokio::test]
async fn waiting_for_answers_is_bounded() {
    // A listener whose queue is full answers nobody, and nothing is sent to anybody else.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("bound");
    let full = socket.listen(1).expect("a listener");
    let target = full.local_addr().expect("an address");
    let mut queued = Vec::new();
    for _ in 0..8 {
        let stream = std::net::TcpStream::connect_timeout(&target, Duration::from_millis(100));
        queued.push(stream.ok());
    }
    let limits = crate::Limits { dialling: 3, ..crate::Limits::default() };
    let world = World::with("open", UplinkOptions { limits, ..UplinkOptions::default() });
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(world.connect(target).await);
    }
    eventually(|| world.gate.state().dialling.taken() == 3).await;
    assert_eq!(world.tried(target).await, "reset");
    assert!(world.denied().ends_with("limit: 3 connections wait for an answer"));
    // A client that resets does not wait on.
    for stream in waiting {
        stream.set_zero_linger().expect("set");
    }
    world.settled().await;
}
