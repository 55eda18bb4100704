//! The secret is nowhere but where it belongs.

use super::client::ask;
use super::host::Say;
use super::world::{NAME, PLACEHOLDER, SECRET, World};

#[tokio::test]
async fn a_secret_is_in_no_text_of_the_gate() {
    // Each way in which an exchange can fail after the secret was put in.
    for say in ["", "HTTP/1.1 101 Odd\r\n\r\n", "nonsense\r\n\r\n", "HTTP/1.1 999999 x\r\n\r\n"] {
        let world = World::new(move |_| Say::Last(say)).await;
        let mut client = world.secured().await;
        let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\nX-Api-Key: {PLACEHOLDER}\r\n\r\n");
        let answer = ask(&mut client, &request).await;
        assert_eq!(world.host.seen()[0].all("x-api-key"), [SECRET]);
        assert_eq!(answer.status, 502, "{say}");
        let told = format!("{answer:?} {}", world.told());
        assert!(told.contains(NAME) && !told.contains(SECRET), "{told}");
    }
}

#[tokio::test]
async fn a_header_that_grows_too_long_is_refused_without_it() {
    let world = World::new(|_| Say::Bytes("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")).await;
    let mut client = world.secured().await;
    let value = format!("{PLACEHOLDER}{}", "a".repeat(40_000));
    let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\nX-Api-Key: {value}\r\n\r\n");
    let answer = ask(&mut client, &request).await;
    assert_eq!(answer.status, 431);
    assert!(!format!("{answer:?}{}", world.told()).contains(SECRET));
    assert!(world.host.seen().is_empty());
}
