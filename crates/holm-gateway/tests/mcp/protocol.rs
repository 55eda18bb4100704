//! Lines in, lines out: envelopes, revisions, hostile input.

use serde_json::{Value, json};

use crate::client::{Client, assert_matches, check, check_bytes, run};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;

fn pong() -> Value {
    json!({"jsonrpc": "2.0", "id": "p", "result": {}})
}

fn error(id: impl Into<Value>, code: i64) -> Value {
    json!({"id": id.into(), "error": {"code": code, "message": "*"}})
}

/// A request of revision 2026-07-28.
fn modern(id: i64, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

#[test]
fn the_printed_smoke_test_gets_exactly_two_replies() {
    check(
        &[INITIALIZE, r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}"#],
        &[
            json!({"id": 1, "result": {
                "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {"listChanged": false}},
                "serverInfo": {"name": "holm"},
            }}),
            json!({"id": 2, "result": {"tools": "*"}}),
        ],
    );
}

#[test]
fn initialize_agrees_on_a_revision() {
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2024-11-05"),
        ("1.0", "2024-11-05"),
    ] {
        let params = json!({
            "protocolVersion": asked, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        check(
            &[
                &request.to_string(),
                r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
                PING,
            ],
            &[json!({"id": 1, "result": {"protocolVersion": agreed}}), pong()],
        );
    }
}

#[test]
fn tools_are_listed_and_called_without_a_handshake() {
    check(
        &[
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":null}}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"x"}}"#,
        ],
        &[
            json!({"id": 1, "result": {"tools": "*"}}),
            json!({"id": 2, "result": {"tools": "*"}}),
            error(3, -32602),
        ],
    );
}

#[test]
fn case_78_bad_lines_cost_one_error_each_at_most() {
    let spaces = " ".repeat(10 << 20);
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":9,"method":"ping","params":{}{}}}"#,
        r#"{"a":"#.repeat(50_000),
        "}".repeat(50_000)
    );
    check_bytes(
        &[
            b"not json",
            b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":\"bom\",\"method\":\"ping\"}",
            b"\xff",
            b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}",
            b"{}",
            b"",
            b"   \t \r",
            br#"{"jsonrpc":"2.0","id":4,"result":{}}"#,
            br#"{"jsonrpc":"2.0","id":4,"error":{"code":1,"message":"x"}}"#,
            spaces.as_bytes(),
            deep.as_bytes(),
            b"\0",
            PING.as_bytes(),
        ],
        &[
            error(Value::Null, -32700),
            json!({"id": "bom", "result": {}}),
            error(Value::Null, -32700),
            error(Value::Null, -32700),
            error(Value::Null, -32600),
            error(Value::Null, -32600),
            error(Value::Null, -32700),
            error(Value::Null, -32700),
            pong(),
        ],
    );
}

#[test]
fn case_79_bad_envelopes_are_refused() {
    check(
        &[
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"ping","params":"text"}"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"ping","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":6,"method":["ping"]}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/unheard_of"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":"text"}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"get_service_info"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"unheard_of"}"#,
            r#"{"jsonrpc":"2.0","id":8,"method":"resources/list"}"#,
            r#"{"jsonrpc":"2.0","id":10,"method":"resources/read","params":{"uri":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":9,"method":"prompts/list"}"#,
            PING,
        ],
        &[
            error(Value::Null, -32600),
            error(Value::Null, -32600),
            error(Value::Null, -32600),
            error(3, -32600),
            error(4, -32600),
            error(5, -32602),
            error(6, -32600),
            error(7, -32601),
            json!({"id": 8, "result": {"resources": []}}),
            error(10, -32601),
            json!({"id": 9, "result": {"prompts": []}}),
            pong(),
        ],
    );
}

#[test]
fn case_79_batches_belong_to_one_revision() {
    let batch = r#"[{"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
    let initialize = |revision: &str| {
        let params = json!({"protocolVersion": revision});
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
    };
    check(&[batch, PING], &[error(Value::Null, -32600), pong()]);
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        check(
            &[&initialize(revision), batch, PING],
            &[json!({"id": 1}), error(Value::Null, -32600), pong()],
        );
    }
}

#[test]
fn a_batch_is_answered_as_a_whole() {
    run(async {
        let mut client = Client::new();
        client.request(1, "initialize", json!({"protocolVersion": "2025-03-26"})).await;
        client.result(1).await;
        client
            .line(
                r#"[{"jsonrpc":"2.0","id":2,"method":"ping"},
                {"jsonrpc":"2.0","method":"notifications/initialized"},
                {"jsonrpc":"2.0","id":3,"method":"initialize"},
                7,
                {"jsonrpc":"2.0","id":9,"result":{}},
                {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"get_usage"}}]"#
                    .replace('\n', " "),
            )
            .await;
        let mut replies = client.next().await;
        let replies = replies.as_array_mut().expect("an array");
        // The call's reply may come first or last.
        replies.sort_by_key(|reply| reply["id"].as_i64());
        assert_matches(
            &Value::Array(replies.clone()),
            json!([
                error(Value::Null, -32600),
                {"id": 2, "result": {}},
                error(3, -32600),
                {"id": 4, "result": {"isError": false}},
            ]),
        );
        client.line("[]").await;
        assert_matches(&client.next().await, error(Value::Null, -32600));
        let many = vec![PING; 101].join(",");
        client.line(format!("[{many}]")).await;
        assert_matches(&client.next().await, error(Value::Null, -32600));
        // Nothing to answer: no reply, not even an empty array.
        client.line(r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#).await;
        client.line(PING).await;
        assert_eq!(client.next().await, pong());
    });
}

#[test]
fn case_6_a_message_may_have_8_mib_and_not_a_byte_more() {
    let line = |length: usize| {
        let head = r#"{"jsonrpc":"2.0","id":"p","method":"ping","params":{"x":""#;
        let tail = r#""}}"#;
        format!("{head}{}{tail}", "x".repeat(length - head.len() - tail.len()))
    };
    let limit = 8 << 20;
    let too_long = || json!({"id": null, "error": {"code": -32600, "message": "*size limit*"}});
    check(&[&line(limit), PING], &[pong(), pong()]);
    check(&[&format!("{}\r", line(limit)), PING], &[pong(), pong()]);
    for excess in [1, 10, 70, 1 << 20] {
        check(&[&line(limit + excess), PING], &[too_long(), pong()]);
    }
}

#[test]
fn a_last_line_without_its_end_counts() {
    run(async {
        let mut client = Client::new();
        client.raw(PING.as_bytes()).await;
        client.close_input();
        let (got, ..) = client.rest().await;
        assert_eq!(got, [pong()]);
    });
}

#[test]
fn case_80_unknown_tools_are_protocol_errors_and_bad_arguments_are_results() {
    let call = |id: i64, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    let bad = |id: i64, text: &str| {
        json!({"id": id, "result": {
            "isError": true,
            "content": [{"type": "text", "text": text}],
            "structuredContent": {"error": {"code": "invalid_argument", "message": text}},
        }})
    };
    check(
        &[
            &call(1, json!({"name": "unheard_of", "arguments": {}})),
            &call(2, json!({"arguments": {}})),
            &call(3, json!({"name": 7})),
            &call(4, json!({"name": "unheard_of", "arguments": []})),
        ],
        &[
            json!({"id": 1, "error": {"code": -32602, "message": "*Unknown tool: unheard_of*"}}),
            error(2, -32602),
            error(3, -32602),
            error(4, -32602),
        ],
    );
    for (arguments, text) in [
        (json!({}), "*`command` is required*"),
        (json!(null), "*`command` is required*"),
        (json!({"command": 7}), "*`command` must be a string; got 7*"),
        (json!({"command": ""}), "*`command` must not be blank*"),
        (json!({"command": "x", "zap": 1}), "*unknown argument `zap`; known are `command`*"),
        (
            json!({"command": "x", "timeout_ms": "5"}),
            "*`timeout_ms` must be a whole number from 1*",
        ),
        (json!({"command": "x", "timeout": 1, "timeout_ms": 2}), "*differ*"),
        (json!({"command": "x", "user": "me"}), "*`user` must be one of \"sandbox\", \"root\"*"),
        (json!([1]), "*`arguments` must be an object*"),
        (json!("x"), "*`arguments` must be an object*"),
    ] {
        check(&[&call(5, json!({"name": "run_command", "arguments": arguments}))], &[bad(5, text)]);
    }
    run(async {
        // None of it made a sandbox.
        let mut client = Client::new();
        client.tool("run_command", json!({"zap": 1})).await;
        let usage = client.tool("get_usage", json!({})).await;
        assert_eq!(usage["sandboxes_total"], 0);
    });
}

#[test]
fn requests_of_2026_07_28_stand_for_themselves() {
    let server = json!({"io.modelcontextprotocol/serverInfo": {"name": "holm", "version": "*"}});
    check(
        &[
            &modern(1, "server/discover", json!({})),
            &modern(2, "tools/list", json!({})),
            &modern(4, "ping", json!({})),
            &modern(5, "initialize", json!({})),
            &modern(6, "logging/setLevel", json!({"level": "debug"})),
            &modern(7, "resources/list", json!({})),
            r#"{"jsonrpc":"2.0","id":8,"method":"server/discover","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            r#"{"jsonrpc":"2.0","id":10,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"v999","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
            INITIALIZE,
            PING,
        ],
        &[
            json!({"id": 1, "result": {
                "resultType": "complete",
                "supportedVersions": [
                    "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05",
                ],
                "capabilities": {"tools": {"listChanged": false}},
                "ttlMs": "*", "cacheScope": "public", "_meta": server,
            }}),
            json!({"id": 2, "result": {
                "resultType": "complete", "tools": "*", "ttlMs": "*", "cacheScope": "public",
                "_meta": server,
            }}),
            error(4, -32601),
            error(5, -32601),
            error(6, -32601),
            json!({"id": 7, "result": {
                "resources": [], "resultType": "complete", "ttlMs": "*", "cacheScope": "public",
            }}),
            error(8, -32602),
            error(9, -32602),
            json!({"id": 10, "error": {"code": -32022, "data": {
                "supported": "*", "requested": "v999",
            }}}),
            json!({"id": 1, "result": {"protocolVersion": "2024-11-05"}}),
            pong(),
        ],
    );
    check(
        &[&modern(1, "tools/call", json!({"name": "get_usage"}))],
        &[json!({"id": 1, "result": {
            "resultType": "complete", "isError": false, "_meta": server,
        }})],
    );
}

#[test]
fn a_subscription_is_acknowledged_and_ended() {
    run(async {
        let mut client = Client::new();
        let filter = json!({"notifications": {"toolsListChanged": true}});
        client.line(modern(1, "subscriptions/listen", filter.clone())).await;
        client.line(modern(2, "subscriptions/listen", filter)).await;
        for id in [1, 2] {
            assert_matches(
                &client.next().await,
                json!({
                    "method": "notifications/subscriptions/acknowledged",
                    "params": {
                        "_meta": {"io.modelcontextprotocol/subscriptionId": id},
                        "notifications": {},
                    },
                }),
            );
        }
        client.line(modern(3, "subscriptions/listen", json!({}))).await;
        assert_matches(&client.next().await, error(3, -32602));
        let cancel = json!({"requestId": 1});
        client
            .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}))
            .await;
        client.line(PING).await;
        assert_eq!(client.next().await, pong());
        client.stop();
        let (rest, ..) = client.rest().await;
        assert_matches(
            &Value::Array(rest),
            json!([{"id": 2, "result": {
                "resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": 2},
            }}]),
        );
    });
}
