//! Bodies, connections and WebSockets go through as they are.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::super::open::MOST;
use super::client::{HANG, answer, ask};
use super::host::Say;
use super::world::{NAME, PLACEHOLDER, SECRET, World};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn answers_come_as_they_are() {
    let world = World::new(|seen| {
        Say::Bytes(match seen.head.split(' ').nth(1) {
            Some("/chunked") => {
                "HTTP/1.1 203 Mine\r\nX-Case: Kept\r\nTransfer-Encoding: chunked\r\nTrailer: \
                 X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 9\r\n\r\n"
            }
            Some("/empty") => "HTTP/1.1 204 No Content\r\nX-Case: Kept\r\n\r\n",
            Some("/unchanged") => "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n",
            Some("/early") => {
                "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: \
                               2\r\n\r\nok"
            }
            _ => OK,
        })
    })
    .await;
    let mut client = world.secured().await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\nTE: trailers\r\n\r\n");
    let chunked = ask(&mut client, &get("/chunked")).await;
    assert_eq!(chunked.status, 203);
    assert!(chunked.head.contains("X-Case: Kept\r\n"), "{}", chunked.head);
    assert!(!chunked.head.to_lowercase().contains("\r\ndate:"), "{}", chunked.head);
    assert!(chunked.body.contains("abc"), "{}", chunked.body);
    assert!(chunked.body.to_lowercase().contains("x-sum: 9"), "{}", chunked.body);
    assert_eq!(ask(&mut client, &get("/empty")).await.status, 204);
    assert_eq!(ask(&mut client, &get("/unchanged")).await.status, 304);
    assert_eq!(ask(&mut client, &get("/early")).await.body, "ok");
    assert_eq!(world.host.connections(), 1);
}

#[tokio::test]
async fn a_host_that_closes_between_requests_is_dialled_again() {
    let world = World::new(|_| Say::Last(OK)).await;
    let mut client = world.secured().await;
    for number in 1..=3 {
        let request = format!("GET /{number} HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
        assert_eq!(ask(&mut client, &request).await.status, 200, "{number}");
    }
    assert_eq!((world.host.connections(), world.host.seen().len()), (3, 3));
}

#[tokio::test]
async fn a_body_that_waits_to_be_asked_for_is_asked_for() {
    let world = World::new(|_| Say::Bytes(OK)).await;
    let mut client = world.secured().await;
    let head = format!(
        "PUT / HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
    );
    assert_eq!(ask(&mut client, &head).await.status, 100);
    assert_eq!(ask(&mut client, "body").await.status, 200);
    let seen = world.host.seen();
    assert_eq!((seen.len(), &*seen[0].body), (1, &b"body"[..]));
}

#[tokio::test]
async fn large_bodies_pass_without_being_kept() {
    const LENGTH: usize = 64 * 1024 * 1024;
    let world = World::new(|_| Say::Large(LENGTH)).await;
    let mut client = world.secured().await;
    let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.expect("a head"));
    }
    // Nothing is read now: what has passed so far is what buffers hold, of any size of body.
    let held = {
        let mut before = u64::MAX;
        loop {
            tokio::task::yield_now().await;
            let now = world.state.tally.read().bytes_in;
            if now == before {
                break now;
            }
            before = now;
            // The host's side goes on only when its socket is looked at.
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
        }
    };
    assert!(held < 2 * 1024 * 1024, "{held}");
    let mut left = LENGTH;
    let mut buffer = vec![0; 256 * 1024];
    while left > 0 {
        let read = timeout(HANG, client.read(&mut buffer)).await.expect("no hang").expect("read");
        assert!(read > 0 && buffer[..read].iter().all(|byte| *byte == b'z'), "{left} are missing");
        left -= read;
    }
    let mut upload = format!("PUT / HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 4000000\r\n\r\n");
    upload.push_str(&"u".repeat(4_000_000));
    let sent = async {
        client.write_all(upload.as_bytes()).await.expect("sent");
        client.flush().await.expect("sent");
    };
    timeout(HANG, sent).await.expect("no hang");
    let mut buffer = [0; 15];
    timeout(HANG, client.read_exact(&mut buffer)).await.expect("no hang").expect("read");
    assert_eq!(&buffer, b"HTTP/1.1 200 OK");
    assert_eq!(world.host.seen()[1].body.len(), 4_000_000);
}

#[tokio::test]
async fn a_websocket_passes_with_its_credential() {
    let world = World::new(|_| Say::Socket).await;
    let mut client = world.secured().await;
    let request = format!(
        "GET /ws HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: \
         websocket\r\nSec-WebSocket-Key: abc\r\nAuthorization: Bearer {PLACEHOLDER}\r\n\r\n"
    );
    let answer = ask(&mut client, &request).await;
    assert_eq!(answer.status, 101);
    assert!(answer.head.contains("Sec-WebSocket-Accept: x\r\n"), "{}", answer.head);
    let seen = world.host.seen();
    assert_eq!(seen[0].all("authorization"), [format!("Bearer {SECRET}")]);
    assert_eq!(seen[0].all("sec-websocket-key"), ["abc"]);
    // Both ways, and nothing in it is replaced any more.
    client.write_all(PLACEHOLDER.as_bytes()).await.expect("sent");
    let mut twice = vec![0; 2 * PLACEHOLDER.len()];
    timeout(HANG, client.read_exact(&mut twice)).await.expect("no hang").expect("read");
    let once: Vec<u8> = twice.chunks(2).map(|pair| pair[0]).collect();
    assert_eq!(once, PLACEHOLDER.as_bytes());
}

#[tokio::test]
async fn a_protocol_that_nobody_asked_for_is_an_error() {
    let world = World::new(|_| {
        Say::Bytes(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        )
    })
    .await;
    let mut client = world.secured().await;
    let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    assert_eq!(ask(&mut client, &request).await.status, 502);
}

#[tokio::test]
async fn a_client_that_goes_ends_the_work() {
    let world = World::new(|_| Say::Bytes(OK)).await;
    let (near, work) = world.connect(true);
    drop(near);
    let ended = timeout(HANG, work).await.expect("no hang").expect("no panic");
    assert!(ended.is_err());
    let (mut near, work) = {
        let world = World::plain(true, |_| Say::Bytes(OK)).await;
        let connected = world.connect(false);
        // The gate goes on while a connection does.
        drop(world);
        connected
    };
    near.write_all(b"GET / HTTP/1.1\r\nHost: api.exam").await.expect("sent");
    drop(near);
    let _either = timeout(HANG, work).await.expect("no hang").expect("no panic");
}

#[tokio::test]
async fn only_so_many_connections_are_opened() {
    let world = World::plain(true, |_| Say::Bytes(OK)).await;
    let mut open: Vec<_> = (0..MOST).map(|_| world.connect(false)).collect();
    // Each of them is there before one more comes.
    let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    for (near, _) in &mut open {
        assert_eq!(ask(near, &request).await.status, 200);
    }
    let (_near, work) = world.connect(false);
    assert!(timeout(HANG, work).await.expect("no hang").expect("no panic").is_err());
    let rule = world.state.log.read().last().expect("a denial").rule.clone();
    assert!(rule.starts_with("limit: 256"), "{rule}");
    let (near, work) = open.pop().expect("one");
    drop(near);
    let _ended = timeout(HANG, work).await.expect("no hang").expect("no panic");
    let (mut near, _work) = world.connect(false);
    assert_eq!(ask(&mut near, &request).await.status, 200);
}

#[tokio::test]
async fn a_host_that_breaks_off_is_not_a_whole_answer() {
    let world = World::new(|_| Say::Last("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")).await;
    let mut client = world.secured().await;
    let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("sent");
    let mut whole = Vec::new();
    let read = timeout(HANG, client.read_to_end(&mut whole)).await.expect("no hang");
    assert!(read.is_err() || whole.ends_with(b"half"), "{}", String::from_utf8_lossy(&whole));
    let world = World::new(|_| Say::Last("")).await;
    let mut client = world.secured().await;
    client.write_all(request.as_bytes()).await.expect("sent");
    assert_eq!(answer(&mut client).await.status, 502);
}
