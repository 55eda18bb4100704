//! Where a secret is put, and where it is not.

use super::client::ask;
use super::host::Say;
use super::world::{NAME, PLACEHOLDER, SECRET, World, injection};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_placeholder_in_a_named_header_is_replaced() {
    let world = World::new(|_| Say::Bytes(OK)).await;
    let mut client = world.secured().await;
    // user:holm-placeholder, and user:s3cr3t-value
    let cases = [
        ("Authorization", format!("Bearer {PLACEHOLDER}"), format!("Bearer {SECRET}")),
        ("authorization", format!("token {PLACEHOLDER}"), format!("token {SECRET}")),
        ("X-Api-Key", PLACEHOLDER.to_owned(), SECRET.to_owned()),
        (
            "Authorization",
            "Basic dXNlcjpob2xtLXBsYWNlaG9sZGVy".to_owned(),
            "Basic dXNlcjpzM2NyM3QtdmFsdWU=".to_owned(),
        ),
        ("Authorization", "Bearer other".to_owned(), "Bearer other".to_owned()),
        ("Cookie", PLACEHOLDER.to_owned(), PLACEHOLDER.to_owned()),
        ("X-Other", format!("Bearer {PLACEHOLDER}"), format!("Bearer {PLACEHOLDER}")),
    ];
    for (count, (header, sent, expected)) in cases.iter().enumerate() {
        let request = format!("GET /v1 HTTP/1.1\r\nHost: {NAME}\r\n{header}: {sent}\r\n\r\n");
        let answer = ask(&mut client, &request).await;
        assert_eq!((answer.status, &*answer.body), (200, "ok"));
        let seen = world.host.seen();
        assert_eq!(seen.len(), count + 1);
        // The case of names is kept.
        assert!(seen[count].head.contains(&format!("{header}: {expected}\r\n")), "{seen:?}");
    }
    assert_eq!(world.host.connections(), 1, "the connection is kept");
    let tally = world.state.tally.read();
    assert!(tally.bytes_out > 500 && tally.bytes_in > 500, "{tally:?}");
}

#[tokio::test]
async fn bodies_paths_and_trailers_stay_as_they_are() {
    let world = World::new(|_| Say::Bytes(OK)).await;
    let mut client = world.secured().await;
    let length = PLACEHOLDER.len();
    let request = format!(
        "POST /{PLACEHOLDER}?key={PLACEHOLDER} HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: \
         {length}\r\n\r\n{PLACEHOLDER}"
    );
    assert_eq!(ask(&mut client, &request).await.status, 200);
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {NAME}\r\nTransfer-Encoding: chunked\r\nTrailer: \
         X-Api-Key\r\n\r\n{length:x}\r\n{PLACEHOLDER}\r\n0\r\nX-Api-Key: {PLACEHOLDER}\r\n\r\n"
    );
    assert_eq!(ask(&mut client, &request).await.status, 200);
    let seen = world.host.seen();
    assert!(
        seen[0].head.starts_with(&format!("POST /{PLACEHOLDER}?key={PLACEHOLDER} HTTP/1.1\r\n"))
    );
    assert_eq!(seen[0].body, PLACEHOLDER.as_bytes());
    let body = String::from_utf8_lossy(&seen[1].body).to_lowercase();
    assert!(body.contains(PLACEHOLDER) && body.contains("x-api-key: holm"), "{body}");
    for seen in seen {
        let whole = format!("{}{}", seen.head, String::from_utf8_lossy(&seen.body));
        assert!(!whole.contains(SECRET), "{whole}");
    }
}

#[tokio::test]
async fn a_plain_host_gets_it_only_where_that_is_allowed() {
    for allowed in [true, false] {
        let world = World::plain(allowed, |_| Say::Bytes(OK)).await;
        let (mut client, _work) = world.connect(false);
        let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\nX-Api-Key: {PLACEHOLDER}\r\n\r\n");
        assert_eq!(ask(&mut client, &request).await.status, 200);
        let expected = if allowed { SECRET } else { PLACEHOLDER };
        assert_eq!(world.host.seen()[0].all("x-api-key"), [expected]);
    }
}

#[tokio::test]
async fn a_secret_that_is_taken_away_is_not_put_in_any_more() {
    let world = World::new(|_| Say::Bytes(OK)).await;
    let mut client = world.secured().await;
    let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\nX-Api-Key: {PLACEHOLDER}\r\n\r\n");
    for given in [true, false, true] {
        let now = if given { vec![injection(false)] } else { Vec::new() };
        world.state.injections.set(now).expect("set");
        assert_eq!(ask(&mut client, &request).await.status, 200);
        let seen = world.host.seen();
        let expected = if given { SECRET } else { PLACEHOLDER };
        assert_eq!(seen.last().expect("one").all("x-api-key"), [expected]);
    }
}
