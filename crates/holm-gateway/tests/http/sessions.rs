//! Sessions: their begin, their owner, their end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use holm_engine::Rate;
use holm_gateway::http::{Access, KeyAccess};
use holm_gateway::mcp::http::sessions::SessionRules;
use serde_json::{Value, json};

use crate::client::{assert_matches, run};
use crate::site::{Site, borrowed, call, command_call, request};
use crate::world::reaches;

fn ping() -> Value {
    request(1, "ping", json!({}))
}

#[test]
fn case_84_unknown_sessions_are_404_and_missing_ones_400() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        for (headers, status) in [
            (vec![], 400),
            (vec![("mcp-session-id", "00000000-0000-4000-8000-000000000000")], 404),
            (vec![("mcp-session-id", "")], 404),
            (vec![("mcp-session-id", "é")], 404),
            (vec![("MCP-SESSION-ID", session.as_str())], 200),
        ] {
            let reply = site.post(&headers, ping()).await;
            assert_eq!(reply.status, status, "{headers:?}");
            if status != 200 {
                assert_matches(&reply.json(), json!({"id": 1, "error": {"code": -32600}}));
            }
            let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            let reply = site.post(&headers, initialized).await;
            assert_eq!(reply.status, if status == 200 { 202 } else { status }, "{headers:?}");
        }
        let headers = [("mcp-session-id", session.as_str())];
        assert_eq!(site.ask("DELETE", "/mcp", &[], b"").await.status, 400);
        assert_eq!(site.ask("DELETE", "/mcp", &[("mcp-session-id", "x")], b"").await.status, 404);
        assert_eq!(site.ask("DELETE", "/v1/mcp", &headers, b"").await.status, 200);
        assert_eq!(site.ask("DELETE", "/mcp", &headers, b"").await.status, 404);
        assert_eq!(site.post(&headers, ping()).await.status, 404);
        site.session().await;
    });
}

#[test]
fn initialize_with_a_session_answers_inside_it() {
    run(async {
        let site = Site::new().await;
        let session = site.session_of(&[], "2025-03-26").await;
        let headers = [("mcp-session-id", session.as_str())];
        let body = request(2, "initialize", json!({"protocolVersion": "2025-11-25"}));
        let reply = site.post(&headers, body).await;
        assert_eq!(reply.header("mcp-session-id"), Some(session.as_str()));
        assert_eq!(reply.json()["result"]["protocolVersion"], "2025-11-25");
        let body = json!({"jsonrpc": "2.0", "method": "initialize"});
        assert_eq!(site.post(&[], body).await.status, 400, "a notification begins nothing");
    });
}

#[test]
fn initialize_falls_back_to_the_revision_of_this_transport() {
    run(async {
        let site = Site::new().await;
        for (asked, given) in [
            (json!({}), "2025-06-18"),
            (json!({"protocolVersion": "1999-01-01"}), "2025-06-18"),
            (json!({"protocolVersion": "2026-07-28"}), "2025-06-18"),
            (json!({"protocolVersion": "2024-11-05"}), "2024-11-05"),
            (json!({"protocolVersion": "2025-11-25"}), "2025-11-25"),
        ] {
            let reply = site.post(&[], request(1, "initialize", asked.clone())).await;
            assert_eq!(reply.json()["result"]["protocolVersion"], given, "{asked}");
        }
    });
}

#[test]
fn the_version_header_may_be_missing_but_not_unknown() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        for (version, status) in [
            ("2024-11-05", 200),
            ("2025-03-26", 200),
            ("2025-06-18", 200),
            ("2025-11-25", 200),
            ("1999-01-01", 400),
            ("", 400),
        ] {
            let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", version)];
            let reply = site.post(&headers, ping()).await;
            assert_eq!(reply.status, status, "{version}: {reply:?}");
            if status == 400 {
                let expected = json!({"error": {"code": -32022, "data": {"requested": version}}});
                assert_matches(&reply.json(), expected);
            }
        }
    });
}

#[test]
fn each_session_has_its_own_default_sandbox() {
    run(async {
        let site = Site::new().await;
        let (one, two) = (site.session().await, site.session().await);
        let command = json!({"command": "echo on"});
        let first = site.tool(&one, "run_command", command.clone()).await;
        let again = site.tool(&one, "run_command", command.clone()).await;
        let other = site.tool(&two, "run_command", command).await;
        assert_eq!(first["sandbox_id"], again["sandbox_id"]);
        assert_ne!(first["sandbox_id"], other["sandbox_id"]);
        assert_eq!(*site.world.alive.borrow(), 2);
        site.ask("DELETE", "/mcp", &[("mcp-session-id", &one)], b"").await;
        assert_eq!(*site.world.alive.borrow(), 1);
        let gone = json!({"command": "echo on", "sandbox_id": first["sandbox_id"]});
        let answer = site.tool(&two, "run_command", gone).await;
        assert_matches(&answer, json!({"error": {"code": "sandbox_gone"}}));
    });
}

#[test]
fn the_hundred_and_first_session_is_refused_until_one_ends() {
    run(async {
        let site = Site::new().await;
        let mut sessions = Vec::new();
        for _ in 0..100 {
            sessions.push(site.session().await);
        }
        let reply = site.post(&[], request("late", "initialize", json!({}))).await;
        assert_eq!((reply.status, reply.header("mcp-session-id")), (503, None));
        assert_matches(&reply.json(), json!({"id": "late", "error": {"code": -32000}}));
        let headers = [("mcp-session-id", sessions[0].as_str())];
        assert_eq!(site.post(&headers, ping()).await.status, 200, "the others go on");
        site.ask("DELETE", "/mcp", &headers, b"").await;
        site.session().await;
    });
}

#[test]
fn idle_sessions_end_with_their_sandboxes() {
    run(async {
        let idle = Duration::from_millis(100);
        let site =
            Site::with(|setup| setup.sessions = SessionRules { idle, limit: 1, each: 1 }).await;
        let session = site.session().await;
        site.tool(&session, "create_sandbox", json!({})).await;
        // Nobody asks for anything: the server sees it by itself.
        reaches(&site.world.alive, 0).await;
        assert_eq!(site.post(&[("mcp-session-id", &session)], ping()).await.status, 404);
        site.session().await;
    });
}

#[test]
fn a_session_is_not_idle_while_a_call_runs() {
    run(async {
        let idle = Duration::from_millis(50);
        let site =
            Site::with(|setup| setup.sessions = SessionRules { idle, limit: 2, each: 2 }).await;
        let long = site.session().await;
        let mut wire = site.running(&long, 1, "gate").await;
        // Another session, begun later, has its whole idle time while the call runs.
        let short = site.session().await;
        site.tool(&short, "create_sandbox", json!({})).await;
        reaches(&site.world.alive, 1).await;
        site.world.gate.send_replace(true);
        let reply = wire.reply().await;
        assert_matches(&reply.json(), json!({"id": 1, "result": {"isError": false}}));
    });
}

#[test]
fn case_59_delete_ends_running_calls() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        let mut wire = site.running(&session, 1, "hang").await;
        let reply = site.ask("DELETE", "/mcp", &[("mcp-session-id", &session)], b"").await;
        assert_eq!(reply.status, 200);
        assert_eq!((*site.world.running.borrow(), *site.world.alive.borrow()), (0, 0));
        let told = wire.reply().await.json();
        let error = json!({"error": {"code": "sandbox_gone"}});
        assert_matches(
            &told,
            json!({"id": 1, "result": {"isError": true, "structuredContent": error}}),
        );
    });
}

#[test]
fn delete_while_a_sandbox_is_made_leaves_nothing() {
    run(async {
        let site = Site::new().await;
        let session = site.session().await;
        site.world.may_create.send_replace(false);
        let headers = [("mcp-session-id", session.as_str())];
        let body = call(1, "create_sandbox", json!({})).to_string();
        let _wire = site.sent("POST", "/mcp", &headers, body.as_bytes()).await;
        reaches(&site.world.creating, 1).await;
        site.ask("DELETE", "/mcp", &headers, b"").await;
        reaches(&site.world.creating, 0).await;
        assert_eq!(site.world.made.load(Ordering::Relaxed), 0);
    });
}

/// A site for so many sessions, where keys are asked for.
async fn small_house(limit: usize) -> Site {
    Site::with(|setup| {
        setup.sessions = SessionRules { limit, ..SessionRules::default() };
        setup.access = Access::Keys(KeyAccess::new(setup.engine.clone(), Rate::UNLIMITED));
    })
    .await
}

#[test]
fn a_full_house_gives_up_no_session_with_sandboxes() {
    run(async {
        let site = small_house(3).await;
        let ((_, one), (_, two)) = (site.key().await, site.key().await);
        let (one, two) = ([("x-api-key", one.as_str())], [("x-api-key", two.as_str())]);
        let mut own = Vec::new();
        let mut sandboxes = Vec::new();
        let ask = async |session: &str, body: Value| {
            site.post(&[one[0], ("mcp-session-id", session)], body).await
        };
        for wanted in [
            call(1, "create_sandbox", json!({})),
            command_call(1, "echo on"),
            command_call(1, "echo on"),
        ] {
            let session = site.session_of(&one, "2025-11-25").await;
            let made = ask(&session, wanted).await.json();
            let made = &made["result"]["structuredContent"];
            sandboxes.push(made["sandbox_id"].as_str().expect("an id").to_owned());
            own.push(session);
        }
        let begin = || request(1, "initialize", json!({"protocolVersion": "2025-11-25"}));
        let refused = site.post(&two, begin()).await;
        assert_eq!((refused.status, refused.header("mcp-session-id")), (503, None));
        assert_eq!(*site.world.alive.borrow(), 3);
        for session in &own {
            assert_eq!(ask(session, ping()).await.status, 200);
        }
        // The one that was used last becomes the only one that has nothing to lose, by the hand of
        // another session.
        let destroy = call(2, "destroy_sandbox", json!({"sandbox_id": sandboxes[2]}));
        assert_eq!(ask(&own[0], destroy).await.status, 200);
        site.session_of(&two, "2025-11-25").await;
        let mut left = Vec::new();
        for session in &own {
            left.push(ask(session, ping()).await.status);
        }
        assert_eq!((left, *site.world.alive.borrow()), (vec![200, 200, 404], 2));
    });
}

#[test]
fn a_full_house_gives_up_idle_sessions_of_who_has_most() {
    run(async {
        let site = small_house(4).await;
        let ((_, one), (_, two)) = (site.key().await, site.key().await);
        let key = |key: &str| vec![("x-api-key".to_owned(), key.to_owned())];
        let (one, two) = (key(&one), key(&two));
        let mut own = Vec::new();
        // One account alone may have all of them.
        for _ in 0..4 {
            own.push(site.session_of(&borrowed(&one), "2025-11-25").await);
        }
        let begin = || request(1, "initialize", json!({"protocolVersion": "2025-11-25"}));
        assert_eq!(site.post(&borrowed(&one), begin()).await.status, 503);
        let ask = async |session: &str, headers: &[(String, String)]| {
            let headers = [&borrowed(headers)[..], &[("mcp-session-id", session)]].concat();
            site.post(&headers, ping()).await.status
        };
        // The first becomes the one that was used last, and the second is busy.
        assert_eq!(ask(&own[0], &one).await, 200);
        let headers = [&borrowed(&one)[..], &[("mcp-session-id", own[1].as_str())]].concat();
        let busy = site.running_with(&headers, command_call(5, "hang")).await;
        let others = [
            site.session_of(&borrowed(&two), "2025-11-25").await,
            site.session_of(&borrowed(&two), "2025-11-25").await,
        ];
        let mut left = Vec::new();
        for session in &own {
            left.push(ask(session, &one).await);
        }
        assert_eq!(left, [200, 200, 404, 404]);
        // Both have their share now.
        for headers in [&one, &two] {
            assert_eq!(site.post(&borrowed(headers), begin()).await.status, 503);
        }
        assert_eq!(ask(&others[0], &two).await, 200);
        drop(busy);
    });
}

#[test]
fn sessions_of_a_revoked_key_make_room() {
    run(async {
        let site = small_house(2).await;
        let ((id, one), (_, two)) = (site.key().await, site.key().await);
        let (one, two) = ([("x-api-key", one.as_str())], [("x-api-key", two.as_str())]);
        for _ in 0..2 {
            let session = site.session_of(&one, "2025-11-25").await;
            let headers = [one[0], ("mcp-session-id", session.as_str())];
            let made = site.post(&headers, call(1, "create_sandbox", json!({}))).await;
            assert_eq!(made.status, 200);
        }
        let begin = || request(1, "initialize", json!({"protocolVersion": "2025-11-25"}));
        assert_eq!(site.post(&two, begin()).await.status, 503);
        site.engine.key_revoke(id).await.expect("revoked");
        // Its end is looked for each second.
        while site.post(&two, begin()).await.status != 200 {
            tokio::task::yield_now().await;
        }
        reaches(&site.world.alive, 0).await;
    });
}

#[test]
fn an_account_may_have_a_bound_of_its_own() {
    run(async {
        let site = Site::with(|setup| {
            setup.sessions = SessionRules { each: 1, ..SessionRules::default() };
        });
        let site = site.await;
        site.session().await;
        let body = request(1, "initialize", json!({"protocolVersion": "2025-11-25"}));
        let refused = site.post(&[], body).await;
        assert_eq!(refused.status, 503);
        let message = refused.json()["error"]["message"].to_string();
        assert!(message.contains("this account has 1 sessions"), "{message}");
    });
}
