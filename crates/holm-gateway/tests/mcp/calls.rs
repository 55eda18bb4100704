//! Calls side by side: order, cancellation, progress, limits, panics.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holm_gateway::mcp::Server;
use holm_gateway::mcp::schema;
use holm_gateway::mcp::tool::{Hints, Tool};
use holm_gateway::mcp::tools;
use serde_json::{Value, json};

use crate::client::{Client, assert_matches, run};
use crate::world::reaches;

async fn cancel(client: &mut Client, id: impl Into<Value>) {
    let params = json!({"requestId": id.into()});
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        .await;
}

fn with_frequent_progress() -> Client {
    Client::with(|options| {
        options.server = Arc::new(Server::new().progress_every(Duration::from_millis(5)));
    })
}

#[test]
fn case_81_others_are_answered_while_a_call_runs() {
    run(async {
        let mut client = Client::new();
        client.running(1, "gate").await;
        client.request(2, "ping", json!({})).await;
        client.result(2).await;
        client.request(3, "tools/list", json!({})).await;
        client.result(3).await;
        client.call(4, "run_command", json!({"command": "echo two"})).await;
        assert_eq!(client.result(4).await["structuredContent"]["stdout"], "two\n");
        client.world.gate.send_replace(true);
        client.result(1).await;
        assert_eq!(client.world.made.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn case_81_twenty_calls_at_once_never_mix_their_lines() {
    run(async {
        let mut client = Client::new();
        for id in 0..20 {
            let command = format!("bytes {}", 200_000 + id);
            client.call(id, "run_command", json!({"command": command})).await;
        }
        let mut seen = HashSet::new();
        for _ in 0..20 {
            let message = client.next().await;
            let id = message["id"].as_u64().expect("an id");
            assert_eq!(message["result"]["structuredContent"]["stdout_bytes"], 200_000 + id);
            assert!(seen.insert(id));
        }
        // Concurrent first calls shared one creation.
        assert_eq!(client.world.made.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn case_82_cancelling_stops_the_work_and_says_nothing_more() {
    run(async {
        let mut client = Client::new();
        client.running(1, "hang").await;
        cancel(&mut client, 1).await;
        reaches(&client.world.running.clone(), 0).await;
        // Twice, unknown, finished, nonsense: all ignored.
        for id in [json!(1), json!("1"), json!(77), json!(null), json!({})] {
            cancel(&mut client, id).await;
        }
        client.call(2, "run_command", json!({"command": "echo on"})).await;
        assert_eq!(client.result(2).await["structuredContent"]["stdout"], "on\n");
        cancel(&mut client, 2).await;
        client.request(1, "ping", json!({})).await;
        client.result(1).await;
        client.close_input();
        let (rest, ..) = client.rest().await;
        assert_eq!(rest, Vec::<Value>::new());
    });
}

#[test]
fn case_82_a_cancelled_create_leaves_nothing() {
    run(async {
        let mut client = Client::new();
        client.creating(1, "create_sandbox", json!({})).await;
        cancel(&mut client, 1).await;
        reaches(&client.world.creating.clone(), 0).await;
        client.world.may_create.send_replace(true);
        // The default of before counts again, which is: none, so one is made now.
        let answer = client.tool("run_command", json!({"command": "echo on"})).await;
        assert_eq!(answer["stdout"], "on\n");
        assert_eq!(client.world.made.load(Ordering::Relaxed), 1);
        assert_eq!(*client.world.alive.borrow(), 1);
    });
}

#[test]
fn a_cancelled_first_call_hands_the_creation_on() {
    run(async {
        let mut client = Client::new();
        client.creating(1, "run_command", json!({"command": "echo one"})).await;
        client.call(2, "run_command", json!({"command": "echo two"})).await;
        cancel(&mut client, 1).await;
        client.world.may_create.send_replace(true);
        assert_eq!(client.result(2).await["structuredContent"]["stdout"], "two\n");
        assert_eq!(*client.world.alive.borrow(), 1);
    });
}

#[test]
fn case_79_a_duplicate_id_never_mixes_results() {
    run(async {
        let mut client = Client::new();
        client.running(1, "gate").await;
        client.request(1, "ping", json!({})).await;
        assert_matches(
            &client.next().await,
            json!({"id": null, "error": {"code": -32600, "message": "*id 1 is in use*"}}),
        );
        // A string is another id.
        client.request("1", "ping", json!({})).await;
        client.result("1").await;
        client.world.gate.send_replace(true);
        assert_eq!(client.result(1).await["structuredContent"]["exit_code"], 0);
        client.request(1, "ping", json!({})).await;
        client.result(1).await;
    });
}

#[test]
fn case_87_progress_rises_until_the_result() {
    run(async {
        let mut client = with_frequent_progress();
        let call = |token: Value| {
            json!({
                "name": "run_command", "arguments": {"command": "gate"},
                "_meta": {"progressToken": token},
            })
        };
        client.request(1, "tools/call", call(json!("t"))).await;
        let mut last = -1.0;
        for _ in 0..3 {
            let message = client.next().await;
            assert_matches(
                &message,
                json!({"method": "notifications/progress", "params": {"progressToken": "t"}}),
            );
            let progress = message["params"]["progress"].as_f64().expect("a number");
            assert!(progress > last, "{progress} after {last}");
            last = progress;
        }
        client.world.gate.send_replace(true);
        loop {
            let message = client.next().await;
            if message["id"] == 1 {
                break;
            }
            assert_eq!(message["method"], "notifications/progress");
        }
        client.request(2, "tools/call", call(json!(true))).await;
        assert_matches(&client.next().await, json!({"id": 2, "error": {"code": -32602}}));
        client.close_input();
        assert_eq!(client.rest().await.0, Vec::<Value>::new());
    });
}

#[test]
fn case_87_without_a_token_there_is_no_progress() {
    run(async {
        let mut client = with_frequent_progress();
        client.running(1, "gate").await;
        let params = json!({
            "name": "run_command", "arguments": {"command": "gate"}, "_meta": {"progressToken": 2},
        });
        client.request(2, "tools/call", params).await;
        // Five periods of the second call have passed for the first as well.
        for _ in 0..5 {
            let message = client.next().await;
            assert_matches(&message, json!({"params": {"progressToken": 2}}));
        }
    });
}

#[test]
fn too_many_calls_at_once_are_refused_as_results() {
    run(async {
        let mut client = Client::with(|options| options.max_calls = 2);
        client.running(1, "gate").await;
        client.running(2, "gate").await;
        client.call(3, "run_command", json!({"command": "echo three"})).await;
        assert_matches(
            &client.result(3).await,
            json!({"isError": true, "structuredContent": {"error": {"code": "capacity"}}}),
        );
        client.request(4, "ping", json!({})).await;
        client.result(4).await;
        client.world.gate.send_replace(true);
        client.next().await;
        client.next().await;
        client.call(5, "run_command", json!({"command": "echo five"})).await;
        assert_eq!(client.result(5).await["structuredContent"]["stdout"], "five\n");
    });
}

#[test]
fn case_91_a_panic_becomes_an_internal_error_of_that_call() {
    run(async {
        let mut client = Client::with(|options| {
            let mut all = tools::all();
            all.push(Tool {
                name: "panics",
                hidden_names: &[],
                title: "",
                description: "",
                hints: Hints::Reads,
                input: schema::input(&[], &[]),
                output: schema::output(&[], &[]),
                makes_default: false,
                run: |_| Box::pin(async { panic!("secret text") }),
            });
            options.server = Arc::new(Server::with_tools(all));
        });
        client.call(1, "run_command", json!({"command": "gate"})).await;
        client.call(2, "panics", json!({})).await;
        let message = client.next().await;
        assert_matches(&message, json!({"id": 2, "error": {"code": -32603}}));
        assert!(!message.to_string().contains("secret"), "{message}");
        client.world.gate.send_replace(true);
        client.result(1).await;
    });
}

#[test]
fn case_6_long_lines_of_output_and_input_pass() {
    run(async {
        let mut client = Client::new();
        let answer = client.tool("run_command", json!({"command": "bytes 3000000"})).await;
        assert_eq!(answer["stdout_bytes"], 3_000_000);
        assert_eq!(answer["stdout_truncated"], true);
        let content = "é\"`$(id)\\".repeat(300_000);
        let written = client.tool("write_file", json!({"path": "big", "content": content})).await;
        assert_eq!(written["bytes_written"], content.len());
        let read = client.tool("read_file", json!({"path": "big"})).await;
        assert!(read["content"] == content.as_str(), "the text differs");
    });
}
