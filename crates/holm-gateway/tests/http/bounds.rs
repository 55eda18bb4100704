//! Bounds in size, time and number, against clients that are slow, greedy or broken.

use std::time::Duration;

use holm_engine::Rate;
use holm_gateway::http::{Access, KeyAccess};
use serde_json::json;

use crate::client::{assert_matches, run};
use crate::site::{Site, command_call, request};
use crate::wire::Wire;
use crate::world::reaches;

const MOMENT: Duration = Duration::from_millis(100);

/// A ping of exactly this many bytes.
fn padded(bytes: usize) -> Vec<u8> {
    let mut body = request(1, "ping", json!({})).to_string().into_bytes();
    body.resize(bytes, b' ');
    body
}

#[test]
fn a_body_of_eight_mebibytes_is_taken_and_one_byte_more_is_not() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        let headers = [("mcp-session-id", session.as_str())];
        let reply = site.ask("POST", "/mcp", &headers, &padded(8 << 20)).await;
        assert_eq!(reply.status, 200);
        for excess in [1, 1 << 20, 20 << 20] {
            let reply = site.ask("POST", "/mcp", &headers, &padded((8 << 20) + excess)).await;
            assert_eq!(reply.status, 413, "{excess}");
            let error = json!({"code": -32600, "message": "*size limit*"});
            assert_matches(&reply.json(), json!({"id": null, "error": error}));
            assert_eq!(reply.header("connection"), Some("close"));
        }
    });
}

#[test]
fn a_body_of_unknown_length_is_bounded_too() {
    run(async {
        let site = Site::with(|setup| setup.limits.body_bytes = 1000).await;
        let chunked = |bytes: usize| {
            let mut body = format!("{bytes:x}\r\n").into_bytes();
            body.extend(padded(bytes));
            body.extend(b"\r\n0\r\n\r\n");
            body
        };
        for (bytes, status) in [(1000, 400), (1001, 413)] {
            let mut wire = site.wire().await;
            let head =
                "POST /mcp HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
            wire.raw(head.as_bytes()).await;
            wire.raw(&chunked(bytes)).await;
            // The one that fits is a ping without a session.
            assert_eq!(wire.reply().await.status, status, "{bytes}");
        }
    });
}

#[test]
fn a_client_that_asks_first_does_not_send_what_is_too_long() {
    run(async {
        let site = Site::new().await;
        let mut wire = site.wire().await;
        let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n\
                    content-length: 99999999\r\n\r\n";
        wire.raw(head.as_bytes()).await;
        assert_eq!(wire.reply().await.status, 413);
    });
}

#[test]
fn a_body_that_stops_coming_is_given_up() {
    run(async {
        let site = Site::with(|setup| setup.limits.body_silence = MOMENT).await;
        let mut wire = site.wire().await;
        wire.raw(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{").await;
        let reply = wire.reply().await;
        assert_eq!(reply.status, 408);
        assert_matches(&reply.json(), json!({"id": null, "error": {"code": -32600}}));
        assert!(wire.is_closed().await);
    });
}

#[test]
fn a_body_that_drips_is_given_up() {
    run(async {
        let site = Site::with(|setup| setup.limits.body_time = 3 * MOMENT).await;
        let mut wire = site.wire().await;
        wire.raw(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999\r\n\r\n{").await;
        let mut ticks = tokio::time::interval(MOMENT / 10);
        let reply = loop {
            tokio::select! {
                biased;
                reply = wire.head() => break reply.expect("a response"),
                _ = ticks.tick() => {}
            }
            // One byte never is silence.
            wire.raw(b" ").await;
        };
        assert_eq!(reply.status, 408);
    });
}

#[test]
fn a_head_that_stops_coming_is_given_up() {
    run(async {
        let site = Site::with(|setup| setup.limits.head_time = MOMENT).await;
        for start in ["", "POST /mcp HTTP/1.1\r\nhost: local"] {
            let mut wire = site.wire().await;
            wire.raw(start.as_bytes()).await;
            // Closed, with or without a word about it.
            while wire.head().await.is_some() {}
        }
    });
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    run(async {
        let site = Site::new().await;
        let mut wire = site.wire().await;
        wire.raw(b"GET /health HTTP/1.1\r\nx-long: ").await;
        // Without an end: nothing but the bound can answer before the time is up.
        wire.raw("x".repeat(200 << 10).as_bytes()).await;
        assert_eq!(wire.head().await.map(|reply| reply.status), Some(431));
        // One that is whole, and no longer than what is read at once.
        let mut wire = site.wire().await;
        let long = "x".repeat(100 << 10);
        wire.raw(format!("GET /health HTTP/1.1\r\nx-long: {long}\r\n\r\n").as_bytes()).await;
        assert_eq!(wire.head().await.map(|reply| reply.status), Some(431));
    });
}

#[test]
fn connections_over_the_cap_wait_for_a_place() {
    run(async {
        let site = Site::with(|setup| setup.limits.connections = 1).await;
        let mut first = site.wire().await;
        first.send("GET", "/health", &[], b"").await;
        assert_eq!(first.reply().await.status, 200);
        let mut second = site.wire().await;
        second.send("GET", "/health", &[], b"").await;
        // The first one is still served, the second is not yet.
        first.send("GET", "/ready", &[], b"").await;
        assert_eq!(first.reply().await.status, 200);
        drop(first);
        assert_eq!(second.reply().await.status, 200);
    });
}

/// A host of previews; there is none at it, which is an answer too.
const PREVIEW: &str = "8080-0123456789abcdef01.localhost";

#[test]
fn previews_and_the_api_leave_each_other_places() {
    run(async {
        for (crowd, other) in
            [((PREVIEW, 404), ("localhost", 200)), (("localhost", 200), (PREVIEW, 404))]
        {
            let site = Site::with(|setup| {
                setup.limits.connections = 8;
                setup.limits.connection_wait = MOMENT;
            })
            .await;
            let ask = async |wire: &mut Wire, host: &str| {
                wire.send("GET", "/health", &[("host", host)], b"").await;
            };
            // Connections that are kept and read nothing more.
            let mut held = Vec::new();
            for _ in 0..6 {
                let mut wire = site.wire().await;
                ask(&mut wire, crowd.0).await;
                assert_eq!(wire.reply().await.status, crowd.1);
                held.push(wire);
            }
            let mut late = site.wire().await;
            ask(&mut late, crowd.0).await;
            // Nor does who says nothing, however many there are, and those that are longest there go.
            let mut silent = Vec::new();
            for _ in 0..40 {
                silent.push(site.wire().await);
            }
            let mut free = (site.wire().await, site.wire().await);
            for wire in [&mut free.0, &mut free.1] {
                ask(wire, other.0).await;
                assert_eq!(wire.reply().await.status, other.1);
            }
            // There was no place for it.
            assert!(late.head().await.is_none_or(|reply| reply.status == 503));
            // A connection that asks for the other thing has its place there then, and not here.
            let mut changing = held.pop().expect("one");
            ask(&mut changing, other.0).await;
            assert_eq!(changing.reply().await.status, other.1);
            let mut more = site.wire().await;
            ask(&mut more, other.0).await;
            assert_eq!(more.reply().await.status, 503, "all eight are taken");
            drop(changing);
            let mut next = site.wire().await;
            ask(&mut next, crowd.0).await;
            assert_eq!(next.reply().await.status, crowd.1);
        }
    });
}

#[test]
fn a_client_that_does_not_read_is_given_up() {
    run(async {
        let site = Site::with(|setup| {
            setup.limits.write_silence = MOMENT;
            setup.limits.connections = 2;
        })
        .await;
        let session = site.session().await;
        let headers = [("mcp-session-id", session.as_str())];
        let body = command_call(1, "bytes 1000000").to_string();
        let mut deaf = site.wire().await;
        // More answers than any buffer on the way holds.
        for _ in 0..40 {
            deaf.send("POST", "/mcp", &headers, body.as_bytes()).await;
        }
        let mut other = site.wire().await;
        other.send("GET", "/health", &[], b"").await;
        assert_eq!(other.reply().await.status, 200);
        // Its place is free again, though its client still holds the connection open.
        let mut third = site.wire().await;
        third.send("GET", "/health", &[], b"").await;
        assert_eq!(third.reply().await.status, 200);
        reaches(&site.world.running, 0).await;
        drop(deaf);
    });
}

#[test]
fn large_bodies_take_turns_and_small_ones_pass() {
    run(async {
        let site = Site::with(|setup| setup.limits.large_bodies = 1).await;
        let session = site.session().await;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\nmcp-session-id: {session}\r\n\
             content-length: 1000000\r\n\r\n"
        );
        let body = padded(1_000_000);
        let (mut first, mut second) = (site.wire().await, site.wire().await);
        first.raw(head.as_bytes()).await;
        first.raw(&body[..500_000]).await;
        second.raw(head.as_bytes()).await;
        let headers = [("mcp-session-id", session.as_str())];
        assert_eq!(site.post(&headers, request(1, "ping", json!({}))).await.status, 200);
        first.raw(&body[500_000..]).await;
        assert_eq!(first.reply().await.status, 200);
        second.raw(&body).await;
        assert_eq!(second.reply().await.status, 200);
    });
}

#[test]
fn one_account_leaves_room_for_large_bodies_of_others() {
    run(async {
        let site = Site::with(|setup| {
            setup.limits.large_bodies = 2;
            setup.limits.large_bodies_each = 1;
            setup.access = Access::Keys(KeyAccess::new(setup.engine.clone(), Rate::UNLIMITED));
        });
        let site = site.await;
        let ((_, one), (_, two)) = (site.key().await, site.key().await);
        let body = padded(1_000_000);
        let begin = async |key: &str| {
            let mut wire = site.wire().await;
            let head = format!(
                "POST /mcp HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\
                 content-length: 1000000\r\n\r\n"
            );
            wire.raw(head.as_bytes()).await;
            wire.raw(&body[..500_000]).await;
            wire
        };
        let mut held = begin(&one).await;
        let mut waits = begin(&one).await;
        let mut other = begin(&two).await;
        other.raw(&body[500_000..]).await;
        // Without a session; what counts is that it was read.
        assert_eq!(other.reply().await.status, 400);
        for wire in [&mut held, &mut waits] {
            wire.raw(&body[500_000..]).await;
            assert_eq!(wire.reply().await.status, 400);
        }
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    run(async {
        let site = Site::new().await;
        let mut wire = site.wire().await;
        wire.raw(
            b"GET /health HTTP/1.1\r\nhost: a\r\n\r\nGET /nothing HTTP/1.1\r\nhost: a\r\n\r\n",
        )
        .await;
        assert_eq!(wire.reply().await.status, 200);
        assert_eq!(wire.reply().await.status, 404);
        wire.raw(b"not HTTP at all\r\n\r\n").await;
        assert_eq!(wire.head().await.map(|reply| reply.status), Some(400));
    });
}
