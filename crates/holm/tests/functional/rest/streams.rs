//! Output that is followed, and its end.

use std::io::Read as _;

use super::{Rest, error_is, text_of};
use crate::common::{Home, Value, as_root, as_rootless, json, receive, until};

as_root!(
    case_1_streamed_text_is_whole_characters,
    case_12_a_time_limit_ends_all_of_a_streamed_command,
    case_59_streams_end_with_their_sandbox,
    case_64_an_expiry_is_told_with_what_was_written,
    a_stream_ends_with_its_reader,
);
as_rootless!(case_1_streamed_text_is_whole_characters, a_stream_ends_with_its_reader,);

fn case_1_streamed_text_is_whole_characters(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let script = "import sys, time\n\
        for out in sys.stdout.buffer, sys.stderr.buffer:\n\
        \x20   out.write(b'a' * 65535 + 'é'.encode() + '日本語\\n'.encode() * 20000)\n\
        \x20   out.write(b'\\xe2\\x82'); out.flush(); time.sleep(0.3); out.write(b'\\xac'); out.flush()\n\
        sys.stdout.buffer.write(b'\\xe2\\x82')\n";
    let write = json!({"path": "s.py", "content": script});
    assert_eq!(sandbox.ask("PUT", "/files", &write).status, 200);
    let events = sandbox.follow(&json!({"command": "python3 s.py", "stream": true}));
    let want = format!("{}é{}€", "a".repeat(65535), "日本語\n".repeat(20000));
    assert!(text_of(&events, "stdout") == format!("{want}\u{fffd}"), "stdout differs");
    assert!(text_of(&events, "stderr") == want, "stderr differs");
    let (name, exit) = events.last().expect("an end");
    assert_eq!((name.as_str(), &exit["exit_code"]), ("exit", &json!(0)));
    let lossy = (&exit["stdout_lossy"], &exit["stderr_lossy"]);
    assert_eq!(lossy, (&json!(true), &json!(false)));
    assert_eq!(exit["stderr_bytes"], json!(want.len()));
    serve.end();
}

fn case_12_a_time_limit_ends_all_of_a_streamed_command(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let before = sandbox.good("set -- /proc/[0-9]*; echo $#");
    let command = "setsid sleep 300 & sleep 300 & echo so far; wait";
    let events = sandbox.follow(&json!({"command": command, "stream": true, "timeout_ms": 500}));
    assert_eq!(text_of(&events, "stdout"), "so far\n");
    let (name, exit) = events.last().expect("an end");
    assert_eq!((name.as_str(), &exit["timed_out"]), ("exit", &json!(true)));
    assert_eq!(sandbox.good("set -- /proc/[0-9]*; echo $#"), before);
    serve.end();
}

fn case_59_streams_end_with_their_sandbox(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let mut stream = sandbox.start(&json!({"command": "echo on; sleep 100", "stream": true}));
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains("on\\n") {
        let read = stream.read(&mut buffer).expect("a stream");
        assert!(read > 0, "it ended");
        seen.extend_from_slice(&buffer[..read]);
    }
    assert_eq!(sandbox.ask("DELETE", "", &Value::Null).status, 200);
    stream.read_to_end(&mut seen).expect("an end");
    let text = String::from_utf8_lossy(&seen);
    let (_, rest) = text.split_once("event: error").expect("an error event");
    assert!(rest.contains("sandbox_gone") && rest.contains("destroyed"), "{rest}");
    serve.end();
}

fn case_64_an_expiry_is_told_with_what_was_written(home: &Home) {
    let serve = home.serve(&[], &[]);
    let limits = serve.ask("GET", "/v1/service-info", &[], "").json()["limits"].clone();
    let least = limits["timeout_seconds_min"].as_u64().expect("a number");
    if least > 5 && !crate::common::long() {
        println!("SKIP the shortest lifetime of a service is {least} s; with --long");
        return serve.end();
    }
    let wanted = json!({"timeout_seconds": least.max(2)});
    let (plain, streamed) = (Rest::new(&serve, &wanted), Rest::new(&serve, &wanted));
    let command = json!({"command": "echo so far; sleep 600", "timeout_ms": 600_000});
    let asked = plain.start(&command);
    let mut following = command.clone();
    following["stream"] = true.into();
    let events = streamed.follow(&following);
    assert_eq!(text_of(&events, "stdout"), "so far\n");
    let (name, data) = events.last().expect("an end");
    assert_eq!((name.as_str(), &data["error"]["type"]), ("error", &json!("sandbox_gone")));
    assert_eq!(data["error"]["ended_reason"], "expired");
    let gone = receive(asked);
    error_is(&gone, 410, "sandbox_gone");
    let error = &gone.json()["error"];
    assert_eq!(error["ended_reason"], "expired");
    assert_eq!(error["partial"]["stdout"], "so far\n");
    for (method, below, body) in [
        ("POST", "/exec", json!({"command": "true"})),
        ("POST", "/run-code", json!({"code": "1"})),
        ("POST", "/extend", json!({})),
        ("GET", "/files?path=x", Value::Null),
        ("GET", "/files/raw?path=x", Value::Null),
        ("GET", "/files/list", Value::Null),
    ] {
        let later = plain.ask(method, below, &body);
        error_is(&later, 410, "sandbox_gone");
        assert_eq!(later.json()["error"]["ended_reason"], "expired", "{below}");
    }
    let listed = plain.ask("GET", "", &Value::Null).json();
    assert_eq!(
        (&listed["status"], &listed["ended_reason"]),
        (&json!("deleted"), &json!("expired"))
    );
    serve.end();
}

fn a_stream_ends_with_its_reader(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let count = || sandbox.good("set -- /proc/[0-9]*; echo $#");
    let before = count();
    let command = "setsid sleep 300 & touch on; yes";
    let stream = sandbox.start(&json!({"command": command, "stream": true}));
    until("the command to run", || {
        (sandbox.exec("test -e on")["exit_code"] == json!(0)).then_some(())
    });
    assert_ne!(count(), before);
    drop(stream);
    until("the processes of the command to be gone", || (count() == before).then_some(()));
    serve.end();
}
