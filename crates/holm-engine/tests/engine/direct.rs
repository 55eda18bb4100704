//! The direct way to ports, by sockets that are kept for it. What they reach in a sandbox's own network
//! is tried with real ones.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use holm_engine::{CreateSandbox, Engine, ErrorKind, SandboxId, Way};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::driver::Inner;
use crate::support::{FakeDriver, engine, settings, until};

/// A sandbox with such sockets.
async fn sandbox(engine: &Engine, driver: &FakeDriver) -> (SandboxId, Arc<Inner>) {
    let view = engine.sandbox_create(CreateSandbox::default()).await.unwrap();
    let machine = driver.last();
    machine.has_ports.store(true, SeqCst);
    (view.id, machine)
}

/// Servers at one port of both addresses, which answer what they hear with their own letter.
async fn serve(addresses: &[&str]) -> u16 {
    let mut port = 0;
    for address in addresses {
        let address: SocketAddr = format!("{address}:{port}").parse().unwrap();
        let listener = TcpListener::bind(address).await.unwrap();
        port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let word: &[u8] = if address.is_ipv4() { b"four" } else { b"six" };
                tokio::spawn(async move { stream.write_all(word).await });
            }
        });
    }
    port
}

/// A port at which nobody listens.
async fn nobody() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}

/// Connects until the way is the direct one. The fake guest has no tunnel, so no other way works.
async fn heard(engine: &Engine, id: &SandboxId, port: u16) -> String {
    until("it is there", async || engine.port_connect(id, port).await.is_ok()).await;
    // It need not be the same, as sockets may be used up.
    loop {
        match engine.port_connect(id, port).await {
            Ok((Way::Direct(mut stream), _)) => {
                let mut text = String::new();
                stream.read_to_string(&mut text).await.unwrap();
                return text;
            }
            Ok((Way::Tunnel(_), _)) => panic!("the fake guest has none"),
            Err(error) => assert_eq!(error.kind, ErrorKind::Unavailable),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn ports_are_reached_at_both_addresses_and_ipv4_comes_first() {
    let (engine, driver) = engine(settings());
    let (id, _) = sandbox(&engine, &driver).await;
    for (addresses, want) in [
        (&["127.0.0.1"][..], "four"),
        (&["[::1]"], "six"),
        (&["127.0.0.1", "[::1]"], "four"),
        (&["0.0.0.0"], "four"),
    ] {
        let port = serve(addresses).await;
        for _ in 0..40 {
            assert_eq!(heard(&engine, &id, port).await, want, "{addresses:?}");
        }
    }
}

/// Pages that ask until something listens would else have them made all the time.
#[tokio::test]
async fn where_nobody_listens_no_socket_is_used_up() {
    let (engine, driver) = engine(settings());
    let (id, machine) = sandbox(&engine, &driver).await;
    let (there, nobody) = (serve(&["127.0.0.1"]).await, nobody().await);
    assert_eq!(heard(&engine, &id, there).await, "four");
    until("none are being made", async || {
        // The first that are made leave more than few.
        tokio::time::sleep(Duration::from_millis(30)).await;
        let before = machine.ports_asked.load(SeqCst);
        assert!(engine.port_connect(&id, nobody).await.is_err());
        tokio::time::sleep(Duration::from_millis(30)).await;
        before == machine.ports_asked.load(SeqCst)
    })
    .await;
    let asked = machine.ports_asked.load(SeqCst);
    for _ in 0..500 {
        let error = engine.port_connect(&id, nobody).await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.public.contains("nothing listens"), "{error:?}");
    }
    assert_eq!(machine.ports_asked.load(SeqCst), asked);
    assert_eq!(heard(&engine, &id, there).await, "four");
}

#[tokio::test]
async fn where_they_cannot_be_made_that_is_not_tried_all_the_time() {
    let (engine, driver) = engine(settings());
    let (id, machine) = sandbox(&engine, &driver).await;
    machine.has_ports.store(false, SeqCst);
    let port = serve(&["127.0.0.1"]).await;
    for _ in 0..100 {
        let error = engine.port_connect(&id, port).await.map(|_| ()).unwrap_err();
        assert!(error.public.contains("does not answer"), "the guest was asked: {error:?}");
    }
    assert_eq!(machine.ports_asked.load(SeqCst), 1);
}

#[tokio::test]
async fn they_are_closed_with_their_sandbox() {
    let (engine, driver) = engine(settings());
    let (id, machine) = sandbox(&engine, &driver).await;
    machine.are_watched.store(true, SeqCst);
    let port = serve(&["127.0.0.1"]).await;
    assert_eq!(heard(&engine, &id, port).await, "four");
    assert!(machine.ports_open() > 0);
    engine.sandbox_destroy(&id).await.unwrap();
    assert_eq!(machine.ports_open(), 0);
    let asked = machine.ports_asked.load(SeqCst);
    assert_eq!(engine.port_connect(&id, port).await.unwrap_err().kind, ErrorKind::SandboxGone);
    assert_eq!(machine.ports_asked.load(SeqCst), asked);
}

#[tokio::test]
async fn they_are_closed_when_nobody_wants_them() {
    let (engine, driver) = engine(settings());
    let (id, machine) = sandbox(&engine, &driver).await;
    machine.are_watched.store(true, SeqCst);
    let port = serve(&["127.0.0.1"]).await;
    assert_eq!(heard(&engine, &id, port).await, "four");
    assert!(machine.ports_open() > 0);
    tokio::time::pause();
    until("closed", async || machine.ports_open() == 0).await;
    tokio::time::resume();
    assert_eq!(heard(&engine, &id, port).await, "four");
}

/// Who has many sandboxes leaves some for others.
#[tokio::test]
async fn one_account_has_a_part_of_them() {
    let service = crate::support::Service::new();
    let ((_, greedy), (_, other)) = (service.tenant().await, service.tenant().await);
    let port = serve(&["127.0.0.1"]).await;
    let mut machines = Vec::new();
    for _ in 0..7 {
        let (id, machine) = sandbox(&greedy, &service.driver).await;
        machine.are_watched.store(true, SeqCst);
        let asked = async || {
            let _ = greedy.port_connect(&id, port).await;
            let is_full = machines.len() >= 5;
            is_full || machine.ports_open() > 0
        };
        until("asked for", asked).await;
        machines.push(machine);
    }
    let having = machines.iter().filter(|machine| machine.ports_open() > 0).count();
    assert_eq!(having, 5);
    let (id, _) = sandbox(&other, &service.driver).await;
    assert_eq!(heard(&other, &id, port).await, "four");
}
