//! Messages that nobody honest sends, from either side.

use std::collections::HashSet;

use super::client::{World, query};
use super::upstream::{A, Asked, Say, Upstream, a, message, wire, yes};

/// What follows the name `a.example` in an answer to a question for its address.
fn answer(asked: &Asked, records: &[u8], count: u8) -> Vec<u8> {
    let mut whole = message(asked, 0x8180, &[], &[]);
    whole[7] = count;
    whole.extend_from_slice(records);
    whole
}

#[tokio::test]
async fn answers_of_somebody_else_are_not_taken() {
    let upstream = Upstream::start(|asked| {
        let forged = |change: fn(&mut Vec<u8>)| {
            let mut forged = message(asked, 0x8180, &[a("a.example", "203.0.113.66")], &[]);
            change(&mut forged);
            forged
        };
        let mut other = asked.clone();
        other.name = "b.example".to_owned();
        let right = message(asked, 0x8180, &[a("a.example", "203.0.113.1")], &[]);
        Say::Raw(vec![
            forged(|m| m[0] ^= 1),
            forged(|m| m[1] ^= 0x80),
            forged(|m| m[2] &= 0x7f),
            forged(|m| m[5] = 0),
            forged(|m| m.truncate(11)),
            message(&other, 0x8180, &[a("b.example", "203.0.113.66")], &[]),
            Vec::new(),
            right,
        ])
    })
    .await;
    let world = World::new("open", &[&upstream]);
    let expected: std::net::IpAddr = [203, 0, 113, 1].into();
    assert_eq!(world.ask("a.example", A).await.addresses(), [expected]);
}

#[tokio::test]
async fn ids_and_ports_are_not_to_be_guessed() {
    let upstream = Upstream::start(|_| yes(vec![a("a.example", "203.0.113.1")])).await;
    let world = World::new("open", &[&upstream]);
    for _ in 0..20 {
        assert_eq!(world.ask("a.example", A).await.rcode, 0);
    }
    let asked = upstream.asked();
    let ids: HashSet<&[u8]> = asked.iter().map(|asked| &asked.message[..2]).collect();
    let ports: HashSet<u16> = asked.iter().map(|asked| asked.from.port()).collect();
    // Twenty draws of 65,536 and of 28,000: three that meet others are once in a million.
    assert!(ids.len() >= 17, "{}", ids.len());
    assert!(ports.len() >= 17, "{}", ports.len());
}

#[tokio::test]
async fn records_of_other_names_are_not_told() {
    let upstream = Upstream::start(|_| {
        yes(vec![
            a("bank.example", "203.0.113.66"),
            a("a.example", "203.0.113.1"),
            a("a.example.evil.example", "203.0.113.66"),
        ])
    })
    .await;
    let world = World::new("open", &[&upstream]);
    assert_eq!(world.ask("a.example", A).await.records, [(A, vec![203, 0, 113, 1])]);
}

#[tokio::test]
async fn malformed_answers_are_failures() {
    const LOOPS: &[u8] = b"\xc0\x1b\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x01\x02\x03\x04";
    const FORWARD: &[u8] = b"\xc0\xff\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x01\x02\x03\x04";
    const CUT: &[u8] = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x01\x02";
    const SHORT: &[u8] = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x02\x01\x02";
    for records in [LOOPS, FORWARD, CUT, SHORT] {
        let upstream =
            Upstream::start(move |asked| Say::Raw(vec![answer(asked, records, 1)])).await;
        let world = World::new("open", &[&upstream]);
        assert_eq!(world.ask("a.example", A).await.rcode, 2, "{records:?}");
    }
    // More records than there are.
    for count in [2, 255] {
        let upstream = Upstream::start(move |asked| {
            let one = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xcb\x00\x71\x01";
            Say::Raw(vec![answer(asked, one, count)])
        })
        .await;
        let world = World::new("open", &[&upstream]);
        assert_eq!(world.ask("a.example", A).await.rcode, 2, "{count}");
    }
}

#[tokio::test]
async fn malformed_questions_are_answered_or_dropped() {
    let upstream = Upstream::start(|_| yes(vec![a("a.example", "203.0.113.1")])).await;
    let world = World::new("open", &[&upstream]);
    let good = query("a.example", A, None);
    let check = async |rcode: u8, change: fn(&mut Vec<u8>)| {
        let mut message = good.clone();
        change(&mut message);
        // What is dropped has no answer; the good one behind it has.
        let reply = world.send(&message).await;
        assert_eq!(reply.rcode, rcode, "{message:?}");
    };
    check(1, |m| m[5] = 2).await;
    check(1, |m| m[5] = 0).await;
    check(1, |m| m[7] = 9).await;
    check(1, |m| m[12] = 0xc0).await;
    check(1, |m| m[12] = 63).await;
    check(1, |m| m.truncate(14)).await;
    check(4, |m| m[2] = 0x28).await;
    check(3, |m| m[13] = b'!').await;
    let mut long = good[..12].to_vec();
    for _ in 0..4 {
        long.extend(wire(&"a".repeat(63))[..64].iter());
    }
    long.extend([0, 0, 1, 0, 1]);
    assert_eq!(world.send(&long).await.rcode, 1);
    let client = world.client().await;
    for dropped in [&good[..0], &good[..11], &[0xff; 600], &message_back(&good)] {
        client.send(dropped).await.expect("sent");
    }
    client.send(&good).await.expect("sent");
    let reply = super::client::receive(&client).await;
    assert_eq!((reply.rcode, reply.addresses().len()), (0, 1));
    assert_eq!(upstream.names(), ["a.example"]);
}

/// The question as if it were an answer.
fn message_back(message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    message[2] |= 0x80;
    message
}
