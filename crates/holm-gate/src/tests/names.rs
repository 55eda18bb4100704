//! Rules by name: what DNS answered here together with what a client asks for.

use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::tcp::hello;

/// A hello for a name, which the server of these tests sends back.
fn tls(name: &str) -> Vec<u8> {
    hello(Some(name.as_bytes()), 4_096)
}

/// What comes back for these bytes: `echo`, or how it ended.
async fn sent(stream: &mut TcpStream, bytes: &[u8]) -> String {
    if stream.write_all(bytes).await.is_err() {
        return "reset".to_owned();
    }
    let mut answer = vec![0; bytes.len()];
    match within(tokio::io::AsyncReadExt::read_exact(stream, &mut answer)).await {
        Ok(_) if answer == bytes => "echo".to_owned(),
        Ok(_) => "something else".to_owned(),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => "reset".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn tls_is_decided_by_its_name_and_its_address() {
    let target = echo().await;
    let check = async |policy: &str, resolved: &[&str], bytes: &[u8], expected: &str| {
        let world = World::new(policy);
        for name in resolved {
            world.resolve(name, target);
        }
        // What addresses refuse may be reset before the connection is made.
        let found = match world.try_connect(target).await {
            Ok(mut stream) => sent(&mut stream, bytes).await,
            Err(_) => "reset".to_owned(),
        };
        let port = target.port().to_string();
        let why = if found == "echo" { String::new() } else { world.denied() };
        let found = format!("{found} {}", why.replace(&port, "port"));
        assert_eq!(found.trim(), expected, "{policy} {resolved:?}");
        world.settled().await;
    };
    let allow = "allow:a.example,*.b.example";
    check(allow, &["a.example"], &tls("a.example"), "echo").await;
    check(allow, &["x.b.example"], &tls("X.B.example"), "echo").await;
    check(allow, &["a.example", "x.b.example"], &tls("x.b.example"), "echo").await;
    // No name in the hello: what DNS answered decides.
    check(allow, &["a.example"], &hello(None, 4_096), "echo").await;
    // A name that was not resolved to this address, permitted or not.
    let unknown = "reset other.example port the client asks for other.example, which this address \
                   is not known for";
    check(allow, &["a.example"], &tls("other.example"), unknown).await;
    let elsewhere = "reset x.b.example port the client asks for x.b.example, which this address \
                     is not known for";
    check(allow, &["a.example"], &tls("x.b.example"), elsewhere).await;
    let listed = "reset other.example port not in the allow list";
    check(allow, &["a.example", "other.example"], &tls("other.example"), listed).await;
    // Resolved by nobody: the name alone opens nothing.
    check(allow, &[], &tls("a.example"), "reset  port not in the allow list").await;
    let broken = "reset a.example port the name in the TLS hello is not one";
    check(allow, &["a.example"], &tls("127.0.0.1"), broken).await;
    let kind = "reset a.example port the TLS hello has a record of another kind";
    check(allow, &["a.example"], &[0x16, 3, 1, 0, 0, 0, 0, 0, 0], kind).await;
    // Some servers leave a warning ahead of the hello out.
    let warned = [&[0x15, 3, 1, 0, 2, 1, 90][..], &tls("other.example")].concat();
    check(allow, &["a.example"], &warned, kind).await;
    // Deny by name with everything else open.
    let deny = "open;deny:bad.example";
    check(deny, &[], &tls("good.example"), "echo").await;
    check(deny, &[], &tls("bad.example"), "reset bad.example port deny bad.example").await;
    check(deny, &["bad.example", "good.example"], &tls("good.example"), "echo").await;
    // Bytes that are no TLS and no HTTP: the address has a permitted name, that is all.
    check(allow, &["a.example"], b"\0\x01\x02garbage", "echo").await;
    check(allow, &["a.example"], b"EHLO a.example\r\n", "echo").await;
}

#[tokio::test]
async fn a_hello_may_come_byte_by_byte() {
    let target = echo().await;
    let world = World::new("allow:a.example");
    world.resolve("a.example", target);
    for (name, expected) in [("a.example", "echo"), ("b.example", "reset")] {
        let mut stream = world.connect(target).await;
        stream.set_nodelay(true).expect("set");
        let bytes = hello(Some(name.as_bytes()), 1);
        let (last, first) = bytes.split_last().expect("bytes");
        for byte in first {
            stream.write_all(&[*byte]).await.expect("sent");
            tokio::task::yield_now().await;
        }
        // Nothing came back so far: nothing was sent on.
        let mut nothing = [0];
        let none = stream.try_read(&mut nothing).expect_err("nothing");
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        stream.write_all(&[*last]).await.expect("sent");
        let mut answer = vec![0; bytes.len()];
        let read = within(tokio::io::AsyncReadExt::read_exact(&mut stream, &mut answer)).await;
        assert_eq!(if read.is_ok() { "echo" } else { "reset" }, expected);
    }
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_at_once() {
    let (listener, target) = outside().await;
    let world = World::new("allow:a.example");
    world.resolve("a.example", target);
    let mut stream = world.connect(target).await;
    let (mut server, _) = listener.accept().await.expect("a connection");
    server.write_all(b"220 welcome\r\n").await.expect("sent");
    let mut greeting = [0; 13];
    within(tokio::io::AsyncReadExt::read_exact(&mut stream, &mut greeting)).await.expect("heard");
    stream.write_all(b"EHLO me\r\n").await.expect("sent");
    let mut line = [0; 9];
    within(tokio::io::AsyncReadExt::read_exact(&mut server, &mut line)).await.expect("heard");
    assert_eq!(&line, b"EHLO me\r\n");
    drop(stream);
    assert_eq!(outcome(&mut server).await, "end");
    drop(server);
    world.settled().await;

    // A client that hides behind such a server is looked at all the same.
    let mut stream = world.connect(target).await;
    let (mut server, _) = listener.accept().await.expect("a connection");
    server.write_all(b"220 welcome\r\n").await.expect("sent");
    within(tokio::io::AsyncReadExt::read_exact(&mut stream, &mut greeting)).await.expect("heard");
    stream.write_all(&tls("b.example")).await.expect("sent");
    assert_eq!(outcome(&mut stream).await, "reset");
    assert_eq!(outcome(&mut server).await, "reset");
    world.settled().await;
}

#[tokio::test]
async fn a_client_that_finishes_nothing_is_refused() {
    let limits = crate::Limits { opening: Duration::from_millis(50), ..Default::default() };
    let world =
        World::with("allow:a.example", UplinkOptions { limits, ..UplinkOptions::default() });
    let target = echo().await;
    world.resolve("a.example", target);
    for part in [&tls("a.example")[..20], b"GET / HT"] {
        let mut stream = world.connect(target).await;
        stream.write_all(part).await.expect("sent");
        assert_eq!(outcome(&mut stream).await, "reset");
        assert!(world.denied().ends_with("the client did not finish its opening"));
    }
    let mut stream = world.connect(target).await;
    stream.write_all(&tls("a.example")[..20]).await.expect("sent");
    stream.shutdown().await.expect("an end");
    assert_eq!(outcome(&mut stream).await, "reset");
    world.settled().await;
}

#[tokio::test]
async fn a_line_without_an_end_is_sent_on_but_not_lost_from_sight() {
    let world = World::new("allow:a.example");
    let target = echo().await;
    world.resolve("a.example", target);
    let mut stream = world.connect(target).await;
    ping(&mut stream, "003agit-upload-pack /x").await;
    ping(&mut stream, "\0host=a.example\0").await;
    ping(&mut stream, "0000\nanything HTTP/1.1\r\n").await;
    let mut stream = world.connect(target).await;
    ping(&mut stream, "GET /").await;
    stream.write_all(b" HTTP/1.1\r\nHost: a.example\r\n\r\n").await.expect("sent");
    assert_eq!(outcome(&mut stream).await, "reset");
    assert!(world.denied().ends_with("the HTTP request came in pieces"), "{}", world.denied());
}

#[tokio::test]
async fn of_denied_and_other_names_the_client_has_to_choose() {
    let limits = crate::Limits { silence: Duration::from_millis(50), ..Default::default() };
    let world =
        World::with("open;deny:bad.example", UplinkOptions { limits, ..Default::default() });
    let target = echo().await;
    world.resolve("bad.example", target);
    world.resolve("good.example", target);
    assert_eq!(world.tried(target).await, "reset");
    assert!(world.denied().ends_with("deny bad.example"), "{}", world.denied());
    world.settled().await;
}

#[tokio::test]
async fn a_new_policy_closes_what_was_permitted_by_name() {
    let world = World::new("allow:a.example,b.example");
    let target = echo().await;
    world.resolve("a.example", target);
    world.resolve("b.example", target);
    let mut goes = world.connect(target).await;
    assert_eq!(sent(&mut goes, &tls("a.example")).await, "echo");
    let mut stays = world.connect(target).await;
    assert_eq!(sent(&mut stays, &tls("b.example")).await, "echo");
    world.gate.set_policies(policies("allow:b.example")).expect("set");
    assert_eq!(outcome(&mut goes).await, "reset");
    assert!(world.denied().starts_with("a.example "), "{}", world.denied());
    ping(&mut stays, "still").await;
}
