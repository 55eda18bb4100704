//! REST against real sandboxes: files, streams, and what happens when one side goes away.

mod answers;
mod calls;
mod commands;
mod copy;
mod files;
mod lease;
mod life;
mod memory;
mod pauses;
mod streams;
mod tenants;

use std::io::Write as _;
use std::net::TcpStream;

use crate::common::{Answer, Client, Serve, Value, json, receive};

const LARGE: usize = 100 << 20;

/// A sandbox of a service, over REST.
struct Rest<'a> {
    client: &'a Client,
    path: String,
    id: String,
}

impl<'a> Rest<'a> {
    fn new(client: &'a Client, wanted: &Value) -> Self {
        let made = client.rest("POST", "/v1/sandboxes", wanted);
        assert_eq!(made.status, 201, "{made:?}");
        Self::of(client, made.json()["id"].as_str().expect("an id"))
    }

    /// One that is there already.
    fn of(client: &'a Client, id: &str) -> Self {
        Self { client, path: format!("/v1/sandboxes/{id}"), id: id.to_owned() }
    }

    fn ask(&self, method: &str, below: &str, body: &Value) -> Answer {
        self.client.rest(method, &format!("{}{below}", self.path), body)
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
        self.client.send("POST", &path, &headers, &body.to_string())
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
        self.put(&format!("raw?{query}"), length)
    }

    fn put(&self, below: &str, length: usize) -> TcpStream {
        let stream = TcpStream::connect(self.client.address).expect("it listens");
        let key = self.client.key.as_deref().expect("a key");
        let head = format!(
            "PUT {}/files/{below} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\
             connection: close\r\ncontent-length: {length}\r\n\r\n",
            self.path
        );
        (&stream).write_all(head.as_bytes()).expect("it reads");
        stream
    }

    fn download(&self, query: &str) -> TcpStream {
        self.client.send("GET", &format!("{}/files/raw?{query}", self.path), &[], "")
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
