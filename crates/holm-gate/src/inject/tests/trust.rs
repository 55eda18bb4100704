//! Whom either side trusts.

use std::time::Duration;

use tokio::time::timeout;

use super::client::{HANG, ask};
use super::host::{Authority, Host, Say};
use super::world::{NAME, PLACEHOLDER, SECRET, World, secure};
use crate::limits::Limits;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_host_must_prove_its_name_before_it_is_sent_anything() {
    let (trusted, unknown) = (Authority::new(), Authority::new());
    // Of an authority that nobody trusts, and of another name.
    for config in [unknown.config(NAME), trusted.config("other.example")] {
        let host = Host::start(Some(config), |_| Say::Bytes(OK)).await;
        let world = World::with(host, &trusted, true);
        let mut client = world.secured().await;
        let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\nX-Api-Key: {PLACEHOLDER}\r\n\r\n");
        let answer = ask(&mut client, &request).await;
        assert_eq!(answer.status, 502);
        assert!(answer.body.contains(NAME), "{}", answer.body);
        assert!(!answer.body.contains(SECRET), "{}", answer.body);
        assert!(world.host.seen().is_empty());
        let denials = world.state.log.read();
        assert_eq!(denials.len(), 1, "{denials:?}");
    }
}

#[tokio::test]
async fn a_host_that_does_not_speak_tls_is_waited_for_no_longer_than_for_a_connection() {
    let host = Host::start(None, |_| Say::Bytes(OK)).await;
    let limits = Limits { connect: Duration::from_millis(300), ..Limits::default() };
    let world = World::within(host, &Authority::new(), true, limits);
    let mut client = world.secured().await;
    let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\nX-Api-Key: {PLACEHOLDER}\r\n\r\n");
    let answer = ask(&mut client, &request).await;
    assert_eq!(answer.status, 502);
    assert!(answer.body.contains("timed out"), "{}", answer.body);
    assert!(world.host.seen().is_empty());
}

#[tokio::test]
async fn a_host_that_is_not_there_is_said() {
    let authority = Authority::new();
    let host = Host::start(None, |_| Say::Bytes(OK)).await;
    let mut world = World::with(host, &authority, true);
    let gone = Host::start(None, |_| Say::Bytes(OK)).await;
    world.host.address = gone.address;
    drop(gone);
    let mut client = world.secured().await;
    let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    let answer = ask(&mut client, &request).await;
    assert_eq!(answer.status, 502);
    assert!(
        answer.body.starts_with("holm egress gate: cannot connect to api.example"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_gate_gets_nothing() {
    let world = World::new(|_| Say::Bytes(OK)).await;
    let other = Authority::new();
    let (near, work) = world.connect(true);
    assert!(secure(near, &other.pem, NAME).await.is_err());
    assert!(timeout(HANG, work).await.expect("no hang").expect("no panic").is_err());
    assert_eq!(world.host.connections(), 0);
    let denials = world.state.log.read();
    let rule = &denials.last().expect("a denial").rule;
    assert!(rule.contains("does not accept the gate's certificate"), "{rule}");
}

#[tokio::test]
async fn newer_protocols_fall_back() {
    let world = World::new(|_| Say::Bytes(OK)).await;
    // The client offers h2 first.
    let client = world.secured().await;
    assert_eq!(client.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}
