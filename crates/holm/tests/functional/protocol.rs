//! JSON-RPC over stdio: what is answered, how, and what a bad message may cost.

use crate::common::*;

as_root!(
    case_78_bad_lines_cost_nothing,
    case_79_bad_envelopes,
    case_81_calls_run_side_by_side,
    case_82_cancelling_stops_the_work,
    case_91_only_protocol_on_standard_output,
    printed_two_line_example,
    revisions_are_negotiated,
    stateless_revision,
);
as_rootless!(case_82_cancelling_stops_the_work, printed_two_line_example);

fn case_78_bad_lines_cost_nothing(home: &Home) {
    let mcp = home.mcp();
    let request = |id: u64| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
    let spaces = [vec![b' '; 10 << 20], b"\n".to_vec()].concat();
    // (what is sent, the codes of errors with id null that come for it)
    let table: Vec<(&str, Vec<u8>, &[i64])> = vec![
        ("no JSON", b"not json\n".to_vec(), &[-32700]),
        ("a lone byte FF", b"\xff\n".to_vec(), &[-32700]),
        (
            "bad UTF-8 in a string",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n".to_vec(),
            &[-32700],
        ),
        ("an empty object", b"{}\n".to_vec(), &[-32600]),
        ("a number", b"7\n".to_vec(), &[-32600]),
        ("an empty line", b"\n".to_vec(), &[]),
        ("a CR LF line", b"\r\n".to_vec(), &[]),
        ("a stray response", b"{\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{}}\n".to_vec(), &[]),
        (
            "a stray error",
            b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"x\"}}\n"
                .to_vec(),
            &[],
        ),
        ("ten megabytes of spaces", spaces, &[-32600]),
        ("half a document", b"{\"jsonrpc\":\"2.0\",\n".to_vec(), &[-32700]),
        (
            "a lone surrogate",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}\n".to_vec(),
            &[-32700],
        ),
    ];
    for (what, bytes, codes) in table {
        let id = mcp.fresh_id();
        mcp.raw(&[bytes, request(id).into_bytes(), b"\n".to_vec()].concat());
        assert!(mcp.reply(id).get("result").is_some(), "{what}: the request after it is answered");
        for code in codes {
            assert_eq!(mcp.null_error(), *code, "{what}");
        }
        assert_eq!(mcp.others_count(), 0, "{what}: nothing more is said");
    }
    // A byte-order mark before a request: answered, or refused once.
    let (marked, after) = (mcp.fresh_id(), mcp.fresh_id());
    mcp.raw(format!("\u{feff}{}\n{}\n", request(marked), request(after)).as_bytes());
    mcp.reply(after);
    if mcp.reply_now(marked).is_none() {
        assert_eq!(mcp.null_error(), -32700);
    }
    // CR LF ends, and a request in pieces.
    let (crlf, pieces) = (mcp.fresh_id(), mcp.fresh_id());
    mcp.raw(format!("{}\r\n", request(crlf)).as_bytes());
    mcp.reply(crlf);
    for byte in format!("{}\n", request(pieces)).bytes() {
        mcp.raw(&[byte]);
    }
    mcp.reply(pieces);
    mcp.end(home);
}

fn case_79_bad_envelopes(home: &Home) {
    let mcp = home.mcp();
    let alive = || assert!(mcp.ask("ping", json!({})).get("result").is_some());
    for message in [
        json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": true, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": [1], "method": "ping"}),
        json!([{"jsonrpc": "2.0", "id": 9001, "method": "ping"}]),
        json!([]),
        json!("text"),
    ] {
        mcp.send(&message);
        assert_eq!(mcp.null_error(), -32600, "{message}");
        alive();
    }
    // These have an id that can be given back.
    for (message, codes) in [
        (json!({"jsonrpc": "1.0", "id": "v1", "method": "ping"}), [-32600, -32600]),
        (json!({"id": "none", "method": "ping"}), [-32600, -32600]),
        (json!({"jsonrpc": "2.0", "id": "m", "method": 7}), [-32600, -32600]),
        (
            json!({"jsonrpc": "2.0", "id": "p", "method": "tools/list", "params": "text"}),
            [-32602, -32600],
        ),
        (
            json!({"jsonrpc": "2.0", "id": "q", "method": "tools/list", "params": [1]}),
            [-32602, -32600],
        ),
    ] {
        mcp.send(&message);
        alive();
        let error = mcp
            .reply_now(message["id"].clone())
            .map_or_else(|| mcp.null_error(), |reply| reply["error"]["code"].as_i64().unwrap_or(0));
        assert!(codes.contains(&error), "{message}: {error}");
    }
    // Fractions are no integers; a string is a good id.
    mcp.send(&json!({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}));
    alive();
    let fraction = mcp.reply_now(1.5);
    assert!(fraction.is_some() || mcp.null_error() == -32600);
    mcp.send(&json!({"jsonrpc": "2.0", "id": "text-é", "method": "ping"}));
    assert!(mcp.reply("text-é").get("result").is_some());
    mcp.send(&json!({"jsonrpc": "2.0", "method": "notifications/no-such-thing", "params": {}}));
    mcp.send(&json!({"jsonrpc": "2.0", "method": "no/such/method"}));
    mcp.send(&json!({"jsonrpc": "2.0", "method": "tools/list"}));
    alive();
    assert_eq!(mcp.others_count(), 0, "notifications are not answered");
    // Deep nesting must not end the process.
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":\"deep\",\"method\":\"ping\",\"params\":{}{}}}\n",
        "{\"a\":".repeat(100_000) + "1",
        "}".repeat(100_000)
    );
    mcp.raw(deep.as_bytes());
    alive();
    if mcp.reply_now("deep").is_none() {
        assert!([-32700, -32600].contains(&mcp.null_error()));
    }
    // A second request with an id in flight: no result goes to the wrong one.
    let sandbox = mcp.create();
    let call = |command: &str| {
        json!({"jsonrpc": "2.0", "id": "twice", "method": "tools/call",
        "params": {"name": "run_command", "arguments": {"sandbox_id": sandbox, "command": command}}})
    };
    mcp.send(&call("while ! [ -e go ]; do sleep 0.01; done; echo first"));
    mcp.send(&call("echo second"));
    // Under its own id the refusal would be taken for the first call's answer.
    assert_eq!(mcp.null_error(), -32600);
    mcp.sh(&sandbox, "touch go").good();
    let late = mcp.reply("twice");
    assert_eq!(late["result"]["structuredContent"]["stdout"], json!("first\n"), "{late}");
    mcp.end(home);
}

fn case_81_calls_run_side_by_side(home: &Home) {
    let mcp = home.mcp();
    let (one, two) = (mcp.create(), mcp.create());
    let wait = "touch up; while ! [ -e go ]; do sleep 0.02; done; echo done";
    let held = mcp.start_sh(&one, wait, json!({"timeout_ms": 600_000}));
    // All of these are answered while that one waits, the same sandbox included.
    assert!(mcp.ask("ping", json!({})).get("result").is_some());
    assert!(mcp.ask("tools/list", json!({}))["result"]["tools"].is_array());
    assert_eq!(mcp.sh(&two, "echo two").good(), "two");
    until("it runs", || (mcp.sh(&one, "ls up 2>/dev/null | wc -l").stdout == "1\n").then_some(()));
    let many: Vec<_> = (0..20)
        .map(|n| {
            mcp.start_sh(if n % 2 == 0 { &one } else { &two }, &format!("echo {n}"), json!({}))
        })
        .collect();
    for (n, id) in many.into_iter().enumerate() {
        assert_eq!(mcp.finish(id).run().good(), n.to_string());
    }
    let held_all: Vec<_> =
        (0..20).map(|_| mcp.start_sh(&two, wait, json!({"timeout_ms": 600_000}))).collect();
    assert!(mcp.ask("ping", json!({})).get("result").is_some());
    assert_eq!(mcp.sh(&two, "echo more").good(), "more");
    assert!(mcp.reply_now(held).is_none(), "the first is still running");
    mcp.sh(&one, "touch go").good();
    mcp.sh(&two, "touch go").good();
    for id in held_all.into_iter().chain([held]) {
        assert_eq!(mcp.finish(id).run().good(), "done");
    }
    mcp.end(home);
}

fn case_82_cancelling_stops_the_work(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let before = mcp.processes(&sandbox);
    for command in [
        "touch up; sleep 3000",
        "touch up; setsid sleep 3000 & sleep 3000",
        "trap '' TERM INT; touch up; while :; do sleep 1; done",
    ] {
        let id = mcp.start_sh(&sandbox, command, json!({"timeout_ms": 600_000}));
        until("it runs", || {
            (mcp.sh(&sandbox, "rm up 2>/dev/null && echo y").stdout == "y\n").then_some(())
        });
        mcp.cancel(id);
        mcp.cancel(id);
        until("all of it is gone", || (mcp.processes(&sandbox) == before).then_some(()));
        assert!(mcp.reply_now(id).is_none(), "no answer to what was cancelled");
    }
    mcp.cancel(4_000_000);
    mcp.cancel("never");
    let done = mcp.start_sh(&sandbox, "echo done", json!({}));
    assert_eq!(mcp.finish(done).run().good(), "done");
    mcp.cancel(done);
    mcp.notify("notifications/cancelled", json!({}));
    mcp.notify("notifications/cancelled", json!({"requestId": null}));
    let create = mcp.start("create_sandbox", json!({}));
    mcp.cancel(create);
    until("no other sandbox is listed, or it was answered", || {
        let listed = mcp.list();
        (listed.len() == 1 || mcp.reply_now(create).is_some()).then_some(())
    });
    assert_eq!(mcp.sh(&sandbox, "echo next").good(), "next");
    mcp.end(home);
}

fn case_91_only_protocol_on_standard_output(home: &Home) {
    let mcp = home.mcp_with(&[("RUST_LOG", "trace"), ("HOLM_LOG", "trace")]);
    let sandbox = mcp.create();
    mcp.sh(&sandbox, "echo text > /dev/tty; echo more > /dev/console; echo x >/proc/1/fd/1; echo y >/proc/1/fd/2; true");
    mcp.sh_root(&sandbox, "echo text > /dev/tty; echo x >/proc/1/fd/1; echo y > /dev/kmsg; true");
    mcp.raw(b"not json\n");
    mcp.null_error();
    mcp.call("run_command", json!({"sandbox_id": sandbox, "command": "exit 3"})).run();
    mcp.call("read_file", json!({"sandbox_id": sandbox, "path": "/nothing"})).code();
    mcp.end(home);
}

fn printed_two_line_example(home: &Home) {
    let lines = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{}}\n";
    for input in [lines, lines.trim_end()] {
        let exit = home.holm_with(&["mcp"], input.as_bytes());
        assert_eq!(exit.code(), Some(0), "{}", exit.err());
        let out = exit.out();
        let replies: Vec<Value> =
            out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(replies.len(), 2, "exactly two replies: {out}");
        let by = |id: u64| {
            replies.iter().find(|reply| reply["id"] == json!(id)).expect("a reply")["result"]
                .clone()
        };
        assert_eq!(by(1)["protocolVersion"], "2024-11-05");
        assert!(by(2)["tools"].as_array().expect("tools").len() >= 11);
    }
}

fn revisions_are_negotiated(home: &Home) {
    for (asked, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2024-11-05"),
        ("", "2024-11-05"),
    ] {
        let mcp = home.mcp_raw(&[]);
        let reply = mcp.initialize(asked);
        let result = &reply["result"];
        assert_eq!(result["protocolVersion"], given, "{asked}");
        assert!(
            result["capabilities"]["tools"].is_object() && result["serverInfo"]["name"].is_string(),
            "{reply}"
        );
        // Arrays are accepted under one revision only.
        mcp.send(&json!([{"jsonrpc": "2.0", "id": "b1", "method": "ping"}, {"jsonrpc": "2.0", "id": "b2", "method": "ping"}]));
        if given == "2025-03-26" {
            let batch = mcp.other("an array", Value::is_array);
            assert_eq!(batch.as_array().map(Vec::len), Some(2));
        } else {
            assert_eq!(mcp.null_error(), -32600, "{asked}");
        }
        mcp.end(home);
    }
}

fn stateless_revision(home: &Home) {
    let mcp = home.mcp_raw(&[]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "suite", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": {}});
    let discover = mcp.ask("server/discover", json!({"_meta": meta}));
    let result = &discover["result"];
    let versions = result["supportedVersions"].to_string();
    assert!(versions.contains("2026-07-28"), "{discover}");
    assert_eq!(result["resultType"], "complete", "{discover}");
    let list = mcp.ask("tools/list", json!({"_meta": meta}));
    assert!(
        list["result"]["ttlMs"].as_i64().is_some_and(|ttl| ttl >= 0)
            && list["result"]["cacheScope"].is_string(),
        "{}",
        list["result"]["ttlMs"]
    );
    let call = mcp.ask(
        "tools/call",
        json!({"_meta": meta, "name": "run_command", "arguments": {"command": "echo $((6*7))"}}),
    );
    assert_eq!(call["result"]["structuredContent"]["stdout"], "42\n", "{call}");
    assert_eq!(call["result"]["resultType"], "complete");
    let mut other = meta.clone();
    other["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    let refused = mcp.ask("tools/list", json!({"_meta": other}));
    assert_eq!(refused["error"]["code"], json!(-32022), "{refused}");
    assert!(refused["error"]["data"]["supported"].to_string().contains("2026-07-28"), "{refused}");
    mcp.end(home);
}
