//! What goes through: bodies of any size, streams, trailers, heads; and what must not.

use std::io::{Read as _, Write as _};

use base64::Engine as _;

use super::{Bed, Shown, open, read_until, rest_of};
use crate::common::{Home, as_root, receive, until};

as_root!(
    large_bodies_pass_in_constant_memory,
    streams_pass_both_ways_with_trailers,
    heads_and_expectations_are_as_they_should_be,
    connections_to_the_program_are_used_again,
    a_hostile_program_cannot_smuggle_answers,
    interim_answers_without_end_are_cut_off,
    headers_beyond_the_origin_do_not_come_out,
);

const LARGE: usize = 300 << 20;

fn large_bodies_pass_in_constant_memory(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    assert_eq!(shown.get("/").status, 200);
    let before = rss(serve.pid());
    let length = LARGE.to_string();
    let headers = [("content-length", &*length), ("connection", "close")];
    let mut stream = shown.open("POST", "/count", &headers);
    let part = vec![7; 1 << 20];
    for _ in 0..LARGE >> 20 {
        stream.write_all(&part).expect("it reads");
    }
    let counted = receive(stream);
    assert!(counted.body.starts_with(&format!("{LARGE} ")), "{counted:?}");
    let mut stream = shown.open("GET", &format!("/large?{LARGE}"), &[("connection", "close")]);
    let head = read_until(&mut stream, "\r\n\r\n").to_lowercase();
    assert!(head.contains(&format!("content-length: {LARGE}")), "{head}");
    let (mut total, mut buffer) = (0, vec![0; 1 << 20]);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        total += read;
    }
    assert_eq!(total, LARGE);
    // Ten times less than went through, twice.
    assert!(rss(serve.pid()) < before + (LARGE as u64 >> 10) / 10, "memory stays");
    serve.end();
}

fn interim_answers_without_end_are_cut_off(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    let flood = "import socket\n\
        listener = socket.create_server(('127.0.0.1', 8080))\n\
        open('there', 'w').close()\n\
        stream, _ = listener.accept()\n\
        stream.recv(1000)\n\
        sent = 0\n\
        try:\n    \
            while sent < 1 << 30:\n        \
                stream.sendall(b'HTTP/1.1 103 \\r\\n\\r\\n' * 4096); sent += 4096 * 17\n\
        except OSError:\n    \
            pass\n\
        open('sent', 'w').write(str(sent))\n";
    let file = serde_json::json!({"path": "flood.py", "content": flood});
    assert!(bed.ask("PUT", "/files", &file).status < 300);
    let start = serde_json::json!({"command": "exec python3 flood.py", "background": true});
    assert_eq!(bed.ask("POST", "/exec", &start).status, 202);
    let read =
        |path: &str| bed.ask("GET", &format!("/files?path={path}"), &serde_json::Value::Null);
    until("it listens", || (read("there").status == 200).then_some(()));
    assert_eq!(bed.public(8080).get("/").status, 502);
    let sent = until("it is cut off", || {
        let answer = read("sent");
        (answer.status == 200).then(|| answer.json()["content"].as_str()?.parse::<u64>().ok())?
    });
    // What the kernel keeps on both sides is some MiB.
    assert!(sent < 64 << 20, "{sent}");
    serve.end();
}

fn rss(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

fn streams_pass_both_ways_with_trailers(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    // The answer to each part comes before the next is sent.
    let headers = [("transfer-encoding", "chunked"), ("te", "trailers"), ("trailer", "x-mine")];
    let mut stream = shown.open("POST", "/echo", &headers);
    read_until(&mut stream, "\r\n\r\n");
    for part in ["one", "two", "three"] {
        write!(stream, "{:x}\r\n{part}\r\n", part.len()).expect("it reads");
        read_until(&mut stream, part);
    }
    stream.write_all(b"0\r\nx-mine: 7\r\n\r\n").expect("it reads");
    let end = read_until(&mut stream, "\r\n\r\n").to_lowercase();
    assert!(end.contains("x-sum: 11 x-mine: 7"), "trailers in and out: {end}");
    // Events come one by one.
    let mut events = shown.open("GET", "/sse", &[]);
    let head = read_until(&mut events, "\r\n\r\n").to_lowercase();
    assert!(head.contains("text/event-stream"), "{head}");
    read_until(&mut events, "data: 0");
    read_until(&mut events, "data: 1");
    serve.end();
}

fn heads_and_expectations_are_as_they_should_be(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    let head = shown.ask("HEAD", "/", &[]);
    assert_eq!((head.status, &*head.headers["content-length"], &*head.body), (200, "5", ""));
    let large = shown.ask("HEAD", "/large?123456789", &[]);
    assert_eq!((&*large.headers["content-length"], &*large.body), ("123456789", ""));
    let headers = [("expect", "100-continue"), ("content-length", "4")];
    let mut stream = shown.open("POST", "/count", &headers);
    read_until(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"body").expect("it reads");
    read_until(&mut stream, "\r\n\r\n4 ");
    // A proxy it is not.
    let connect = shown.ask("CONNECT", "127.0.0.1:22", &[]);
    assert!(matches!(connect.status, 400 | 404), "{connect:?}");
    let long = "x".repeat(70 << 10);
    assert_eq!(shown.ask("GET", "/", &[("x-long", &long)]).status, 431);
    serve.end();
}

fn connections_to_the_program_are_used_again(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    let number = || shown.get("/headers").json()["number"].as_u64().expect("a number");
    // One connection serves one visitor after the other. The first goes through the guest, and gives
    // way, once, to one that goes straight to the program.
    let numbers: Vec<u64> = (0..8).map(|_| number()).collect();
    assert!(numbers.is_sorted() && numbers[7] - numbers[0] <= 1, "{numbers:?}");
    // One that the program has closed meanwhile is not noticed by visitors.
    bed.stop();
    bed.start(&["8080@127.0.0.1"]);
    assert_eq!(shown.get("/").status, 200);
    serve.end();
}

/// A program that says this, whatever it is asked.
fn says(shown: &Shown, bytes: &str) -> String {
    let code = base64::engine::general_purpose::URL_SAFE.encode(bytes);
    let mut stream = shown.open("GET", &format!("/hostile?{code}"), &[("connection", "close")]);
    stream.flush().expect("sent");
    rest_of(stream)
}

fn a_hostile_program_cannot_smuggle_answers(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    let second = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled";
    for said in [
        // Two lengths; a length beside chunks; more than was announced; a second answer behind.
        format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab{second}"),
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n\
             1\r\na\r\n0\r\n\r\n{second}"
        ),
        format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na{second}"),
        format!("HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n{second}"),
        format!("HTTP/1.1 304 Not Modified\r\nContent-Length: 0x9\r\n\r\n{second}"),
        // Another protocol that nobody has asked for.
        format!("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n{second}"),
        // No HTTP at all, and lines within lines.
        second.replace("HTTP/1.1 200 OK", "hello"),
        format!("HTTP/1.1 200 OK\r\nX-A: b\n\n{second}"),
        format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(200 << 10)),
        format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(1000)),
        String::new(),
    ] {
        let got = says(&shown, &said);
        // Whatever the visitor gets is one answer, whose end is where its head says.
        let (head, body) = got.split_once("\r\n\r\n").expect("a head");
        assert_eq!(head.matches("HTTP/1.1 ").count(), 1, "{said:?}: {got}");
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        assert!(head.matches("content-length").count() <= 1, "{got}");
        let bare = head.starts_with("http/1.1 304") || head.starts_with("http/1.1 204");
        match length {
            Some(length) => {
                assert!(!head.contains("transfer-encoding"), "{got}");
                let length: usize = length.parse().expect("a number");
                assert_eq!(body.len(), if bare { 0 } else { length }, "{said:?}: {got}");
            }
            None if bare => assert_eq!(body, "", "{said:?}"),
            None => {
                assert!(head.contains("transfer-encoding: chunked"), "{said:?}: {got}");
                let end = body.find("0\r\n\r\n").expect("an end");
                assert_eq!(end + 5, body.len(), "{said:?}: {got}");
            }
        }
        // The next visitor gets what is the next one's.
        assert_eq!(shown.get("/x").body, "hello GET /x");
    }
    // An answer that is cut off is seen to be.
    let cut = says(&shown, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nab");
    assert!(cut.contains("content-length: 100") && cut.ends_with("ab"), "{cut}");
    let cut = says(&shown, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n");
    assert!(!cut.ends_with("0\r\n\r\n"), "{cut}");
    // A visitor who smuggles reaches its own preview and nothing else.
    let smuggled = "GET /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let headers = [
        ("content-length", &*smuggled.len().to_string()),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
    ];
    let mut stream = open(shown.address, &shown.host, "POST", "/count", &headers);
    write!(stream, "0\r\n\r\n{smuggled}").expect("it reads");
    let got = rest_of(stream);
    assert!(got.matches("HTTP/1.1 ").count() <= 1, "{got}");
    serve.end();
}

fn headers_beyond_the_origin_do_not_come_out(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    let mut stream = shown.open("GET", "/set", &[("connection", "close")]);
    stream.flush().expect("sent");
    let got = rest_of(stream).to_lowercase();
    assert!(got.contains("set-cookie: own=1; path=/\r\n"), "{got}");
    assert!(got.contains("set-cookie: wide=1; path=/\r\n"), "without its domain: {got}");
    assert!(got.contains("x-own: kept") && got.contains("origin-agent-cluster: ?1"), "{got}");
    for gone in
        ["forged", "alt-svc", "strict-transport", "clear-site", "x-accel", "x-hop", "domain"]
    {
        assert!(!got.contains(gone), "{gone}: {got}");
    }
    serve.end();
}
