//! Every way out: what is answered, what is stopped, what is left.

use holm_gateway::mcp::Ended;
use serde_json::{Value, json};

use crate::client::{Client, assert_matches, run};
use crate::world::reaches;

/// What was still said, and why it ended; nothing runs and nothing lives then.
async fn left(client: Client) -> (Vec<Value>, Ended) {
    let (rest, ended, world) = client.rest().await;
    assert_eq!((*world.running.borrow(), *world.alive.borrow()), (0, 0));
    (rest, ended)
}

#[test]
fn case_76_end_of_input_ends_sandboxes() {
    run(async {
        let mut client = Client::new();
        client.tool("create_sandbox", json!({})).await;
        client.tool("create_sandbox", json!({})).await;
        assert_eq!(*client.world.alive.borrow(), 2);
        client.close_input();
        let (rest, ended) = left(client).await;
        assert_eq!(rest, Vec::<Value>::new());
        assert!(matches!(ended, Ended::EndOfInput), "{ended:?}");
    });
}

#[test]
fn case_76_no_input_at_all() {
    run(async {
        let mut client = Client::new();
        client.close_input();
        let (rest, ended) = left(client).await;
        assert_eq!(rest, Vec::<Value>::new());
        assert!(matches!(ended, Ended::EndOfInput), "{ended:?}");
    });
}

#[test]
fn calls_received_before_the_end_are_answered_and_long_ones_stopped() {
    run(async {
        let mut client = Client::new();
        client.running(1, "hang").await;
        client.call(2, "get_service_info", json!({})).await;
        client.call(3, "run_command", json!({"command": "echo quick"})).await;
        client.request(4, "ping", json!({})).await;
        client.close_input();
        let (mut rest, _) = left(client).await;
        rest.sort_by_key(|message| message["id"].as_i64());
        assert_matches(
            &Value::Array(rest),
            json!([
                {"id": 2, "result": {"isError": false}},
                {"id": 3, "result": {"structuredContent": {"stdout": "quick\n"}}},
                {"id": 4, "result": {}},
            ]),
        );
    });
}

#[test]
fn a_signal_takes_the_same_way_out() {
    run(async {
        let mut client = Client::new();
        client.running(1, "hang").await;
        client.stop();
        let (rest, ended) = left(client).await;
        assert_eq!(rest, Vec::<Value>::new());
        assert!(matches!(ended, Ended::Shutdown), "{ended:?}");
    });
}

#[test]
fn case_76_a_client_that_no_longer_reads_is_the_end() {
    run(async {
        let mut client = Client::new();
        client.running(1, "hang").await;
        client.close_output();
        client.request(2, "ping", json!({})).await;
        let (_, ended) = left(client).await;
        assert!(matches!(ended, Ended::OutputClosed), "{ended:?}");
    });
}

#[test]
fn a_client_that_reads_nothing_cannot_hold_the_end_up() {
    run(async {
        let mut client = Client::new();
        client.tool("create_sandbox", json!({})).await;
        // More replies than the pipe and the queue hold: reading stops behind them, a signal does not.
        for id in 0..8 {
            client.call(id, "run_command", json!({"command": "bytes 500000"})).await;
        }
        client.stop();
        let world = client.world.clone();
        reaches(&world.alive, 0).await;
        assert_eq!(*world.running.borrow(), 0);
    });
}

#[test]
fn a_create_under_way_at_the_end_leaves_nothing() {
    run(async {
        let mut client = Client::new();
        client.creating(1, "create_sandbox", json!({})).await;
        client.stop();
        let (_, _, world) = client.rest().await;
        reaches(&world.creating, 0).await;
        assert_eq!(*world.alive.borrow(), 0);
    });
}
