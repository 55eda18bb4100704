//! The tools: what they promise, what they answer, which sandbox they use.

use std::path::Path;
use std::sync::atomic::Ordering;

use holm_gateway::mcp::Server;
use serde_json::{Value, json};

use crate::client::{Client, assert_matches, run};
use crate::schemas;

/// The list is part of the product: every change of it is to be seen and meant.
#[test]
fn tools_list_is_the_committed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/tools.json");
    let now = serde_json::to_string_pretty(&Server::new().list()).expect("serializable") + "\n";
    if std::env::var_os("HOLM_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &now).expect("writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = now.lines().zip(committed.lines()).position(|(now, then)| now != then);
    assert!(
        now == committed,
        "tools/list differs from {} (first at line {:?}). If that is meant, run the test with \
         HOLM_UPDATE_SNAPSHOTS=1 and commit the file.",
        path.display(),
        differs.map(|line| line + 1)
    );
}

#[test]
fn every_tool_is_described_in_full() {
    for tool in Server::new().list() {
        let name = tool["name"].as_str().expect("a name");
        assert!(name.len() <= 128 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
        assert!(tool["description"].as_str().is_some_and(|text| text.len() > 40), "{name}");
        assert!(tool["title"].is_string() && tool["annotations"].is_object(), "{name}");
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{name}");
            for (argument, rule) in tool[schema]["properties"].as_object().expect("properties") {
                assert!(rule.is_object(), "{name} {argument}");
                if let Some(default) = rule.get("default") {
                    assert_eq!(schemas::fits(rule, default), Ok(()), "{name} {argument}");
                }
            }
        }
        // Some clients refuse schemas of arguments that are combined at the top.
        for keyword in ["anyOf", "oneOf", "allOf"] {
            assert!(tool["inputSchema"].get(keyword).is_none(), "{name}");
        }
    }
}

/// A client that checks every result against the tool's output schema.
struct Checked(Client);

impl Checked {
    async fn call(&mut self, name: &str, arguments: Value) -> Value {
        let listed = if name == "kill_sandbox" { "destroy_sandbox" } else { name };
        let all = Server::new().list();
        let tool = all.iter().find(|tool| tool["name"] == listed).expect("a known tool");
        self.0.call(name, name, arguments).await;
        let result = self.0.result(name).await;
        let fits = schemas::fits(&tool["outputSchema"], &result["structuredContent"]);
        assert_eq!(fits, Ok(()), "{name}: {result:#}");
        assert_eq!(result["content"].as_array().map(Vec::len), Some(1), "{name}");
        assert!(result["content"][0]["text"].is_string() && result["isError"].is_boolean());
        result
    }

    async fn good(&mut self, name: &str, arguments: Value) -> Value {
        let mut result = self.call(name, arguments).await;
        assert_eq!(result["isError"], false, "{result:#}");
        result["structuredContent"].take()
    }

    async fn bad(&mut self, name: &str, arguments: Value, code: &str) -> Value {
        let result = self.call(name, arguments).await;
        assert_matches(
            &result,
            json!({"isError": true, "structuredContent": {"error": {"code": code, "suggestion": "*"}}}),
        );
        result
    }
}

#[test]
fn case_92_every_tool_does_what_it_says() {
    run(async {
        let mut client = Checked(Client::new());
        let info = client.good("get_service_info", json!({})).await;
        assert_matches(
            &info,
            json!({
                "name": "holm", "sizes": {"small": "*", "medium": "*", "large": "*"},
                "limits": {"message_bytes": 8_388_608, "max_sandboxes": 20},
                "prices": {"per_hour": {"small": 0}},
            }),
        );
        assert_eq!(client.0.world.made.load(Ordering::Relaxed), 0);

        let made = client
            .good(
                "create_sandbox",
                json!({
                    "name": "one", "size": "small", "timeout": 120, "envs": {"A": "b"},
                    "metadata": {"k": "v"}, "region": "eu", "provider": "x", "network": "none",
                }),
            )
            .await;
        assert_matches(
            &made,
            json!({
                "name": "one", "status": "running", "size": "small", "template": "*",
                "metadata": {"k": "v"}, "ignored": ["region", "provider"], "expires_at": "*Z*",
            }),
        );
        let id = made["sandbox_id"].clone();

        let written =
            client.good("write_file", json!({"path": "src/a.txt", "content": "héllo\n"})).await;
        assert_eq!(
            written,
            json!({"sandbox_id": id, "path": "/workspace/src/a.txt", "bytes_written": 7})
        );
        let bytes =
            json!({"path": "b.bin", "content": "AP8=", "encoding": "base64", "mode": "0600"});
        client.good("write_file", bytes).await;

        let read = client.call("read_file", json!({"path": "src/a.txt"})).await;
        assert_eq!(read["content"][0]["text"], "héllo\n");
        assert_matches(
            &read["structuredContent"],
            json!({"content": "héllo\n", "size": 7, "truncated": false, "encoding": "utf-8"}),
        );
        let part = client.good("read_file", json!({"path": "src/a.txt", "limit": 2})).await;
        assert_matches(&part, json!({"content": "h", "truncated": true, "next_offset": 1}));
        let rest = client.good("read_file", json!({"path": "src/a.txt", "offset": 1})).await;
        assert_matches(&rest, json!({"content": "éllo\n", "truncated": false}));
        let refused = client.bad("read_file", json!({"path": "b.bin"}), "file_invalid").await;
        assert!(refused.to_string().contains("base64"), "{refused}");
        let read = client.good("read_file", json!({"path": "b.bin", "encoding": "base64"})).await;
        assert_eq!(read["content"], "AP8=");
        client.bad("read_file", json!({"path": "nowhere"}), "file_not_found").await;

        let listed = client.good("list_files", json!({"limit": 1})).await;
        assert_matches(
            &listed,
            json!({
                "path": "/workspace", "truncated": true, "next_cursor": "*",
                "files": [{"path": "/workspace/b.bin", "name": "b.bin", "type": "file", "size": 2}],
            }),
        );
        let cursor = &listed["next_cursor"];
        let listed = client.good("list_files", json!({"cursor": cursor})).await;
        assert_matches(&listed, json!({"truncated": false, "files": [{"name": "a.txt"}]}));

        let ran = client.call("run_command", json!({"command": "echo hi", "timeout": 5})).await;
        assert_eq!(ran["content"][0]["text"], "exit code 0\n\nstdout:\nhi\n");
        let failed = client.call("run_command", json!({"command": "fail why"})).await;
        assert_matches(
            &failed,
            json!({
                "isError": true,
                "content": [{"type": "text", "text": "exit code 3\n\nstderr:\nwhy\n"}],
                "structuredContent": {"exit_code": 3, "stdout": "", "stderr": "why\n"},
            }),
        );
        let odd = client.good("run_command", json!({"command": "binary"})).await;
        assert_matches(&odd, json!({"stdout": "a\u{0}\u{fffd}", "stdout_lossy": true}));
        let env = json!({"command": "printenv X", "env": {"X": "naïve €"}});
        assert_eq!(client.good("run_command", env).await["stdout"], "naïve €");

        let behind = client.call("run_command", json!({"command": "x", "background": true})).await;
        assert_matches(
            &behind,
            json!({
                "isError": false,
                "content": [{"text": "*cmd_1. get_command tells*"}],
                "structuredContent": {"command_id": "cmd_1", "pid": 42, "background": true},
            }),
        );
        // That it has failed is what was asked for, so the call has not.
        let then = client.call("get_command", json!({"command_id": "cmd_1"})).await;
        assert_matches(
            &then,
            json!({
                "isError": false,
                "content": [{"text": "cmd_1: exited, exit code 3\n\nstdout:\nout\n"}],
                "structuredContent": {
                    "state": "exited", "exit_code": 3, "stdout": "out\n", "stdout_next": 4,
                },
            }),
        );
        let listed = client.good("list_commands", json!({})).await;
        assert_eq!(listed["commands"], json!([]));

        let code = client.good("run_code", json!({"code": "print(6*7)"})).await;
        assert_matches(
            &code,
            json!({"stdout": "print(6*7)", "language": "python", "stateful": false, "exit_code": 0}),
        );
        let shell = client.good("run_code", json!({"code": "true", "language": "shell"})).await;
        assert_eq!(shell["language"], "bash");
        client.bad("run_code", json!({"code": "1", "language": "cobol"}), "invalid_argument").await;
        client.bad("run_code", json!({"code": "1", "language": "r"}), "language_unavailable").await;

        let got = client.good("get_sandbox", json!({})).await;
        assert_matches(&got, json!({"sandbox_id": id, "state": "running", "usage": "*"}));
        let before = got["expires_at"].clone();
        let extended = client.good("extend_sandbox", json!({"additional_minutes": 30})).await;
        assert!(extended["expires_at"].as_str() > before.as_str(), "{extended} after {before}");
        let all = client.good("list_sandboxes", json!({})).await;
        assert_matches(&all, json!({"sandboxes": [{"sandbox_id": id}]}));
        assert_matches(
            &client.good("get_usage", json!({})).await,
            json!({"sandboxes_running": 1, "sandboxes_total": 1, "balance": null}),
        );

        let gone = client.good("destroy_sandbox", json!({})).await;
        assert_eq!(gone, json!({"sandbox_id": id, "status": "deleted", "success": true}));
        let again = client.good("kill_sandbox", json!({"sandbox_id": id})).await;
        assert_eq!(again["success"], true);
        let ended = client.good("get_sandbox", json!({"sandbox_id": id})).await;
        assert_matches(&ended, json!({"status": "deleted", "ended_reason": "destroyed"}));
        assert_matches(
            &client.good("list_sandboxes", json!({"include_deleted": true})).await,
            json!({"sandboxes": [{"status": "deleted"}]}),
        );
        for (name, arguments) in [
            ("run_command", json!({"command": "echo", "sandbox_id": id})),
            ("read_file", json!({"path": "a", "sandbox_id": id})),
            ("extend_sandbox", json!({"sandbox_id": id})),
        ] {
            let refused = client.bad(name, arguments, "sandbox_gone").await;
            assert_eq!(refused["structuredContent"]["ended_reason"], "destroyed");
        }
        let unknown = json!({"sandbox_id": "sbx_0123456789abcdef01"});
        client.bad("get_sandbox", unknown.clone(), "not_found").await;
        client.bad("destroy_sandbox", unknown, "not_found").await;
        client.bad("get_sandbox", json!({"sandbox_id": "../x"}), "invalid_argument").await;
        client.bad("destroy_sandbox", json!({}), "not_found").await;
        client.bad("get_sandbox", json!({}), "not_found").await;
        assert_eq!(client.0.world.made.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn create_sandbox_replaces_the_default_and_explicit_ids_do_not() {
    run(async {
        let mut client = Client::new();
        let lazy =
            client.tool("run_command", json!({"command": "echo"})).await["sandbox_id"].clone();
        let second = client.tool("create_sandbox", json!({})).await["sandbox_id"].clone();
        assert_ne!(lazy, second);
        let explicit = json!({"command": "echo", "sandbox_id": lazy});
        assert_eq!(client.tool("run_command", explicit).await["sandbox_id"], lazy);
        let used = client.tool("run_command", json!({"command": "echo"})).await;
        assert_eq!(used["sandbox_id"], second);
        // Without a default a new one is made, although the first sandbox still lives.
        client.tool("destroy_sandbox", json!({})).await;
        let third = client.tool("write_file", json!({"path": "a", "content": ""})).await;
        assert!(third["sandbox_id"] != lazy && third["sandbox_id"] != second, "{third}");
        assert_eq!(*client.world.alive.borrow(), 2);
    });
}

#[test]
fn calls_sent_behind_a_create_use_its_sandbox() {
    run(async {
        let mut client = Client::new();
        client.world.may_create.send_replace(false);
        client.call(1, "create_sandbox", json!({})).await;
        client.call(2, "run_command", json!({"command": "echo"})).await;
        client.request(3, "ping", json!({})).await;
        client.result(3).await;
        client.world.may_create.send_replace(true);
        let (mut made, mut used) = (client.next().await, client.next().await);
        if made["id"] == 2 {
            std::mem::swap(&mut made, &mut used);
        }
        let id = |message: &Value| message["result"]["structuredContent"]["sandbox_id"].clone();
        assert_eq!(id(&made), id(&used));
        assert_eq!(client.world.made.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_failed_create_leaves_the_default_as_it_was() {
    run(async {
        let mut client = Client::new();
        let first = client.tool("create_sandbox", json!({})).await["sandbox_id"].clone();
        client.world.broken.send_replace(true);
        for arguments in [json!({}), json!({"size": "huge"}), json!({"template": "nowhere"})] {
            let failed = client.tool("create_sandbox", arguments).await;
            assert!(failed["error"]["code"].is_string(), "{failed}");
        }
        client.world.broken.send_replace(false);
        let used = client.tool("run_command", json!({"command": "echo"})).await;
        assert_eq!(used["sandbox_id"], first);
        assert_eq!(*client.world.alive.borrow(), 1);
        // And it really is the default: destroyed, it is replaced at the next need.
        client.tool("destroy_sandbox", json!({})).await;
        let next = client.tool("run_command", json!({"command": "echo"})).await;
        assert_ne!(next["sandbox_id"], first);
        assert_eq!(next["exit_code"], 0);
    });
}

#[test]
fn a_default_that_is_gone_is_told_once_and_then_replaced() {
    run(async {
        let mut client = Client::new();
        let first = client.tool("create_sandbox", json!({})).await["sandbox_id"].clone();
        // As if it had ended by itself: destroyed behind the session's back.
        let engine_view = client.tool("get_sandbox", json!({})).await;
        assert_eq!(engine_view["sandbox_id"], first);
        client.running(1, "hang").await;
        client.call(2, "destroy_sandbox", json!({"sandbox_id": first})).await;
        let (one, two) = (client.next().await, client.next().await);
        let (run, _) = if one["id"] == 1 { (one, two) } else { (two, one) };
        assert_matches(
            &run["result"],
            json!({"isError": true, "structuredContent": {
                "error": {"code": "sandbox_gone"}, "ended_reason": "destroyed",
            }}),
        );
        let next = client.tool("run_command", json!({"command": "echo"})).await;
        assert_ne!(next["sandbox_id"], first);
        assert_eq!(next["exit_code"], 0);
    });
}
