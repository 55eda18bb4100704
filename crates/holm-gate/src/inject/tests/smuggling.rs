//! Requests that try to be two, or somebody else's. The host sees what the gate has read, or nothing.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::client::{HANG, answer, ask};
use super::host::Say;
use super::world::{NAME, PLACEHOLDER, SECRET, World};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The status that a request gets, and the requests that the host saw.
async fn tried(request: &str) -> (u16, Vec<super::host::Seen>) {
    let world = World::new(|_| Say::Bytes(OK)).await;
    let mut client = world.secured().await;
    let answer = ask(&mut client, request).await;
    (answer.status, world.host.seen())
}

#[tokio::test]
async fn what_is_malformed_does_not_reach_the_host() {
    let host = format!("Host: {NAME}\r\n");
    for request in [
        format!("GET / HTTP/1.1\r\n{host}Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde"),
        format!("POST / HTTP/1.1\r\n{host}Content-Length: 3, 5\r\n\r\nabcde"),
        format!("POST / HTTP/1.1\r\n{host}Content-Length: +3\r\n\r\nabc"),
        format!("POST / HTTP/1.1\r\n{host}Content-Length: -1\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: gzip\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n"),
        format!("POST / HTTP/1.0\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{host}Authorization: Bearer\r\n {PLACEHOLDER}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{host}Authorization : {PLACEHOLDER}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{host} Authorization: {PLACEHOLDER}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{host}X: a\rb\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{host}X: a\0b\r\n\r\n"),
        format!("GET / /x HTTP/1.1\r\n{host}\r\n"),
        format!("GET / HTTP/2.0\r\n{host}\r\n"),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\n{host}{host}\r\n"),
    ] {
        let (status, seen) = tried(&request).await;
        assert_eq!(status, 400, "{request}");
        assert!(seen.is_empty(), "{request}: {seen:?}");
    }
    // HTTP/2 without having been agreed on: there is no answer that it would understand.
    let world = World::new(|_| Say::Bytes(OK)).await;
    let mut client = world.secured().await;
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("sent");
    let mut rest = Vec::new();
    let _end = timeout(HANG, client.read_to_end(&mut rest)).await.expect("no hang");
    assert_eq!((rest.len(), world.host.connections()), (0, 0));
}

#[tokio::test]
async fn requests_for_other_hosts_are_refused() {
    for (target, host) in [
        ("/", "other.example"),
        ("/", "api.example:8443"),
        ("/", "api.example.other.example"),
        ("https://other.example/", NAME),
        ("https://api.example@other.example/", NAME),
        ("http://api.example/", NAME),
        ("https://api.example/", "other.example"),
    ] {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {PLACEHOLDER}\r\n\r\n"
        );
        let (status, seen) = tried(&request).await;
        assert_eq!(status, 421, "{request}");
        assert!(seen.is_empty(), "{seen:?}");
    }
    for request in [
        format!("CONNECT {NAME}:443 HTTP/1.1\r\nHost: {NAME}\r\n\r\n"),
        format!("TRACE / HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: {PLACEHOLDER}\r\n\r\n"),
    ] {
        let (status, seen) = tried(&request).await;
        assert_eq!((status, seen.len()), (405, 0), "{request}");
    }
}

#[tokio::test]
async fn a_later_request_of_a_connection_is_checked_like_the_first() {
    let world = World::new(|_| Say::Bytes(OK)).await;
    let mut client = world.secured().await;
    let good = format!("GET /1 HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    let bad = "GET /2 HTTP/1.1\r\nHost: other.example\r\n\r\n";
    let third = format!("GET /3 HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    // All at once, so that they wait in one buffer.
    client.write_all(format!("{good}{bad}{third}").as_bytes()).await.expect("sent");
    assert_eq!(answer(&mut client).await.status, 200);
    let refused = answer(&mut client).await;
    assert_eq!(refused.status, 421);
    assert!(refused.body.contains(NAME) && refused.body.contains("other.example"), "{refused:?}");
    // After a refusal nothing more is read of this connection.
    let seen = world.host.seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    let denials = world.state.log.read();
    assert_eq!(denials.last().and_then(|last| last.name.clone()).as_deref(), Some(NAME));
}

#[tokio::test]
async fn what_has_two_lengths_is_one_request() {
    let hidden = format!("GET /hidden HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    for first in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: \
                   chunked\r\nContent-Length: 4",
    ] {
        let request = format!(
            "POST /seen HTTP/1.1\r\nHost: {NAME}\r\n{first}\r\n\r\n{:x}\r\n{hidden}\r\n0\r\n\r\n",
            hidden.len()
        );
        let (status, seen) = tried(&request).await;
        assert_eq!((status, seen.len()), (200, 1), "{seen:?}");
        assert_eq!(seen[0].all("transfer-encoding"), ["chunked"]);
        assert_eq!(seen[0].all("content-length"), [""; 0]);
        assert!(String::from_utf8_lossy(&seen[0].body).contains("/hidden"));
    }
    let twice = format!(
        "POST /seen HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"
    );
    let (status, seen) = tried(&twice).await;
    assert_eq!((status, seen.len()), (200, 1), "{seen:?}");
    assert_eq!(seen[0].all("content-length"), ["3"]);
}

#[tokio::test]
async fn a_placeholder_in_pieces_stays_in_pieces() {
    let (front, back) = PLACEHOLDER.split_at(6);
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: {front}\r\nAuthorization: \
         {back}\r\nX-Api-Key: {front} {back}\r\n\r\n"
    );
    let (status, seen) = tried(&request).await;
    assert_eq!(status, 200);
    assert_eq!(seen[0].all("authorization"), [front, back]);
    assert!(!seen[0].head.contains(SECRET));
}

#[tokio::test]
async fn headers_cannot_be_hidden_by_naming_them() {
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {NAME}\r\nConnection: Host, Content-Length, \
         X-Gone\r\nX-Gone: 1\r\nAuthorization: {PLACEHOLDER}\r\nUpgrade: h2c\r\n\r\n"
    );
    let (status, seen) = tried(&request).await;
    assert_eq!(status, 200);
    assert_eq!(seen[0].all("host"), [NAME]);
    assert_eq!(seen[0].all("authorization"), [SECRET]);
    for gone in ["x-gone", "upgrade", "connection"] {
        assert_eq!(seen[0].all(gone), [""; 0], "{gone}");
    }
}
