//! A large answer has its room in memory until the client has read it, or has gone.

use std::time::Duration;

use holm_engine::{Caller, CreateSandbox, ErrorKind};
use serde_json::json;
use tokio::time::timeout;

use crate::client::run;
use crate::site::{Site, call};
use crate::wire::Wire;
use crate::world::HANG;

/// More than sockets take without a reader.
const FILE: usize = 16 << 20;

#[test]
fn answers_keep_their_room_until_they_are_read() {
    run(async {
        let site = Site::with(|setup| {
            setup.rebuild(|settings| {
                settings.answer_room = 2 * FILE as u64;
                settings.answer_wait = Duration::from_millis(200);
            });
        });
        let site = site.await;
        let local = site.engine.for_caller(Caller::local());
        let id = local.sandbox_create(CreateSandbox::default()).await.expect("a sandbox").id;
        local.file_write(&id, "f", None, None, vec![b'x'; FILE].into()).await.expect("written");
        // A part is read quickly, so that this stands in nobody's way.
        let is_full = async || match local.file_read(&id, "f", None, 0, Some(100_000)).await {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::RateLimited, "{error}");
                true
            }
        };
        let session = site.session().await;
        let file = format!("/v1/sandboxes/{id}/files?path=f");
        let mut read = call(1, "read_file", json!({"sandbox_id": id, "path": "f"}));
        let as_json = read.to_string();
        read["params"]["_meta"] = json!({"progressToken": 1});
        let as_events = read.to_string();
        let session = ("mcp-session-id", session.as_str());
        let events = ("accept", "application/json, text/event-stream");
        for (method, path, headers, body) in [
            ("GET", file.as_str(), vec![], ""),
            ("POST", "/mcp", vec![session], as_json.as_str()),
            ("POST", "/mcp", vec![session, events], as_events.as_str()),
        ] {
            for reads in [true, false] {
                assert!(!is_full().await, "{method} {headers:?}");
                let mut deaf: Wire = site.wire().await;
                deaf.send(method, path, &headers, body.as_bytes()).await;
                timeout(HANG, async { while !is_full().await {} }).await.expect("it waits");
                let refused = site.ask("GET", &file, &[], b"").await;
                assert_eq!(refused.status, 429, "{refused:?}");
                assert_eq!(refused.json()["error"]["type"], "rate_limited");
                assert_eq!(refused.header("retry-after"), Some("2"));
                if reads && headers.contains(&events) {
                    assert_eq!(deaf.head().await.expect("a head").status, 200);
                    assert_eq!(deaf.event().await.expect("an answer")["id"], 1);
                } else if reads {
                    assert_eq!(deaf.reply().await.status, 200);
                }
                drop(deaf);
                timeout(HANG, async { while is_full().await {} }).await.expect("given back");
            }
        }
    });
}
