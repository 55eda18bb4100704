//! Plain HTTP under a rule by name: each request of a connection is judged.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// What a server has been sent.
type Seen = Arc<Mutex<String>>;

/// A server that answers each request, told by the end of its head, with a body of `seen N`, and a
/// request for an upgrade to anything but HTTP/2 with a change of protocol to an echo.
async fn server() -> (SocketAddr, Seen) {
    let (listener, address) = outside().await;
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, Arc::clone(&kept)));
        }
    });
    (address, seen)
}

async fn answer(mut stream: TcpStream, seen: Seen) -> io::Result<()> {
    let mut head = String::new();
    let mut count = 0;
    loop {
        let byte = char::from(stream.read_u8().await?);
        head.push(byte);
        seen.lock().expect("what was seen").push(byte);
        if !head.ends_with("\r\n\r\n") {
            continue;
        }
        count += 1;
        if head.to_ascii_lowercase().contains("\r\nupgrade: websocket") {
            let text = "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
            stream.write_all(text.as_bytes()).await?;
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await?;
            return Ok(());
        }
        let close = head.contains("/last");
        let more = if close { "Connection: close\r\n" } else { "" };
        let text = format!("HTTP/1.1 200 OK\r\n{more}Content-Length: 6\r\n\r\nseen {count}");
        stream.write_all(text.as_bytes()).await?;
        if close {
            return Ok(());
        }
        head.clear();
    }
}

async fn world(policy: &str) -> (World, SocketAddr, Seen) {
    let (address, seen) = server().await;
    let world = World::new(policy);
    world.resolve("a.example", address);
    world.resolve("b.example", address);
    world.resolve("bad.example", address);
    (world, address, seen)
}

/// Reads one answer of the server; its body, or how the connection ended.
async fn body(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        match within(stream.read_u8()).await {
            Ok(byte) => text.push(char::from(byte)),
            Err(error) => return error.kind().to_string(),
        }
        if let Some((_, body)) = text.split_once("\r\n\r\n").filter(|(_, body)| body.len() == 6) {
            return body.to_owned();
        }
    }
}

fn get(host: &str) -> String {
    format!("GET /{host} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

#[tokio::test]
async fn every_request_of_a_connection_is_judged() {
    for policy in ["allow:a.example,b.example", "open;deny:bad.example"] {
        let (world, address, seen) = world(policy).await;
        let mut stream = world.connect(address).await;
        for (host, expected) in [
            ("a.example", "seen 1"),
            ("B.example", "seen 2"),
            ("a.example", "seen 3"),
            ("bad.example", "connection reset"),
        ] {
            stream.write_all(get(host).as_bytes()).await.expect("sent");
            assert_eq!(body(&mut stream).await, expected, "{policy} {host}");
        }
        assert!(world.denied().starts_with("bad.example "), "{}", world.denied());
        assert!(!seen.lock().expect("it").contains("bad.example"), "nothing of it was sent");
        world.settled().await;
    }
}

/// They would cost a processor, and nobody would see a byte of them.
#[tokio::test]
async fn interim_answers_without_end_are_cut_off() {
    let (listener, address) = outside().await;
    let flood = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let many = b"HTTP/1.1 103 \r\n\r\n".repeat(4096);
        let mut sent = 0;
        while sent < 1 << 30 && stream.write_all(&many).await.is_ok() {
            sent += many.len();
        }
        sent
    });
    let world = World::new("allow:a.example");
    world.resolve("a.example", address);
    let mut stream = world.connect(address).await;
    stream.write_all(get("a.example").as_bytes()).await.expect("sent");
    assert_ne!(body(&mut stream).await, "");
    // What the kernel keeps on both sides is some MiB.
    let sent = within(flood).await.expect("no panic");
    assert!(sent < 64 << 20, "{sent}");
    world.settled().await;
}

/// What does not look like a request so far must not pass for another protocol: what follows it would
/// not be read any more.
#[tokio::test]
async fn requests_that_begin_oddly_are_refused() {
    let check = async |first: &str, rest: &str, rule: &str| {
        let (world, address, seen) = world("allow:a.example").await;
        let mut stream = world.connect(address).await;
        stream.write_all(first.as_bytes()).await.expect("sent");
        if !rest.is_empty() {
            // A line that does not go on is passed on in parts.
            eventually(|| *seen.lock().expect("it") == first).await;
            stream.write_all(rest.as_bytes()).await.expect("sent");
        }
        assert_eq!(body(&mut stream).await, "connection reset", "{first} {rest}");
        assert!(world.denied().ends_with(rule), "{first} {rest}: {}", world.denied());
        assert!(!seen.lock().expect("it").contains('\n'), "{first} {rest}");
        world.settled().await;
    };
    let in_pieces = "the HTTP request came in pieces";
    let rest = " / HTTP/1.1\r\nHost: bad.example\r\n\r\n";
    check(&"A".repeat(200), rest, in_pieces).await;
    check("GET", rest, in_pieces).await;
    let no_version = "the HTTP request names a host and no version";
    check("GET http://bad.example/\r\n", "", no_version).await;
    check("GET ", "http://bad.example/ x\n", no_version).await;
}

/// What waits in the gate is some times a head each way, so there are few connections with long ones.
#[tokio::test]
async fn only_the_first_connections_have_long_heads() {
    let (world, address, _) = world("allow:a.example").await;
    let long = format!("GET / HTTP/1.1\r\nHost: a.example\r\nA: {}\r\n\r\n", "a".repeat(20_000));
    let mut held = Vec::new();
    for _ in 0..16 {
        let mut stream = world.connect(address).await;
        stream.write_all(long.as_bytes()).await.expect("sent");
        assert_eq!(body(&mut stream).await, "seen 1");
        held.push(stream);
    }
    let mut further = world.connect(address).await;
    further.write_all(get("a.example").as_bytes()).await.expect("sent");
    assert_eq!(body(&mut further).await, "seen 1");
    further.write_all(long.as_bytes()).await.expect("sent");
    let answer = outcome(&mut further).await;
    assert!(answer.starts_with("HTTP/1.1 431 ") || answer == "reset", "{answer}");
    drop((held, further));
    world.settled().await;
}

#[tokio::test]
async fn requests_that_name_nobody_need_a_rule_about_the_address() {
    let requests = ["Host: a.example\r\n", "", "Host:\r\n", "Host: 127.0.0.1\r\n"];
    for (policy, is_by_address) in [
        ("allow:a.example", false),
        ("allow:a.example,127.0.0.0/8", true),
        ("open;deny:bad.example", true),
    ] {
        let (world, address, _) = if policy.starts_with("open") {
            // Only a name that is permitted: nobody has to say which one is meant.
            let (address, seen) = server().await;
            let world = World::new(policy);
            world.resolve("a.example", address);
            (world, address, seen)
        } else {
            world(policy).await
        };
        for (index, host) in requests.iter().enumerate() {
            for version in ["1.0", "1.1"] {
                let mut stream = world.connect(address).await;
                let request = format!("GET / HTTP/{version}\r\n{host}\r\n");
                stream.write_all(request.as_bytes()).await.expect("sent");
                let passes = is_by_address || index == 0;
                let expected = if passes { "seen 1" } else { "connection reset" };
                assert_eq!(body(&mut stream).await, expected, "{policy} {request:?}");
                if !passes {
                    let denied = world.denied();
                    assert!(denied.contains("names no host"), "{denied}");
                }
            }
        }
        world.settled().await;
    }
}

#[tokio::test]
async fn requests_that_hide_are_refused() {
    let check = async |request: &str, rule: &str| {
        let (world, address, seen) = world("allow:a.example").await;
        let mut stream = world.connect(address).await;
        stream.write_all(request.as_bytes()).await.expect("sent");
        assert_eq!(body(&mut stream).await, "connection reset", "{request}");
        assert!(world.denied().ends_with(rule), "{request}: {}", world.denied());
        assert_eq!(*seen.lock().expect("it"), "", "{request}");
        world.settled().await;
    };
    check(&get("b.example"), "not in the allow list").await;
    check(&get("c.example"), "which this address is not known for").await;
    check(&get("127.0.0.2"), "the HTTP request asks for another address").await;
    check(&get("2130706433"), "the host in the HTTP request is not one").await;
    check(
        "GET / HTTP/1.1\r\nHost: a.example\r\nHost: bad.example\r\n\r\n",
        "the HTTP request names two hosts",
    )
    .await;
    check(
        "GET http://bad.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "the HTTP request names two hosts",
    )
    .await;
    check(
        "CONNECT bad.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "a proxy that is reached by name cannot be used; allow it by its address",
    )
    .await;
    check(
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "plain HTTP/2 cannot be checked where a rule by name decides",
    )
    .await;
}

#[tokio::test]
async fn bytes_that_two_readers_read_differently_do_not_get_out() {
    let hidden = get("bad.example");
    let length = hidden.len();
    for request in [
        // A length and chunks.
        format!(
            "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {length}\r\n\
             Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
        ),
        // Two lengths.
        format!(
            "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\
             Content-Length: {length}\r\n\r\n{hidden}"
        ),
        // Chunks that are not called so.
        format!(
            "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: xchunked\r\n\r\n{hidden}"
        ),
        // A header that goes on in the next line.
        format!("GET / HTTP/1.1\r\nHost: a.example\r\n Host: bad.example\r\n\r\n{hidden}"),
        // A head in which a bare end of line hides a host.
        "GET / HTTP/1.1\r\nHost: a.example\rHost: bad.example\r\n\r\n".to_owned(),
        // Two at once.
        format!("{}{hidden}", get("a.example")),
    ] {
        let (world, address, seen) = world("allow:a.example").await;
        let mut stream = world.connect(address).await;
        stream.write_all(request.as_bytes()).await.expect("sent");
        stream.shutdown().await.expect("an end");
        let mut rest = Vec::new();
        let _end = within(stream.read_to_end(&mut rest)).await;
        drop(stream);
        world.settled().await;
        // What was sent on as a body is no request: no head in what the server saw names it.
        let seen = seen.lock().expect("it").clone();
        let requests = seen.split("\r\n\r\n").filter(|head| head.contains("HTTP/1.1"));
        for head in requests {
            assert!(!head.to_ascii_lowercase().contains("\r\nhost: bad"), "{request}: {seen}");
        }
    }
}

#[tokio::test]
async fn an_upgrade_goes_on_where_it_cannot_hide_requests() {
    let (world, address, seen) = world("allow:a.example").await;
    let mut stream = world.connect(address).await;
    let offer = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade, HTTP2-Settings\r\n\
                 Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n";
    stream.write_all(offer.as_bytes()).await.expect("sent");
    assert_eq!(body(&mut stream).await, "seen 1");
    assert!(!seen.lock().expect("it").to_ascii_lowercase().contains("h2c"));
    let socket = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\n\
                  Upgrade: websocket\r\n\r\n";
    stream.write_all(socket.as_bytes()).await.expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(within(stream.read_u8()).await.expect("a head"));
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    ping(&mut stream, "\x01\x05\0any bytes at all").await;
    stream.shutdown().await.expect("an end");
    assert_eq!(outcome(&mut stream).await, "end");
    world.settled().await;
}

#[tokio::test]
async fn the_end_of_a_server_is_the_end_of_the_connection() {
    let (world, address, _) = world("allow:a.example").await;
    let mut stream = world.connect(address).await;
    let last = "GET /last HTTP/1.1\r\nHost: a.example\r\n\r\n";
    stream.write_all(last.as_bytes()).await.expect("sent");
    assert_eq!(body(&mut stream).await, "seen 1");
    assert_eq!(outcome(&mut stream).await, "end");
    world.settled().await;
}

#[tokio::test]
async fn large_bodies_go_through_both_ways() {
    let (listener, address) = outside().await;
    let world = World::new("allow:a.example");
    world.resolve("a.example", address);
    let size = 4 * 1024 * 1024;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a head"));
        }
        let mut sent = vec![0; size];
        stream.read_exact(&mut sent).await.expect("a body");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(&sent).await.expect("sent");
    });
    let mut stream = world.connect(address).await;
    let bytes: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).expect("a byte")).collect();
    let head = format!("PUT / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {size}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream.write_all(&bytes).await.expect("sent");
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.expect("an answer");
    server.await.expect("served");
    assert!(answer.ends_with(&bytes), "the bytes differ");
    world.settled().await;
    assert!(world.gate.counters().bytes_out > u64::try_from(size).expect("a number"));
}
