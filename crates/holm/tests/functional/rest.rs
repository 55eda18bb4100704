//! REST against real sandboxes: files, streams, and what happens when one side goes away.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::common::{Answer, Home, Serve, Value, as_root, as_rootless, json, receive, until};

as_root!(
    case_1_streamed_text_is_whole_characters,
    case_12_a_time_limit_ends_all_of_a_streamed_command,
    case_25_links_stay_inside,
    case_27_paths_are_confined_or_refused,
    case_31_bytes_come_back_as_they_were,
    case_33_uploads_belong_to_the_sandbox_user,
    case_59_streams_end_with_their_sandbox,
    case_60_destroying_again_is_answered,
    case_64_an_expiry_is_told_with_what_was_written,
    case_92_every_documented_endpoint_is_there,
    a_stream_ends_with_its_reader,
    large_files_go_through_without_growing_memory,
    an_upload_that_breaks_off_leaves_the_old_file,
    a_full_disk_is_said_while_uploading,
    files_live_from_write_to_delete,
    the_documented_examples_work,
);
as_rootless!(
    case_1_streamed_text_is_whole_characters,
    case_31_bytes_come_back_as_they_were,
    a_stream_ends_with_its_reader,
    files_live_from_write_to_delete,
);

const LARGE: usize = 100 << 20;

/// A sandbox of a service, over REST.
struct Rest<'a> {
    serve: &'a Serve,
    path: String,
}

fn json_of(serve: &Serve, method: &str, path: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    serve.ask(method, path, &[("content-type", "application/json")], &body)
}

impl<'a> Rest<'a> {
    fn new(serve: &'a Serve, wanted: &Value) -> Self {
        let made = json_of(serve, "POST", "/v1/sandboxes", wanted);
        assert_eq!(made.status, 201, "{made:?}");
        let id = made.json()["id"].as_str().expect("an id").to_owned();
        Self { serve, path: format!("/v1/sandboxes/{id}") }
    }

    fn ask(&self, method: &str, below: &str, body: &Value) -> Answer {
        json_of(self.serve, method, &format!("{}{below}", self.path), body)
    }

    fn exec(&self, command: &str) -> Value {
        let ran = self.ask("POST", "/exec", &json!({"command": command}));
        assert_eq!(ran.status, 200, "{ran:?}");
        ran.json()
    }

    fn good(&self, command: &str) -> String {
        let ran = self.exec(command);
        assert_eq!(ran["exit_code"], 0, "{command}: {ran}");
        ran["stdout"].as_str().expect("text").to_owned()
    }

    fn start(&self, body: &Value) -> TcpStream {
        let path = format!("{}/exec", self.path);
        let headers = [("content-type", "application/json")];
        self.serve.send("POST", &path, &headers, &body.to_string())
    }

    /// A command to its end: its events.
    fn follow(&self, body: &Value) -> Vec<(String, Value)> {
        let answer = receive(self.start(body));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.headers["content-type"], "text/event-stream");
        events(&unchunked(&answer.body))
    }

    /// Sends a request with a body of bytes; gives the connection.
    fn upload(&self, query: &str, length: usize) -> TcpStream {
        let stream = TcpStream::connect(self.serve.address).expect("it listens");
        let key = self.serve.key.as_deref().expect("a key");
        let head = format!(
            "PUT {}/files/raw?{query} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\
             connection: close\r\ncontent-length: {length}\r\n\r\n",
            self.path
        );
        (&stream).write_all(head.as_bytes()).expect("it reads");
        stream
    }

    fn download(&self, query: &str) -> TcpStream {
        self.serve.send("GET", &format!("{}/files/raw?{query}", self.path), &[], "")
    }
}

/// A body that came in parts, as one text.
fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}

fn events(text: &str) -> Vec<(String, Value)> {
    let blocks = text.split("\n\n").filter(|block| block.starts_with("event: "));
    blocks
        .map(|block| {
            let (name, data) = block.split_once('\n').expect("two lines");
            let data = data.strip_prefix("data: ").expect("data");
            (name["event: ".len()..].to_owned(), serde_json::from_str(data).expect("JSON"))
        })
        .collect()
}

fn text_of(events: &[(String, Value)], stream: &str) -> String {
    let parts = events.iter().filter(|(name, _)| name == stream);
    parts.map(|(_, data)| data["text"].as_str().expect("text")).collect()
}

fn error_is(answer: &Answer, status: u16, name: &str) {
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (status, &json!(name)));
}

fn rss(serve: &Serve) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", serve.pid())).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

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

fn case_25_links_stay_inside(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    sandbox.good("ln -s /etc/hostname a; ln -s / d; ln -s ../../../.. u");
    let own = sandbox.good("cat /etc/hostname");
    for path in ["a", "d/etc/hostname", "u/etc/hostname"] {
        let json = sandbox.ask("GET", &format!("/files?path={path}"), &Value::Null);
        assert_eq!(json.json()["content"], json!(own), "{path}");
        assert_eq!(receive(sandbox.download(&format!("path={path}"))).body, own, "{path}");
    }
    // A link is removed, not what it leads to.
    assert_eq!(sandbox.ask("DELETE", "/files?path=d", &Value::Null).status, 200);
    sandbox.good("test -d /etc && ! test -e d");
    serve.end();
}

fn case_27_paths_are_confined_or_refused(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let long = "x".repeat(5000);
    for (path, type_of) in [
        ("", "invalid_request"),
        ("a%00b", "invalid_request"),
        (long.as_str(), "invalid_request"),
        (".", "file_invalid"),
        ("../../x", "file_not_found"),
        ("a/../../../b", "file_not_found"),
        ("..%252f..%252fx", "file_not_found"),
        ("a%5Cb", "file_not_found"),
    ] {
        for below in ["/files", "/files/raw"] {
            let answer = sandbox.ask("GET", &format!("{below}?path={path}"), &Value::Null);
            assert_eq!(answer.json()["error"]["type"], json!(type_of), "{below} {path}");
        }
    }
    serve.end();
}

fn case_31_bytes_come_back_as_they_were(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    sandbox.good("python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)))' > all");
    let read = sandbox.ask("GET", "/files?path=all&encoding=base64", &Value::Null).json();
    let content = read["content"].as_str().expect("text").to_owned();
    let write = json!({"path": "again", "content": content, "encoding": "base64"});
    assert_eq!(sandbox.ask("PUT", "/files", &write).json()["bytes_written"], 256);
    sandbox.good("cmp all again");
    error_is(&sandbox.ask("GET", "/files?path=all", &Value::Null), 409, "file_invalid");
    let bad = json!({"path": "again", "content": "***", "encoding": "base64"});
    error_is(&sandbox.ask("PUT", "/files", &bad), 400, "invalid_request");
    serve.end();
}

fn case_33_uploads_belong_to_the_sandbox_user(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let script = b"#!/bin/sh\necho ran\n";
    let mut stream = sandbox.upload("path=bin/s.sh&mode=0755", script.len());
    stream.write_all(script).expect("it reads");
    assert_eq!(receive(stream).json()["bytes_written"], json!(script.len()));
    assert_eq!(sandbox.good("bin/s.sh; stat -c '%U %a' bin/s.sh"), "ran\nsandbox 755\n");
    sandbox.good("echo 'echo more' >> bin/s.sh; chmod 700 bin/s.sh; rm bin/s.sh");
    let wrong = receive(sandbox.upload("path=x&mode=9", 0));
    error_is(&wrong, 400, "invalid_request");
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

fn case_60_destroying_again_is_answered(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let ask = || sandbox.ask("DELETE", "", &Value::Null);
        let asking: Vec<_> = (0..20).map(|_| scope.spawn(ask)).collect();
        let answers = asking.into_iter().map(|asked| asked.join().expect("no panic"));
        answers
            .map(|answer| {
                assert_eq!(answer.status, 200, "{answer:?}");
                answer.json()
            })
            .collect()
    });
    let real = answers.iter().filter(|answer| answer["already_destroyed"] == json!(false)).count();
    assert_eq!(real, 1, "{answers:?}");
    assert_eq!(sandbox.ask("DELETE", "", &Value::Null).status, 200);
    let never = serve.ask("DELETE", "/v1/sandboxes/sbx_0123456789abcdef01", &[], "");
    error_is(&never, 404, "not_found");
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

fn case_92_every_documented_endpoint_is_there(home: &Home) {
    let serve = home.serve(&[], &[]);
    let document = serve.ask("GET", "/v1/openapi.json", &[("x-none", "")], "").json();
    let committed = include_str!("../../../../openapi/v1.json");
    assert!(document == serde_json::from_str::<Value>(committed).expect("JSON"));
    let info = serve.ask("GET", "/v1/service-info", &[], "").json();
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    let names: Vec<&str> = info["enforced"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|name| name.as_str().expect("a name"))
        .collect();
    let sandbox = Rest::new(&serve, &json!({"size": "small"}));
    let made = sandbox.ask("GET", "", &Value::Null).json();
    assert!(made["enforced"].as_array().expect("a list").iter().all(|layer| {
        let layer = layer.as_str().expect("a name");
        names.contains(&layer)
            || !made["missing"].as_array().expect("a list").contains(&json!(layer))
    }));
    assert_eq!(made["memory_mb"], info["sizes"]["small"]["memory_mb"]);
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let path = path
            .replace("{sandbox_id}", "sbx_0123456789abcdef01")
            .replace("{account_id}", "acc_0123456789abcdef01")
            .replace("{key_id}", "key_0123456789abcdef01");
        for (method, operation) in methods.as_object().expect("methods") {
            let answer = json_of(&serve, &method.to_ascii_uppercase(), &path, &Value::Null);
            let status = answer.status.to_string();
            assert!(operation["responses"][&status].is_object(), "{method} {path}: {answer:?}");
            assert!(status != "405" && status != "500", "{method} {path}: {answer:?}");
        }
    }
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

fn large_files_go_through_without_growing_memory(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    // What the first of everything takes.
    let mut stream = sandbox.upload("path=small", 4 << 20);
    stream.write_all(&vec![7; 4 << 20]).expect("it reads");
    assert_eq!(receive(stream).status, 200);
    let mut sink = Vec::new();
    sandbox.download("path=small").read_to_end(&mut sink).expect("an end");
    let before = rss(&serve);
    let part: Vec<u8> =
        (0..1 << 20).map(|n: u32| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    let mut stream = sandbox.upload("path=large", LARGE);
    for _ in 0..LARGE >> 20 {
        stream.write_all(&part).expect("it reads");
    }
    assert_eq!(receive(stream).json()["bytes_written"], json!(LARGE));
    let mut stream = sandbox.download("path=large");
    let mut head = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    let (mut at, mut differs) = (0, false);
    loop {
        let read = stream.read(&mut buffer).expect("a stream");
        if read == 0 {
            break;
        }
        let mut bytes = &buffer[..read];
        if at == 0 && head.is_empty() {
            let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
            head = bytes[..end].to_vec();
            bytes = &bytes[end..];
        }
        differs |= bytes.iter().enumerate().any(|(i, byte)| *byte != part[(at + i) % part.len()]);
        at += bytes.len();
    }
    assert_eq!((at, differs), (LARGE, false));
    let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
    assert!(head.contains(&format!("content-length: {LARGE}\r\n")), "{head}");
    assert!(head.contains(&format!("x-file-size: {LARGE}\r\n")), "{head}");
    // A client that does not read, and one that does not write on, hold nothing either.
    let slow = sandbox.download("path=large");
    let mut stuck = sandbox.upload("path=stuck", LARGE);
    stuck.write_all(&part).expect("it reads");
    sandbox.good("true");
    let after = rss(&serve);
    assert!(after < before + (16 << 10), "{before} KiB grew to {after} KiB");
    drop((slow, stuck));
    serve.end();
}

fn an_upload_that_breaks_off_leaves_the_old_file(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    sandbox.good("echo old > f");
    let mut stream = sandbox.upload("path=f", 8 << 20);
    stream.write_all(&vec![1; 4 << 20]).expect("it reads");
    until("the upload to have begun", || {
        (sandbox.good("ls -A | wc -l").trim() == "2").then_some(())
    });
    drop(stream);
    until("what it had written to be gone", || {
        (sandbox.good("ls -A | wc -l").trim() == "1").then_some(())
    });
    assert_eq!(sandbox.good("cat f"), "old\n");
    serve.end();
}

fn a_full_disk_is_said_while_uploading(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    // All but a few MiB.
    sandbox.exec("dd if=/dev/zero of=fill bs=1M; truncate -s -4M fill");
    let mut stream = sandbox.upload("path=f", 64 << 20);
    let part = vec![1; 1 << 20];
    for _ in 0..64 {
        stream.write_all(&part).expect("it reads on, to be able to answer");
    }
    error_is(&receive(stream), 507, "disk_full");
    assert_eq!(sandbox.good("ls -A"), "fill\n");
    serve.end();
}

fn files_live_from_write_to_delete(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    for n in 0..5 {
        let write =
            json!({"path": format!("d/{n}.txt"), "content": "é\"$(id)`\r\n", "mode": "0600"});
        let written = sandbox.ask("PUT", "/files", &write);
        assert_eq!(written.json()["bytes_written"], 11, "{written:?}");
    }
    let read = sandbox.ask("GET", "/files?path=d/0.txt", &Value::Null).json();
    assert_eq!((&read["content"], &read["mode"]), (&json!("é\"$(id)`\r\n"), &json!("0600")));
    let part = sandbox.ask("GET", "/files?path=d/0.txt&offset=2&limit=4", &Value::Null).json();
    let expected = (&json!("\"$(i"), &json!(6), &json!(true));
    assert_eq!((&part["content"], &part["next_offset"], &part["truncated"]), expected);
    let mut names = Vec::new();
    let mut cursor = String::new();
    loop {
        let below = format!("/files/list?path=d&limit=2{cursor}");
        let page = sandbox.ask("GET", &below, &Value::Null).json();
        let files = page["files"].as_array().expect("files");
        assert!(files.len() <= 2);
        names.extend(files.iter().map(|file| file["name"].as_str().expect("a name").to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names, ["0.txt", "1.txt", "2.txt", "3.txt", "4.txt"]);
    assert_eq!(sandbox.ask("DELETE", "/files?path=d/0.txt", &Value::Null).status, 200);
    error_is(&sandbox.ask("DELETE", "/files?path=d/0.txt", &Value::Null), 404, "file_not_found");
    error_is(&sandbox.ask("DELETE", "/files?path=d", &Value::Null), 409, "file_invalid");
    assert_eq!(sandbox.ask("DELETE", "/files?path=d&recursive=true", &Value::Null).status, 200);
    assert_eq!(sandbox.good("ls -A"), "");
    serve.end();
}

/// The blocks of the page, one after the other in one shell, as a reader would paste them.
fn the_documented_examples_work(home: &Home) {
    let serve = home.serve(&[], &[]);
    let page = include_str!("../../../../docs/rest.md");
    let blocks: Vec<&str> = page
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().expect("an end"))
        // Where the reader's own service listens.
        .filter(|block| !block.starts_with("export HOLM_URL"))
        .collect();
    assert!(blocks.len() > 6, "{}", blocks.len());
    let script = format!("set -e\n{}", blocks.concat());
    let output = std::process::Command::new("bash")
        .args(["-c", &script])
        .current_dir(&home.dir)
        .env("HOLM_URL", format!("http://{}", serve.address))
        .env("HOLM_API_KEY", serve.key.as_deref().expect("a key"))
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for part in ["\"stdout\":\"hello\\n\"", "\"stdout\":\"42\\n\"", "event: exit", "a,b\\n1,2"] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    serve.end();
}
