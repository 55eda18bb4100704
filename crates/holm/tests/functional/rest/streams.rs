//! Output that is followed, and its end.

use std::io::{Read as _, Write as _};

use super::{Rest, error_is, text_of};
use crate::common::{Home, Value, as_root, as_rootless, json, receive, until};

as_root!(
    case_1_streamed_text_is_whole_characters,
    case_12_a_time_limit_ends_all_of_a_streamed_command,
    case_59_streams_end_with_their_sandbox,
    case_59_files_on_their_way_end_with_their_sandbox,
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

/// Files on their way, in both directions: what has not begun to be answered says why, what has
/// breaks off before the announced length.
fn case_59_files_on_their_way_end_with_their_sandbox(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    sandbox.good("head -c 200M /dev/zero > large; head -c 12M /dev/zero > part");
    let mut down = sandbox.download("path=large");
    let mut first = vec![0; 1 << 16];
    down.read_exact(&mut first).expect("its beginning");
    let head = String::from_utf8_lossy(&first).to_ascii_lowercase();
    assert!(head.contains("content-length: 209715200\r\n"), "{head}");
    let mut up = sandbox.upload("path=up", 200 << 20);
    up.write_all(&vec![1; 4 << 20]).expect("it reads");
    until("the upload to have begun", || {
        (sandbox.good("ls -A | wc -l").trim() == "3").then_some(())
    });
    // Reads as JSON that may or may not have their file already.
    let answers = std::thread::scope(|scope| {
        let read = || {
            let below = "/files?path=part&encoding=base64&limit=12582912";
            sandbox.ask("GET", below, &Value::Null)
        };
        let reading: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
        assert_eq!(sandbox.ask("DELETE", "", &Value::Null).status, 200);
        reading.into_iter().map(|one| one.join().expect("no panic")).collect::<Vec<_>>()
    });
    for answer in answers {
        if answer.status == 200 {
            assert_eq!(answer.json()["size"], 12 << 20, "a whole one");
            continue;
        }
        error_is(&answer, 410, "sandbox_gone");
        assert!(answer.body.contains("destroyed"), "{answer:?}");
    }
    let mut rest = Vec::new();
    // A reset is an end too.
    let ended = down.read_to_end(&mut rest);
    assert!(first.len() + rest.len() < 200 << 20, "{ended:?}: all of it came");
    let refused = receive(up);
    error_is(&refused, 410, "sandbox_gone");
    assert!(refused.body.contains("destroyed"), "{refused:?}");
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
