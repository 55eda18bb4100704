//! The ordinary way: the same as with an embedded engine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use rustix::process::Signal;

use crate::common::{Home, Mcp, Tool, Value, as_root, as_rootless, json, until};
use crate::{TOKEN, client, end, raw, service};

as_root!(
    printed_two_line_example,
    an_agents_way_in_both_eras,
    the_session_ends_with_the_input,
    the_session_ends_with_a_signal,
    the_session_ends_with_the_reader,
    case_82_cancelling_stops_the_work_at_the_service,
    case_78_broken_lines_cost_themselves_only,
    ping_is_answered_while_calls_run,
    calls_sent_together_keep_their_order,
    the_key_stays_out_of_sandboxes,
    many_calls_share_few_connections,
);
as_rootless!(printed_two_line_example, the_session_ends_with_the_input);

fn url(service: &crate::common::Serve) -> String {
    format!("http://{}/mcp", service.address)
}

fn printed_two_line_example(home: &Home) {
    let service = service(home);
    let mut command = home.command();
    command.arg("mcp").env("ABX_SANDBOX_BASE_URL", url(&service)).env("AAS_API_KEY", TOKEN);
    let lines = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}"#,
        "\n"
    );
    let done = crate::common::finish(command, lines.as_bytes());
    assert_eq!((done.code(), &*done.err()), (Some(0), ""), "{}", done.out());
    let mut replies: Vec<Value> =
        done.out().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    replies.sort_by_key(|reply| reply["id"].as_i64());
    assert_eq!(replies.len(), 2, "{replies:?}");
    assert_eq!(replies[0]["result"]["protocolVersion"], "2024-11-05");
    let tools = replies[1]["result"]["tools"].as_array().expect("a list").clone();
    assert!(tools.iter().any(|tool| tool["name"] == "run_code"), "{tools:?}");
    // The list takes no session: none is left that would have to end.
    let local = home.mcp();
    assert_eq!(Value::from(tools), local.ask("tools/list", json!({}))["result"]["tools"]);
    local.end(home);
    service.end();
}

fn an_agents_way_in_both_eras(home: &Home) {
    let service = service(home);
    let legacy = client(home, &url(&service));
    way(home, |tool, arguments| legacy.call(tool, arguments));
    end(legacy);
    let modern = raw(home, &url(&service), &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = modern.ask("server/discover", json!({"_meta": meta}));
    assert_eq!(found["result"]["resultType"], "complete", "{found}");
    let listed = modern.ask("tools/list", json!({"_meta": meta}));
    assert!(listed["result"]["ttlMs"].is_number(), "{listed}");
    way(home, |tool, arguments| {
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let reply = modern.ask("tools/call", params);
        assert_eq!(reply["result"]["resultType"], "complete", "{reply}");
        Tool { reply }
    });
    end(modern);
    service.end();
}

fn way(_: &Home, call: impl Fn(&str, Value) -> Tool) {
    let content = "print(open('/workspace/data').read() + '!')\n";
    call("write_file", json!({"path": "a.py", "content": content})).ok();
    call("write_file", json!({"path": "data", "content": "ünï `$x`"})).ok();
    let ran = call("run_command", json!({"command": "python3 a.py"}));
    assert_eq!(ran.run().good(), "ünï `$x`!");
    let failed = call("run_command", json!({"command": "echo on; exit 3"}));
    assert!(failed.is_error());
    assert_eq!(failed.data()["exit_code"], 3);
    let wrong = call("run_command", json!({"command": 7}));
    assert_eq!(wrong.code(), "invalid_argument");
    assert_eq!(call("run_code", json!({"code": "print(6*7)"})).ok()["stdout"], "42\n");
    let listed = call("list_sandboxes", json!({}));
    assert_eq!(listed.ok()["sandboxes"].as_array().map(Vec::len), Some(1));
    call("destroy_sandbox", json!({})).ok();
}

/// Sandboxes that the service has.
fn sandboxes(observer: &Mcp) -> usize {
    observer.list().len()
}

fn gone(observer: &Mcp) {
    until("the session's sandboxes to be gone", || (sandboxes(observer) == 0).then_some(()));
}

fn the_session_ends_with_the_input(home: &Home) {
    let service = service(home);
    let observer = client(home, &url(&service));
    let mcp = client(home, &url(&service));
    mcp.create();
    mcp.create();
    assert_eq!(sandboxes(&observer), 2);
    end(mcp);
    // The end was waited for: nothing has to be awaited.
    assert_eq!(sandboxes(&observer), 0);
    end(observer);
    service.end();
}

fn the_session_ends_with_a_signal(home: &Home) {
    let service = service(home);
    let observer = client(home, &url(&service));
    let mut mcp = client(home, &url(&service));
    let id = mcp.create();
    let call = mcp.start_sh(&id, "touch on; sleep 300", json!({}));
    until("the command to run", || {
        let read = observer.call("read_file", json!({"path": "on", "sandbox_id": id}));
        (!read.is_error()).then_some(())
    });
    mcp.signal(Signal::TERM);
    assert_eq!(mcp.wait().code(), Some(0), "{}", mcp.stderr());
    assert!(mcp.reply_now(call).is_none());
    gone(&observer);
    end(observer);
    service.end();
}

fn the_session_ends_with_the_reader(home: &Home) {
    let service = service(home);
    let observer = client(home, &url(&service));
    let mut command = home.command();
    command.arg("mcp").env("HOLM_URL", url(&service)).env("HOLM_API_KEY", TOKEN);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("holm mcp starts");
    let mut input = child.stdin.take().expect("piped");
    let create = json!({"name": "create_sandbox"});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": create});
    writeln!(input, "{call}").expect("it reads");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("an answer");
    assert!(line.contains("sandbox_id"), "{line}");
    assert_eq!(sandboxes(&observer), 1);
    // Only a write shows that nobody reads.
    drop(output);
    writeln!(input, r#"{{"jsonrpc":"2.0","id":2,"method":"ping"}}"#).expect("it reads");
    assert_eq!(crate::common::wait(&mut child).code(), Some(0));
    assert_eq!(sandboxes(&observer), 0);
    end(observer);
    service.end();
}

fn case_82_cancelling_stops_the_work_at_the_service(home: &Home) {
    let service = service(home);
    let mcp = client(home, &url(&service));
    let id = mcp.create();
    let before = mcp.processes(&id);
    let call = mcp.start_sh(&id, "setsid sleep 300 & touch on; sleep 300", json!({}));
    until("the command to run", || {
        let read = mcp.call("read_file", json!({"path": "on", "sandbox_id": id}));
        (!read.is_error()).then_some(())
    });
    assert_ne!(mcp.processes(&id), before);
    mcp.cancel(call);
    until("its processes to be gone", || (mcp.processes(&id) == before).then_some(()));
    assert!(mcp.reply_now(call).is_none());
    end(mcp);
    service.end();
}

fn case_78_broken_lines_cost_themselves_only(home: &Home) {
    let service = service(home);
    let mcp = client(home, &url(&service));
    mcp.raw(b"not json\n\n[1]\n\xff\n");
    assert_eq!(mcp.null_error(), -32700);
    assert_eq!(mcp.null_error(), -32600);
    assert_eq!(mcp.null_error(), -32700);
    let mut long = vec![b' '; (8 << 20) + 1];
    long.push(b'\n');
    mcp.raw(&long);
    assert_eq!(mcp.null_error(), -32600);
    let unknown = mcp.call("no_such_tool", json!({}));
    assert_eq!(unknown.reply["error"]["code"], -32602, "{}", unknown.reply);
    assert_eq!(mcp.ask("no/such", json!({}))["error"]["code"], -32601);
    let params = json!({"name": "list_sandboxes", "_meta": {"progressToken": {}}});
    assert_eq!(mcp.ask("tools/call", params)["error"]["code"], -32602);
    // The longest line that is allowed goes through, with little around it.
    let content = "x".repeat((8 << 20) - 1000);
    let wrote = mcp.call("write_file", json!({"path": "long", "content": content}));
    assert_eq!(wrote.ok()["bytes_written"], content.len());
    let read = mcp.call("read_file", json!({"path": "long"}));
    assert_eq!(read.ok()["content"], content);
    end(mcp);
    service.end();
}

fn ping_is_answered_while_calls_run(home: &Home) {
    let service = service(home);
    let mcp = client(home, &url(&service));
    let id = mcp.create();
    let call = mcp.start_sh(&id, "until test -e go; do sleep 0.05; done", json!({}));
    assert!(mcp.ask("ping", json!({})).get("result").is_some());
    assert!(mcp.reply_now(call).is_none());
    mcp.write(&id, "go", "");
    mcp.finish(call).run().good();
    end(mcp);
    service.end();
}

fn calls_sent_together_keep_their_order(home: &Home) {
    let service = service(home);
    let mcp = client(home, &url(&service));
    for round in 0..10 {
        let name = format!("round-{round}");
        let create = mcp.start("create_sandbox", json!({"name": name}));
        let run = mcp.start("run_command", json!({"command": "echo here"}));
        let code = mcp.start("run_code", json!({"code": "print('here')"}));
        let id = mcp.finish(create).ok()["sandbox_id"].clone();
        for call in [run, code] {
            let done = mcp.finish(call);
            assert_eq!(done.ok()["sandbox_id"], id, "{}", done.reply);
            assert_eq!(done.ok()["stdout"], "here\n");
        }
        mcp.call("destroy_sandbox", json!({"sandbox_id": id})).ok();
    }
    end(mcp);
    service.end();
}

fn the_key_stays_out_of_sandboxes(home: &Home) {
    let service = service(home);
    let mcp = client(home, &url(&service));
    let seen = mcp.call("run_command", json!({"command": "env; cat /proc/*/environ"}));
    assert!(!seen.reply.to_string().contains(TOKEN), "{}", seen.reply);
    end(mcp);
    assert!(!service.stderr().contains(TOKEN), "{}", service.stderr());
    service.end();
}

fn many_calls_share_few_connections(home: &Home) {
    let service = service(home);
    let pipe = crate::peer::Pipe::new(Some(service.address));
    let mcp = client(home, &pipe.url());
    for _ in 0..50 {
        mcp.call("list_sandboxes", json!({})).ok();
    }
    assert!(pipe.connections() <= 3, "{} connections for 50 calls", pipe.connections());
    end(mcp);
    service.end();
}
