//! `holm serve` as a whole: the documented calls, sessions with real sandboxes, every way down.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use rustix::process::Signal;

use crate::common::{Home, Value, as_root, as_rootless, descendants, json, receive, until};

as_root!(
    the_documented_curl_calls_work,
    the_documented_curl_calls_work_without_authentication,
    case_71_the_first_key_is_in_its_file_only,
    case_71_the_token_is_never_in_the_log,
    case_82_a_closed_connection_ends_the_processes,
    case_84_sessions_from_before_a_restart_are_unknown,
    case_89_the_network_needs_keys_or_a_token,
    a_data_directory_belongs_to_one_service,
    accounts_and_keys_survive_a_restart,
    a_database_without_its_secret_is_refused,
    a_session_ends_with_its_sandboxes,
    requests_without_a_session_leave_nothing_behind,
    running_calls_finish_before_the_end,
    calls_that_do_not_finish_are_told,
    a_second_signal_ends_it_at_once,
    a_killed_service_leaves_what_runs_until_it_is_drained,
    a_port_in_use_is_said,
);
as_rootless!(
    the_documented_curl_calls_work,
    a_session_ends_with_its_sandboxes,
    running_calls_finish_before_the_end,
    a_killed_service_leaves_what_runs_until_it_is_drained,
);

/// The three calls as they are printed for the server on port 9000.
const INITIALIZE: &str = r#"curl -s http://localhost:9000/mcp \
  -H "Content-Type: application/json" \
  -H "Authorization: Bearer replace_me" \
  -d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'"#;
const CALL: &str = r#"curl -s http://localhost:9000/mcp \
  -H "Content-Type: application/json" \
  -H "Authorization: Bearer replace_me" \
  -H "Mcp-Session-Id: <SESSION_ID_FROM_STEP_1>" \
  -d '{"jsonrpc":"2.0","id":2,"method":"tools/call",
       "params":{"name":"run_code","arguments":{"code":"print(1+1)"}}}'"#;
const DELETE: &str = r#"curl -s -X DELETE http://localhost:9000/mcp \
  -H "Authorization: Bearer replace_me" \
  -H "Mcp-Session-Id: <SESSION_ID_FROM_STEP_1>""#;

fn the_documented_curl_calls_work(home: &Home) {
    curl_calls(home, &[], &[("ABX_MCP_AUTH_TOKEN", "replace_me")]);
}

fn the_documented_curl_calls_work_without_authentication(home: &Home) {
    curl_calls(home, &["--auth", "none"], &[]);
}

fn curl_calls(home: &Home, arguments: &[&str], env: &[(&str, &str)]) {
    let serve = home.serve(arguments, env);
    let port = serve.address.port().to_string();
    let headers = home.dir.join("headers");
    let shell = |script: &str| {
        let output = Command::new("sh").args(["-c", script]).output().expect("sh");
        assert!(output.status.success(), "{script}: {output:?}");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let there = |script: &str| script.replace("9000", &port);
    let first = format!("{} -D {}", there(INITIALIZE), headers.display());
    let initialized = shell(&first);
    assert_eq!(initialized["result"]["protocolVersion"], "2025-06-18", "{initialized}");
    let text = std::fs::read_to_string(&headers).expect("headers");
    let session = text.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    let session = session.expect("a session").trim();
    let with_session = |script: &str| there(script).replace("<SESSION_ID_FROM_STEP_1>", session);
    let ran = shell(&with_session(CALL));
    assert_eq!(ran["result"]["structuredContent"]["stdout"], "2\n", "{ran}");
    assert_eq!(shell(&with_session(DELETE)), json!({"status": "session_terminated"}));
    serve.end();
}

fn case_71_the_token_is_never_in_the_log(home: &Home) {
    let env = [("HOLM_AUTH_TOKEN", "x-marker-x"), ("HOLM_LOG", "trace")];
    let serve = home.serve(&[], &env);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}});
    let session = serve.post(&[("authorization", "Bearer x-marker-x")], &body).session();
    let refused = serve.ask("POST", "/mcp?api_key=x-marker-x", &[], &body.to_string());
    assert_eq!(refused.status, 400);
    assert!(!refused.body.contains("x-marker-x"), "{refused:?}");
    let both = [("authorization", "Bearer x-marker-x"), ("x-api-key", "x-marker-x y")];
    assert_eq!(serve.post(&both, &body).status, 400);
    let headers = [("x-api-key", "x-marker-x"), ("mcp-session-id", session.as_str())];
    let params =
        json!({"name": "run_command", "arguments": {"command": "env; cat /proc/*/environ"}});
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
    let seen = serve.post(&headers, &body);
    assert!(!seen.body.contains("x-marker-x"), "the token is in the sandbox: {seen:?}");
    assert!(!serve.announced.contains("x-marker-x"), "{}", serve.announced);
    until("the call in the log", || serve.stderr().contains("sbx_").then_some(()));
    assert!(!serve.stderr().contains("x-marker-x"), "{}", serve.stderr());
    serve.end();
}

fn case_82_a_closed_connection_ends_the_processes(home: &Home) {
    let serve = home.serve(&[], &[]);
    let session = serve.session();
    let count = || {
        let command = json!({"command": "set -- /proc/[0-9]*; echo $#"});
        serve.call(&session, "run_command", command).run().good().to_owned()
    };
    let before = count();
    let command = "setsid sleep 300 & touch on; sleep 300";
    let call = serve.start(&session, "run_command", json!({"command": command}));
    marked(&serve, &session);
    assert_ne!(count(), before);
    drop(call);
    until("the processes of the call to be gone", || (count() == before).then_some(()));
    serve.end();
}

/// Waits until a command of the session has made the file `on`.
fn marked(serve: &crate::common::Serve, session: &str) {
    until("the command to run", || {
        let read = serve.call(session, "read_file", json!({"path": "on"}));
        (!read.is_error()).then_some(())
    });
}

fn case_84_sessions_from_before_a_restart_are_unknown(home: &Home) {
    let serve = home.serve(&[], &[]);
    let session = serve.session();
    serve.end();
    let serve = home.serve(&[], &[]);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(serve.post(&[("mcp-session-id", &session)], &ping).status, 404);
    let session = serve.session();
    assert_eq!(serve.post(&[("mcp-session-id", &session)], &ping).status, 200);
    serve.end();
}

fn case_89_the_network_needs_keys_or_a_token(home: &Home) {
    for bind in ["0.0.0.0", "::"] {
        let exit = home.holm(&["serve", "--port", "0", "--bind", bind, "--auth", "none"]);
        assert_eq!(exit.code(), Some(2), "{}", exit.err());
        assert!(exit.err().contains("HOLM_AUTH_TOKEN"), "{}", exit.err());
        assert_eq!(exit.out(), "");
    }
    let serve = home.serve(&["--auth", "none"], &[]);
    assert!(serve.address.ip().is_loopback());
    until("the warning", || serve.stderr().contains("authentication is off").then_some(()));
    serve.end();
    let serve = home.serve(&[], &[]);
    assert!(serve.address.ip().is_loopback());
    let call = |name: &str| {
        let params = json!({"name": name, "arguments": {}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        receive(serve.send_plain("POST", "/mcp", &[], &body.to_string()))
    };
    assert_eq!(call("get_service_info").status, 200);
    let refused = call("create_sandbox");
    assert_eq!(refused.status, 401);
    assert!(refused.body.contains("holm key create"), "{refused:?}");
    serve.end();
    let serve = home.serve(&[], &[("ABX_MCP_AUTH_TOKEN", "")]);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}});
    assert_eq!(serve.post(&[("authorization", "Bearer x")], &body).status, 401);
    assert_eq!(serve.ask("GET", "/health", &[], "").status, 200);
    serve.end();
}

fn a_session_ends_with_its_sandboxes(home: &Home) {
    let serve = home.serve(&[], &[]);
    let (one, two) = (serve.session(), serve.session());
    let write = json!({"path": "note", "content": "kept"});
    serve.call(&one, "write_file", write).ok();
    serve.call(&two, "run_command", json!({"command": "test ! -e note"})).run().good();
    let read = serve.call(&one, "read_file", json!({"path": "note"}));
    assert_eq!(read.ok()["content"], "kept");
    let id = read.ok()["sandbox_id"].clone();
    assert_eq!(serve.ask("DELETE", "/mcp", &[("mcp-session-id", &one)], "").status, 200);
    let gone = serve.call(&two, "read_file", json!({"path": "note", "sandbox_id": id}));
    let code = &gone.reply["result"]["structuredContent"]["error"]["code"];
    assert_eq!(code, "sandbox_gone", "{}", gone.reply);
    let listed = serve.call(&two, "list_sandboxes", json!({}));
    assert_eq!(listed.ok()["sandboxes"].as_array().map(Vec::len), Some(1));
    serve.end();
}

fn requests_without_a_session_leave_nothing_behind(home: &Home) {
    let serve = home.serve(&[], &[]);
    let call = |name: &str, arguments: Value| serve.stateless(name, &arguments).tool();
    let ran = call("run_code", json!({"code": "print(6*7)"}));
    assert_eq!(ran.ok()["stdout"], "42\n");
    until("the sandbox of the call to be gone", || {
        let listed = call("list_sandboxes", json!({}));
        listed.ok()["sandboxes"].as_array().expect("a list").is_empty().then_some(())
    });
    let made = call("create_sandbox", json!({}));
    let id = made.ok()["sandbox_id"].clone();
    let ran = call("run_command", json!({"command": "echo on", "sandbox_id": id}));
    assert_eq!(ran.ok()["stdout"], "on\n");
    call("destroy_sandbox", json!({"sandbox_id": id})).ok();
    serve.end();
}

fn running_calls_finish_before_the_end(home: &Home) {
    let mut serve = home.serve(&[], &[]);
    let session = serve.session();
    let command = json!({"command": "touch on; sleep 1; echo done"});
    let call = serve.start(&session, "run_command", command);
    marked(&serve, &session);
    serve.signal(Signal::TERM);
    assert_eq!(receive(call).tool().run().good(), "done");
    assert_eq!(serve.wait().code(), Some(0), "{}", serve.stderr());
}

fn calls_that_do_not_finish_are_told(home: &Home) {
    let mut serve = home.serve(&[], &[]);
    let session = serve.session();
    let call = serve.start(&session, "run_command", json!({"command": "touch on; sleep 300"}));
    marked(&serve, &session);
    serve.signal(Signal::INT);
    let told = receive(call);
    let code = &told.json()["result"]["structuredContent"]["error"]["code"];
    assert_eq!(code, "unavailable", "{told:?}");
    assert_eq!(serve.wait().code(), Some(0), "{}", serve.stderr());
}

fn a_second_signal_ends_it_at_once(home: &Home) {
    let mut serve = home.serve(&[], &[]);
    let session = serve.session();
    let call = serve.start(&session, "run_command", json!({"command": "touch on; sleep 300"}));
    marked(&serve, &session);
    serve.signal(Signal::TERM);
    until("the first signal to be heard", || serve.stderr().contains("stopping").then_some(()));
    serve.signal(Signal::TERM);
    assert_eq!(serve.wait().code(), Some(1), "{}", serve.stderr());
    drop(call);
    assert!(serve.stderr().contains("holm drain"), "{}", serve.stderr());
    assert_eq!(home.holm(&["drain"]).out(), "ended 1 sandbox\n");
}

fn a_killed_service_leaves_what_runs_until_it_is_drained(home: &Home) {
    let mut serve = home.serve(&[], &[]);
    let session = serve.session();
    let call = serve.start(&session, "run_command", json!({"command": "touch on; sleep 300"}));
    marked(&serve, &session);
    serve.signal(Signal::KILL);
    assert_eq!(serve.wait().code(), None);
    drop(call);
    let drained = home.holm(&["drain"]);
    assert_eq!(
        (drained.out(), drained.code()),
        ("ended 1 sandbox\n".to_owned(), Some(0)),
        "{}",
        drained.err()
    );
    home.note_instances();
    home.assert_clean();
    assert_eq!(home.holm(&["drain"]).out(), "no sandbox was running\n");
}

fn case_71_the_first_key_is_in_its_file_only(home: &Home) {
    let serve = home.serve(&[], &[("HOLM_LOG", "trace")]);
    let path = home.data().join("first-key");
    let key = serve.key.clone().expect("a key");
    assert!(key.starts_with("holm_sk_") && key.len() == 72, "not a key");
    for name in ["first-key", "secret", "holm.db", "node", "lock"] {
        let mode = std::fs::metadata(home.data().join(name)).expect(name).permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
    let session = serve.session();
    let spied = json!({"command": "env; cat /proc/*/environ /proc/*/cmdline"});
    let seen = receive(serve.start(&session, "run_command", spied));
    assert!(!seen.body.contains(&key), "the key is in the sandbox");
    let wrong = format!("{key}0");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let refused = serve.post(&[("x-api-key", &wrong)], &body);
    assert_eq!(refused.status, 401);
    assert!(!refused.body.contains(&key), "{refused:?}");
    // In an address it is refused, wherever that leads, and not repeated.
    for path in ["/mcp", "/v1/mcp", "/v1/usage", "/v1/sandboxes", "/metrics"] {
        let refused = serve.ask("GET", &format!("{path}?api_key={key}"), &[], "");
        assert_eq!(refused.status, 400, "{path}: {refused:?}");
        assert!(!refused.body.contains(&key), "{refused:?}");
    }
    // The list of processes, and what they were started with.
    let helpers = descendants(serve.pid()).into_iter().map(|(pid, _)| pid);
    for pid in helpers.chain([serve.pid()]) {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment).into_owned();
        for text in [crate::common::command_line(pid), environment] {
            assert!(!text.contains(&key), "the key is in process {pid}");
        }
    }
    // Printed to a pipe: the path, not the key.
    assert!(serve.announced.contains(&path.display().to_string()), "{}", serve.announced);
    assert!(!serve.announced.contains(&key), "the key was printed");
    until("the refusal in the log", || serve.stderr().contains("refused").then_some(()));
    assert!(!serve.stderr().contains(&key), "the key is in the log");
    let database = std::fs::read(home.data().join("holm.db")).expect("a database");
    let journal = std::fs::read(home.data().join("holm.db-wal")).unwrap_or_default();
    let digits = key.trim_start_matches("holm_sk_").as_bytes();
    for bytes in [database, journal] {
        assert!(!bytes.windows(digits.len()).any(|part| part == digits), "stored as it is");
    }
    serve.end();
}

fn a_data_directory_belongs_to_one_service(home: &Home) {
    let serve = home.serve(&[], &[]);
    let exit = home.holm(&["serve", "--port", "0"]);
    assert_eq!(exit.code(), Some(1), "{}", exit.err());
    assert!(exit.err().contains("another `holm serve` uses"), "{}", exit.err());
    assert_eq!(exit.out(), "");
    serve.end();
}

fn accounts_and_keys_survive_a_restart(home: &Home) {
    let serve = home.serve(&[], &[]);
    let key = serve.key.clone();
    let session = serve.session();
    serve.call(&session, "create_sandbox", json!({"name": "before"})).ok();
    serve.end();
    let serve = home.serve(&[], &[]);
    assert_eq!(serve.key, key);
    assert!(serve.announced.contains("$(cat "), "{}", serve.announced);
    let session = serve.session();
    let listed = serve.call(&session, "list_sandboxes", json!({"include_deleted": true}));
    assert_eq!(listed.ok()["sandboxes"][0]["name"], "before", "{listed:?}");
    serve.end();
}

fn a_database_without_its_secret_is_refused(home: &Home) {
    home.serve(&[], &[]).end();
    let secret = home.data().join("secret");
    let kept = home.dir.join("kept");
    std::fs::rename(&secret, &kept).expect("moved");
    for _ in 0..2 {
        let exit = home.holm(&["serve", "--port", "0"]);
        assert_eq!(exit.code(), Some(1), "{}", exit.err());
        assert!(exit.err().contains("hint: copy the file `secret`"), "{}", exit.err());
        assert!(!secret.exists());
    }
    std::fs::rename(&kept, &secret).expect("moved");
    let serve = home.serve(&[], &[]);
    serve.session();
    serve.end();
}

fn a_port_in_use_is_said(home: &Home) {
    let serve = home.serve(&[], &[]);
    let port = serve.address.port().to_string();
    let exit = home.holm(&["serve", "--port", &port]);
    assert_eq!(exit.code(), Some(1), "{}", exit.err());
    assert!(exit.err().contains("hint: choose another one with --port"), "{}", exit.err());
    serve.end();
}
