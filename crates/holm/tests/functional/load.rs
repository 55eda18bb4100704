//! Many calls of several clients at once, over both ways: none fails, and the service's memory stays
//! as it was.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::common::{Home, Serve, Value, as_root, json};

as_root!(many_calls_of_many_clients_fail_never_and_leave_no_memory);

const CLIENTS: usize = 8;
const CALLS: usize = 10_000;
/// After so many everything that is made once is there.
const FIRST: usize = 1000;
/// What memory may differ by. A few kilobytes left by every call are more.
const SLACK: u64 = 16 << 20;

/// A client with a sandbox of its own over REST and one in a session.
struct Client<'a> {
    serve: &'a Serve,
    path: String,
    session: String,
    number: usize,
}

impl Client<'_> {
    fn new(serve: &Serve, number: usize) -> Client<'_> {
        let made = serve.ask("POST", "/v1/sandboxes", &[("content-type", JSON)], "{}");
        assert_eq!(made.status, 201, "{made:?}");
        let id = made.json()["id"].as_str().expect("an id").to_owned();
        let path = format!("/v1/sandboxes/{id}");
        let client = Client { serve, path, session: serve.session(), number };
        client.tool("run_command", json!({"command": "true"}));
        client
    }

    fn rest(&self, method: &str, below: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let path = format!("{}{below}", self.path);
        let answer = self.serve.ask(method, &path, &[("content-type", JSON)], &body);
        assert_eq!(answer.status, 200, "{method} {path}: {answer:?}");
        answer.json()
    }

    fn tool(&self, tool: &str, arguments: Value) -> Value {
        self.serve.call(&self.session, tool, arguments).ok().clone()
    }

    fn call(&self, n: usize) {
        let text = format!("{}-{n}", self.number);
        match n % 10 {
            0 | 1 => {
                let ran = self.rest("POST", "/exec", &json!({"command": format!("echo {text}")}));
                assert_eq!(ran["stdout"], format!("{text}\n"));
            }
            2 | 3 => {
                let ran = self.tool("run_command", json!({"command": format!("echo {text}")}));
                assert_eq!(ran["stdout"], format!("{text}\n"));
            }
            4 => {
                let write = json!({"path": "f", "content": text});
                assert_eq!(self.rest("PUT", "/files", &write)["bytes_written"], text.len());
                assert_eq!(self.rest("GET", "/files?path=f", &Value::Null)["content"], text);
            }
            5 => {
                self.tool("write_file", json!({"path": "f", "content": text}));
                assert_eq!(self.tool("read_file", json!({"path": "f"}))["content"], text);
            }
            6 => assert_eq!(self.rest("GET", "", &Value::Null)["status"], "running"),
            7 => assert_eq!(self.tool("get_sandbox", json!({}))["status"], "running"),
            8 => drop(self.rest("GET", "/files/list", &Value::Null)),
            _ => drop(self.tool("list_files", json!({}))),
        }
    }
}

const JSON: &str = "application/json";

/// What the service says that it has.
fn memory(serve: &Serve) -> u64 {
    let page = serve.ask("GET", "/metrics", &[], "").body;
    let row = page.lines().find(|row| row.starts_with("process_resident_memory_bytes "));
    let bytes = row.and_then(|row| row.split(' ').nth(1)?.parse().ok());
    bytes.unwrap_or_else(|| panic!("no memory in {page}"))
}

fn many_calls_of_many_clients_fail_never_and_leave_no_memory(home: &Home) {
    // All of them have one key, and are faster than it may be.
    std::fs::write(home.data().join("config.toml"), "[rates]\nkey_per_second = 0\n")
        .expect("written");
    let serve = home.serve(&[], &[]);
    let clients: Vec<_> = (0..CLIENTS).map(|number| Client::new(&serve, number)).collect();
    let next = AtomicUsize::new(0);
    let all_until = |end: usize| {
        thread::scope(|scope| {
            for client in &clients {
                scope.spawn(|| {
                    loop {
                        match next.fetch_add(1, Ordering::Relaxed) {
                            n if n < end => client.call(n),
                            _ => return,
                        }
                    }
                });
            }
        });
        next.store(end, Ordering::Relaxed);
        memory(&serve)
    };
    let before = all_until(FIRST);
    // The last thousand begin where all others have ended.
    all_until(CALLS - FIRST);
    let after = all_until(CALLS);
    assert!(after < before + SLACK, "{before} bytes grew to {after} with {CALLS} calls");
    serve.end();
}
