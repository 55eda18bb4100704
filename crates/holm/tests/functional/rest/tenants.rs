//! Two tenants of one service, and keys that stop working, on every path.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use super::{Rest, error_is, events, unchunked};
use crate::common::{
    Answer, Client, Home, Value, as_root, as_rootless, fresh_id, json, receive, until,
};

as_root!(
    case_69_what_is_somebody_elses_is_nowhere,
    case_73_what_runs_with_a_revoked_key_ends_and_it_opens_nothing_more,
);
as_rootless!(case_69_what_is_somebody_elses_is_nowhere);

const NEVER: &str = "sbx_0123456789abcdef01";

/// All that a client can see of an answer, without what names this request alone.
fn visible(answer: &Answer, id: &str) -> (u16, BTreeMap<String, String>, String) {
    let named = |name: &str| matches!(name, "x-request-id" | "date" | "content-length");
    let headers = answer.headers.iter().filter(|(name, _)| !named(name));
    let headers = headers.map(|(name, value)| (name.clone(), value.clone())).collect();
    let request = answer.headers.get("x-request-id").cloned().unwrap_or_default();
    let body = answer.body.replace(id, "ID");
    let body = if request.is_empty() { body } else { body.replace(&request, "REQUEST") };
    (answer.status, headers, body)
}

/// Every route of REST that names a sandbox, asked by `client`.
fn routes(client: &Client, id: &str) -> Vec<(String, Answer)> {
    let sandbox = Rest::of(client, id);
    let mut answers = Vec::new();
    for (method, below, body) in [
        ("GET", "", Value::Null),
        ("POST", "/extend", json!({"additional_minutes": 1})),
        ("POST", "/exec", json!({"command": "echo hi > touched"})),
        ("POST", "/exec", json!({"command": "echo hi > touched", "stream": true})),
        ("POST", "/exec", json!({"command": "echo hi > touched", "background": true})),
        ("GET", "/commands", Value::Null),
        ("GET", "/commands/output?command_id=cmd_1", Value::Null),
        ("POST", "/commands/input", json!({"command_id": "cmd_1", "text": "x"})),
        ("POST", "/commands/kill", json!({"command_id": "cmd_1"})),
        ("POST", "/run-code", json!({"code": "open('touched', 'w')"})),
        ("GET", "/files?path=note", Value::Null),
        ("PUT", "/files", json!({"path": "touched", "content": "x"})),
        ("DELETE", "/files?path=note", Value::Null),
        ("GET", "/files/list", Value::Null),
        ("GET", "/files/list?path=.", Value::Null),
        ("GET", "/files/raw?path=note", Value::Null),
        ("POST", "/snapshots", json!({"name": "theirs"})),
        ("POST", "/fork", json!({})),
        ("POST", "/pause", Value::Null),
        ("POST", "/resume", Value::Null),
        ("DELETE", "", Value::Null),
    ] {
        answers.push((format!("{method} {below}"), sandbox.ask(method, below, &body)));
    }
    let mut upload = sandbox.upload("path=touched", 4);
    upload.write_all(b"text").expect("it reads");
    answers.push(("PUT /files/raw".to_owned(), receive(upload)));
    answers
}

/// Every tool that names a sandbox, in a session and for itself.
fn tools(client: &Client, session: &str, id: &str) -> Vec<(String, Answer)> {
    let mut answers = Vec::new();
    for (tool, mut arguments) in [
        ("run_command", json!({"command": "touch touched"})),
        ("get_command", json!({"command_id": "cmd_1"})),
        ("send_input", json!({"command_id": "cmd_1", "text": "x"})),
        ("kill_command", json!({"command_id": "cmd_1"})),
        ("list_commands", json!({})),
        ("run_code", json!({"code": "open('touched', 'w')"})),
        ("code_contexts", json!({"action": "restart", "context": "python"})),
        ("write_file", json!({"path": "touched", "content": "x"})),
        ("read_file", json!({"path": "note"})),
        ("list_files", json!({})),
        ("get_sandbox", json!({})),
        ("extend_sandbox", json!({})),
        ("snapshot_sandbox", json!({"name": "theirs"})),
        ("fork_sandbox", json!({})),
        ("pause_sandbox", json!({})),
        ("resume_sandbox", json!({})),
        ("set_network", json!({"network": "none"})),
        ("destroy_sandbox", json!({})),
        ("kill_sandbox", json!({})),
    ] {
        arguments["sandbox_id"] = json!(id);
        let params = json!({"name": tool, "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
        let answer = client.post(&[("mcp-session-id", session)], &call);
        answers.push((format!("{tool} in a session"), answer));
        answers.push((format!("{tool} for itself"), client.stateless(tool, &arguments)));
    }
    answers
}

/// What the engine does for both is the same: it looks for a sandbox of this account under this id
/// and finds none. So nothing that a client can see differs, time included.
fn case_69_what_is_somebody_elses_is_nowhere(home: &Home) {
    let serve = home.serve(&[], &[]);
    let (a, b) = (serve.with_key(home.tenant("a")), serve.with_key(home.tenant("b")));
    let running = Rest::new(&a, &json!({"name": "theirs"}));
    running.good("echo secret > note");
    let ended = Rest::new(&a, &json!({}));
    assert_eq!(ended.ask("DELETE", "", &Value::Null).status, 200);
    let a_session = a.session();
    let default = a.call(&a_session, "run_command", json!({"command": "echo secret > note"}));
    let default = default.ok()["sandbox_id"].as_str().expect("an id").to_owned();
    let b_session = b.session();
    let unknown = (routes(&b, NEVER), tools(&b, &b_session, NEVER));
    for (what, answer) in &unknown.0 {
        error_is(answer, 404, "not_found");
        assert!(!answer.body.contains("secret"), "{what}: {answer:?}");
    }
    for (what, answer) in &unknown.1 {
        assert_eq!(answer.tool().code(), "not_found", "{what}");
    }
    for id in [&running.id, &ended.id, &default] {
        let foreign = (routes(&b, id), tools(&b, &b_session, id));
        let all = foreign.0.iter().chain(&foreign.1).zip(unknown.0.iter().chain(&unknown.1));
        for ((what, foreign), (_, unknown)) in all {
            assert_eq!(visible(foreign, id), visible(unknown, NEVER), "{what} of {id}");
        }
    }
    // The session that A opened, with B's key: whatever is sent, it is none.
    let messages = [
        ("ping", json!({})),
        ("tools/list", json!({})),
        ("initialize", json!({"protocolVersion": "2025-11-25"})),
        ("tools/call", json!({"name": "run_command", "arguments": {"command": "cat note"}})),
        ("tools/call", json!({"name": "get_usage", "arguments": {}})),
        ("tools/call", json!({"name": "list_sandboxes", "arguments": {}})),
    ];
    let never = "00000000-0000-4000-8000-000000000000";
    for (method, params) in messages {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let with = |session: &str| b.post(&[("mcp-session-id", session)], &body);
        let (foreign, unknown) = (with(&a_session), with(never));
        assert_eq!(foreign.status, 404, "{method}");
        assert_eq!(visible(&foreign, &a_session), visible(&unknown, never), "{method}");
    }
    let end = |session: &str| b.ask("DELETE", "/mcp", &[("mcp-session-id", session)], "");
    assert_eq!(visible(&end(&a_session), &a_session), visible(&end(never), never));
    // Lists and usage, on both faces.
    for answer in [
        b.rest("GET", "/v1/sandboxes?include_deleted=true", &Value::Null),
        b.rest("GET", "/v1/usage", &Value::Null),
        b.stateless("list_sandboxes", &json!({"include_deleted": true})),
        b.stateless("get_usage", &json!({})),
    ] {
        assert_eq!(answer.status, 200, "{answer:?}");
        for id in [&running.id, &ended.id, &default] {
            assert!(!answer.body.contains(id.as_str()), "{answer:?}");
        }
        assert!(!answer.body.contains("theirs"), "{answer:?}");
    }
    let usage = b.rest("GET", "/v1/usage", &Value::Null).json();
    assert_eq!((&usage["sandboxes_running"], &usage["sandboxes_total"]), (&json!(0), &json!(0)));
    // The same idempotency key of two tenants is two keys.
    let create = |client: &Client| {
        let headers = [("idempotency-key", "one"), ("content-type", "application/json")];
        let made = client.ask("POST", "/v1/sandboxes", &headers, "{}");
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["id"].clone()
    };
    assert_ne!(create(&a), create(&b));
    // And A has all of it as it was.
    assert_eq!(running.good("ls; cat note"), "note\nsecret\n");
    let kept = a.call(&a_session, "run_command", json!({"command": "ls; cat note"}));
    assert_eq!(kept.run().good(), "note\nsecret");
    serve.end();
}

/// Processes in a sandbox, the one that counts left out.
fn processes(sandbox: &Rest<'_>) -> String {
    sandbox.good("set -- /proc/[0-9]*; echo $#")
}

/// What `key list` shows of the key that begins so.
fn id_of(home: &Home, key: &str) -> String {
    let listed = home.holm(&["key", "list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let rows = listed.as_array().expect("a list");
    let row = rows.iter().find(|row| row["prefix"].as_str() == key.get(..14)).expect("the key");
    row["id"].as_str().expect("an id").to_owned()
}

fn case_73_what_runs_with_a_revoked_key_ends_and_it_opens_nothing_more(home: &Home) {
    let serve = home.serve(&[], &[]);
    let (doomed, kept) = (home.tenant("team"), home.holm(&["key", "create", "team"]));
    let kept = serve.with_key(kept.out().trim_end());
    let client = serve.with_key(&doomed);
    let sandbox = Rest::new(&client, &json!({}));
    let same = Rest::of(&kept, &sandbox.id);
    sandbox.good("head -c 200M /dev/zero > large");
    let before = processes(&same);
    let session = client.session();
    let command = |name: &str| format!("touch {name}; setsid sleep 300 & sleep 300");
    let body = |name: &str| json!({"command": command(name), "timeout_ms": 600_000});
    let with_id = |name: &str| {
        let mut arguments = body(name);
        arguments["sandbox_id"] = json!(sandbox.id);
        arguments
    };
    // One of everything that lasts.
    let plain = sandbox.start(&body("1"));
    let mut streamed = body("2");
    streamed["stream"] = true.into();
    let streamed = sandbox.start(&streamed);
    let called = client.start(&session, "run_command", with_id("3"));
    let params = json!({"name": "run_command", "arguments": with_id("4"),
        "_meta": {"progressToken": "t"}});
    let call =
        json!({"jsonrpc": "2.0", "id": fresh_id(), "method": "tools/call", "params": params});
    let headers =
        [("mcp-session-id", &*session), ("accept", "application/json, text/event-stream")];
    let progress = client.send("POST", "/mcp", &headers, &call.to_string());
    let mut down = sandbox.download("path=large");
    let mut first = vec![0; 1 << 16];
    down.read_exact(&mut first).expect("its beginning");
    let mut up = sandbox.upload("path=up", 200 << 20);
    up.write_all(&vec![1; 1 << 20]).expect("it reads");
    // Of another key of the same account, which goes on.
    let going_on =
        same.start(&json!({"command": "touch 5; until test -e go; do sleep 0.02; done"}));
    until("all of them to run", || {
        same.exec("ls 1 2 3 4 5 && test $(ls -A | wc -l) -gt 6")["exit_code"]
            .eq(&json!(0))
            .then_some(())
    });

    let revoked = home.holm(&["key", "revoke", &id_of(home, &doomed)]);
    assert_eq!(revoked.code(), Some(0), "{}", revoked.err());
    // The next request, on every path.
    for (method, path) in [
        ("GET", "/v1/usage"),
        ("GET", "/v1/sandboxes"),
        ("POST", "/v1/sandboxes"),
        ("GET", sandbox.path.as_str()),
        ("DELETE", sandbox.path.as_str()),
        ("GET", "/v1/service-info"),
        ("DELETE", "/mcp"),
    ] {
        let refused = client.ask(method, path, &[("mcp-session-id", &session)], "");
        assert_eq!(refused.status, 401, "{method} {path}: {refused:?}");
        assert!(refused.body.contains("revoked") && !refused.body.contains(&doomed), "{refused:?}");
    }
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(client.post(&[("mcp-session-id", &session)], &ping).status, 401);
    assert_eq!(client.stateless("list_sandboxes", &json!({})).status, 401);
    // And what was open ends by itself.
    error_is(&receive(plain), 401, "unauthorized");
    let told = events(&unchunked(&receive(streamed).body));
    let (name, data) = told.last().expect("an end");
    assert_eq!((name.as_str(), &data["error"]["type"]), ("error", &json!("unauthorized")));
    let called = receive(called).tool();
    assert_eq!(called.code(), "unauthorized", "{}", called.text());
    let progress = unchunked(&receive(progress).body);
    let last = progress.lines().rev().find_map(|line| line.strip_prefix("data: "));
    assert!(last.is_some_and(|last| last.contains("\"unauthorized\"")), "{progress}");
    let mut rest = Vec::new();
    // A reset is an end too.
    let ended = down.read_to_end(&mut rest);
    assert!(first.len() + rest.len() < 200 << 20, "{ended:?}: all of it came");
    error_is(&receive(up), 401, "unauthorized");
    same.good("touch go");
    assert_eq!(receive(going_on).json()["exit_code"], 0);
    until("their processes to be gone", || (processes(&same) == before).then_some(()));
    // Nothing of the file that did not come whole.
    assert_eq!(same.good("ls -A"), "1\n2\n3\n4\n5\ngo\nlarge\n");
    serve.end();
}
