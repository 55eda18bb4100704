//! The tools as documented: all there, with the right forms of errors.

use crate::common::*;

as_root!(case_80_two_forms_of_errors, case_92_every_tool_as_documented, spellings_of_both_seeds);
as_rootless!(case_92_every_tool_as_documented);

fn case_80_two_forms_of_errors(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    for params in [
        json!({"name": "no_such_tool", "arguments": {}}),
        json!({"arguments": {}}),
        json!({"name": 7, "arguments": {}}),
        json!({"name": "", "arguments": {}}),
    ] {
        let reply = mcp.ask("tools/call", params.clone());
        assert_eq!(reply["error"]["code"], json!(-32602), "{params}: {reply}");
    }
    for method in ["no/such", "resources/read", "rpc.discover", "Ping"] {
        let reply = mcp.ask(method, json!({}));
        assert_eq!(reply["error"]["code"], json!(-32601), "{method}: {reply}");
    }
    // (tool, arguments, what the text must name)
    for (tool, arguments, named) in [
        ("run_command", json!({}), "command"),
        ("run_command", json!({"command": 7}), "command"),
        ("run_command", json!({"command": "true", "timeout_ms": "soon"}), "timeout"),
        ("run_command", json!({"command": "true", "timeout_ms": -5}), "timeout"),
        ("run_command", json!({"command": "true", "timeout_ms": 1000, "timeout": 7}), "timeout"),
        ("run_command", json!({"command": "true", "env": ["A"]}), "env"),
        ("run_command", json!({"command": "true", "env": {"A": 1}}), "env"),
        ("run_command", json!({"command": "true", "user": "nobody-here"}), "user"),
        ("run_command", json!({"command": "true", "cwd": 3}), "cwd"),
        ("run_command", json!({"command": "a\0b"}), "command"),
        ("run_code", json!({"code": ["x"]}), "code"),
        ("run_code", json!({"code": "x", "language": "cobol"}), "language"),
        ("write_file", json!({"path": "x"}), "content"),
        ("write_file", json!({"content": "x"}), "path"),
        ("read_file", json!({"path": "x", "offset": -1}), "offset"),
        ("list_files", json!({"limit": 0}), "limit"),
        ("list_files", json!({"recursive": "yes please"}), "recursive"),
        ("create_sandbox", json!({"size": "huge"}), "size"),
        ("create_sandbox", json!({"metadata": "x"}), "metadata"),
        ("extend_sandbox", json!({"additional_minutes": "many"}), "additional_minutes"),
        ("set_network", json!({}), "network"),
        ("get_sandbox", json!({"sandbox_id": 77}), "sandbox_id"),
        ("destroy_sandbox", json!({"sandbox_id": ""}), "sandbox_id"),
    ] {
        let mut full = arguments.clone();
        if tool != "create_sandbox" && full.get("sandbox_id").is_none() {
            full["sandbox_id"] = json!(sandbox);
        }
        let reply = mcp.call(tool, full);
        assert_eq!(reply.code(), "invalid_argument", "{tool} {arguments}: {}", reply.text());
        assert!(reply.text().contains(named), "{tool} {arguments} names {named}: {}", reply.text());
        assert!(
            !reply.text().contains("panicked") && !reply.text().contains(".rs:"),
            "{}",
            reply.text()
        );
    }
    for arguments in [json!("text"), json!([1]), json!(7)] {
        let reply = mcp.ask("tools/call", json!({"name": "run_command", "arguments": arguments}));
        let bad =
            reply["error"]["code"] == json!(-32602) || reply["result"]["isError"] == json!(true);
        assert!(bad, "{reply}");
    }
    for params in [
        json!({"name": "get_service_info"}),
        json!({"name": "get_service_info", "arguments": null}),
    ] {
        assert_ne!(mcp.ask("tools/call", params)["result"]["isError"], json!(true));
    }
    assert_eq!(mcp.list(), vec![sandbox]);
    mcp.end(home);
}

/// A value has the shape that a schema of a tool describes (the keywords that schemas here use).
fn assert_shape(schema: &Value, value: &Value, at: &str) {
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let fits = |kind: &&str| match *kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{at}: the type {other}"),
    };
    assert!(kinds.is_empty() || kinds.iter().any(fits), "{at}: {value} is no {kinds:?}");
    if let Some(allowed) = schema["enum"].as_array() {
        assert!(allowed.contains(value), "{at}: {value} is none of {allowed:?}");
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(value.get(name).is_some(), "{at}: {name} is missing in {value}");
    }
    if let (Some(properties), Some(fields)) = (schema["properties"].as_object(), value.as_object())
    {
        for (name, field) in fields {
            match properties.get(name) {
                Some(inner) => assert_shape(inner, field, &format!("{at}.{name}")),
                None => assert_ne!(
                    schema["additionalProperties"],
                    json!(false),
                    "{at}: {name} is not documented"
                ),
            }
        }
    }
    if let (Some(inner), Some(rows)) = (schema.get("items"), value.as_array()) {
        for row in rows {
            assert_shape(inner, row, &format!("{at}[]"));
        }
    }
}

fn case_92_every_tool_as_documented(home: &Home) {
    let mcp = home.mcp();
    let list = mcp.ask("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().expect("tools").clone();
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    let flow = [
        (
            "create_sandbox",
            json!({"name": "first", "metadata": {"a": "b"}, "timeout_minutes": 5, "size": "small"}),
        ),
        ("run_command", json!({"command": "echo $((6*7))"})),
        (
            "run_command",
            json!({"command": "read -r x; exec sleep 1000", "background": true, "keep_stdin": true}),
        ),
        ("send_input", json!({"command_id": "cmd_1", "text": "go on\n", "close": true})),
        ("get_command", json!({"command_id": "cmd_1", "max_bytes": 1000, "wait_ms": 1})),
        ("list_commands", json!({})),
        ("kill_command", json!({"command_id": "cmd_1", "signal": "SIGKILL"})),
        ("run_code", json!({"code": "print(6*7)"})),
        ("code_contexts", json!({"action": "list"})),
        ("write_file", json!({"path": "dir/f", "content": "text"})),
        ("read_file", json!({"path": "dir/f"})),
        ("list_files", json!({})),
        ("expose_port", json!({"port": 8080, "public": true})),
        ("unexpose_port", json!({"port": 8080})),
        ("get_sandbox", json!({})),
        ("list_sandboxes", json!({"include_deleted": true, "limit": 10})),
        ("extend_sandbox", json!({"additional_minutes": 5})),
        ("snapshot_sandbox", json!({"name": "kept"})),
        ("fork_sandbox", json!({"count": 1, "timeout_minutes": 5, "env": {"A": "b"}})),
        ("delete_snapshot", json!({"name": "kept"})),
        ("pause_sandbox", json!({})),
        ("resume_sandbox", json!({})),
        ("set_network", json!({"network": "none"})),
        ("get_usage", json!({})),
        ("get_service_info", json!({})),
        ("destroy_sandbox", json!({})),
    ];
    let mut first = String::new();
    for (name, arguments) in flow {
        assert!(names.contains(&name), "{name} is listed in {names:?}");
        let tool = tools.iter().find(|tool| tool["name"] == name).expect("listed");
        for key in ["title", "description"] {
            assert!(tool[key].is_string(), "{name} has a {key}");
        }
        for key in ["annotations", "inputSchema", "outputSchema"] {
            assert!(tool[key].is_object(), "{name} has {key}");
        }
        for argument in arguments.as_object().expect("an object").keys() {
            assert!(
                tool["inputSchema"]["properties"][argument].is_object(),
                "{name} documents {argument}"
            );
        }
        assert_shape(&tool["inputSchema"], &arguments, name);
        let reply = mcp.call(name, arguments);
        if name == "pause_sandbox" && reply.is_error() {
            // Not every host can do it, and one that cannot says so.
            assert_eq!(reply.code(), "unsupported");
            let info = mcp.call("get_service_info", json!({}));
            assert_eq!(info.ok()["pause"]["possible"], false);
            continue;
        }
        assert_shape(&tool["outputSchema"], reply.ok(), name);
        assert!(!reply.text().is_empty(), "{name} has a readable text");
        if let Some(id) = reply.ok()["sandbox_id"].as_str() {
            assert!(first.is_empty() || first == id, "{name} uses the session's sandbox");
            first = id.to_owned();
        }
    }
    assert_eq!(names.len(), 25, "the alias is not shown: {names:?}");
    let info = mcp.call("get_service_info", json!({}));
    assert_eq!(info.ok()["version"], json!(env!("CARGO_PKG_VERSION")));
    let missing = info.ok()["missing"].as_array().expect("layers").clone();
    let (says, default) = match missing.contains(&json!("egress_gate")) {
        true => ("loopback only", "none"),
        false => ("public addresses", "open"),
    };
    let network = info.ok()["network"].as_str().expect("a sentence");
    assert!(network.contains(says), "{network}");
    assert_eq!(info.ok()["network_default"], default);
    let templates = info.ok()["templates"].to_string();
    assert!(templates.contains("host") || templates.contains("base"), "{templates}");
    let usage = mcp.call("get_usage", json!({}));
    assert_eq!(
        (&usage.ok()["sandboxes_running"], &usage.ok()["sandboxes_total"]),
        (&json!(1), &json!(2)),
        "the fork is a sandbox of its own"
    );
    assert!(usage.ok()["balance"].is_null());
    mcp.end(home);
}

fn spellings_of_both_seeds(home: &Home) {
    let mcp = home.mcp();
    let made = mcp.call("create_sandbox", json!({"timeout": 300, "envs": {"GREETING": "hej"}, "region": "cn-hangzhou", "provider": "x", "cpu": 2, "memory": 2048}));
    let sandbox = made.ok()["sandbox_id"].as_str().expect("an id").to_owned();
    assert_eq!(made.ok()["size"], "small");
    let ignored = made.ok()["ignored"].to_string();
    assert!(ignored.contains("region") && ignored.contains("provider"), "{ignored}");
    assert_eq!(mcp.sh(&sandbox, "echo $GREETING").good(), "hej");
    let run =
        mcp.sh_with(&sandbox, "echo $A; sleep 3000", json!({"envs": {"A": "b"}, "timeout": 1}));
    assert!(run.timed_out && run.stdout == "b\n", "{run:?}");
    let code = mcp.call("run_code", json!({"code": "echo hi", "language": "shell", "timeout": 20}));
    assert_eq!(code.run().good(), "hi");
    assert_eq!(mcp.sh_with(&sandbox, "pwd", json!({"cwd": "/tmp"})).good(), "/tmp");
    mcp.call("kill_sandbox", json!({"sandbox_id": sandbox})).ok();
    assert!(mcp.list().is_empty());
    let sized = mcp.call("create_sandbox", json!({"memory": 5000}));
    if !sized.is_error() {
        assert_eq!(sized.ok()["size"], "medium");
    }
    mcp.end(home);
}
