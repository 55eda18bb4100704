//! A large answer has its room in memory until the client has read it.

use std::time::Duration;

use holm_engine::{Caller, ErrorKind, SandboxId};
use serde_json::json;
use tokio::time::timeout;

use crate::client::{Client, run};
use crate::world::{HANG, World};

#[test]
fn an_answer_keeps_its_room_until_it_is_read() {
    run(async {
        let (world, _) = World::new();
        let engine = world.engine(|settings| {
            // One account has half of it, which is less than the answer needs.
            settings.answer_room = 1 << 20;
            settings.answer_wait = Duration::from_millis(200);
        });
        let local = engine.for_caller(Caller::local());
        let mut client = Client::of(world, engine, |_| {});
        let content = "x".repeat(400_000);
        let written = client.tool("write_file", json!({"path": "f", "content": content})).await;
        let id: SandboxId = written["sandbox_id"].as_str().expect("an id").parse().expect("an id");
        // A part is read quickly, so that this stands in nobody's way.
        let is_full = async || match local.file_read(&id, "f", None, 0, Some(100_000)).await {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::RateLimited, "{error}");
                assert!(error.retry_after.is_some());
                true
            }
        };
        assert!(!is_full().await);
        client.call(2, "read_file", json!({"path": "f"})).await;
        timeout(HANG, async { while !is_full().await {} }).await.expect("an answer that waits");
        local.file_read(&id, "f", None, 0, Some(1000)).await.expect("what is short needs none");
        assert!(is_full().await);
        let read = client.result(2).await;
        assert_eq!(read["structuredContent"]["content"], content);
        timeout(HANG, async { while is_full().await {} }).await.expect("the room is given back");
    });
}
