//! A running `holm serve`, and a client of HTTP that is written here.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::home::{self, Home};
use super::mcp::GUARD;
use super::result::Tool;

/// A running service.
pub struct Serve {
    child: Child,
    /// Ends what it leaves.
    drain: Command,
    /// Where it listens.
    pub address: SocketAddr,
    /// What it printed when it was ready.
    pub announced: String,
    /// The key that requests carry when they bring no credential of their own.
    pub key: Option<String>,
    errors: Arc<Mutex<Vec<u8>>>,
    /// What it prints to standard output after that.
    more: Option<JoinHandle<Vec<u8>>>,
    ended: bool,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The session of an answer to `initialize`.
    pub fn session(&self) -> String {
        assert_eq!(self.status, 200, "{self:?}");
        self.headers.get("mcp-session-id").expect("a session").clone()
    }

    /// The result of a tool call.
    pub fn tool(&self) -> Tool {
        Tool { reply: self.json() }
    }
}

impl Home {
    /// A service on a free port of loopback. Its sandboxes end with an orderly stop, unless the
    /// test asks for something else.
    pub fn serve(&self, arguments: &[&str], env: &[(&str, &str)]) -> Serve {
        let mut command = self.command();
        command.args(["serve", "--port", "0"]).args(arguments).envs(env.iter().copied());
        if !arguments.contains(&"--on-stop") {
            command.args(["--on-stop", "end"]);
        }
        let mut drain = self.command();
        drain.arg("drain").envs(env.iter().copied());
        if let Some(at) = arguments.iter().position(|argument| *argument == "--database") {
            drain.args(&arguments[at..at + 2]);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("holm serve starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut stderr = child.stderr.take().expect("piped");
        let errors = Arc::<Mutex<Vec<u8>>>::default();
        let for_err = Arc::clone(&errors);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = stderr.read(&mut buffer) {
                for_err.lock().expect("no panic inside").extend_from_slice(&buffer[..read]);
            }
        });
        let mut announced = String::new();
        while !announced.ends_with("\n}\n") {
            let read = stdout.read_line(&mut announced).expect("text");
            let said = String::from_utf8_lossy(&errors.lock().expect("no panic")).into_owned();
            assert!(read > 0, "holm serve ended: {said}");
        }
        let url = announced.lines().next().and_then(|line| line.split("http://").nth(1));
        let address = url.and_then(|url| url.strip_suffix("/mcp")).expect("a URL");
        let address = address.parse().expect("an address");
        let more = Some(thread::spawn(move || {
            let mut rest = Vec::new();
            stdout.read_to_end(&mut rest).expect("a pipe can be read");
            rest
        }));
        self.note_instances();
        let keyless = arguments.contains(&"--auth")
            || env.iter().any(|(name, _)| name.ends_with("_AUTH_TOKEN"));
        let key = (!keyless).then(|| {
            let key = std::fs::read_to_string(self.data().join("first-key"));
            key.expect("the first key").trim().to_owned()
        });
        Serve { child, drain, address, announced, key, errors, more, ended: false }
    }
}

impl Serve {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.errors.lock().expect("no panic inside")).into_owned()
    }

    /// Sends a request, with the key unless it has a credential, and gives the connection.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> TcpStream {
        let has_one = |name: &str| matches!(name, "authorization" | "x-api-key");
        let mut headers = headers.to_vec();
        if let Some(key) = self.key.as_deref().filter(|_| !headers.iter().any(|h| has_one(h.0))) {
            headers.push(("x-api-key", key));
        }
        self.send_plain(method, path, &headers, body)
    }

    /// Sends a request as it is and gives the connection.
    pub fn send_plain(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(GUARD)).expect("a time");
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let length = body.len();
        head.push_str(&format!("connection: close\r\ncontent-length: {length}\r\n\r\n"));
        stream.write_all(head.as_bytes()).expect("it reads");
        stream.write_all(body.as_bytes()).expect("it reads");
        stream
    }

    /// A request and its answer.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        receive(self.send(method, path, headers, body))
    }

    pub fn post(&self, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.ask("POST", "/mcp", headers, &body.to_string())
    }

    /// A new session.
    pub fn session(&self) -> String {
        let params = json!({"protocolVersion": "2025-11-25"});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        self.post(&[], &body).session()
    }

    /// Starts a tool call of a session.
    pub fn start(&self, session: &str, tool: &str, arguments: Value) -> TcpStream {
        // An id in flight cannot be used again.
        static NEXT: AtomicU64 = AtomicU64::new(100);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let params = json!({"name": tool, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.send("POST", "/mcp", &[("mcp-session-id", session)], &body.to_string())
    }

    /// A tool call of a session to its end.
    pub fn call(&self, session: &str, tool: &str, arguments: Value) -> Tool {
        receive(self.start(session, tool, arguments)).tool()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill_process(Pid::from_raw(pid).expect("not zero"), signal).expect("it is our child");
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let status = home::wait(&mut self.child);
        self.ended = true;
        let more = self.more.take().expect("waited for once").join().expect("a reader");
        assert!(more.is_empty(), "standard output went on: {}", String::from_utf8_lossy(&more));
        status
    }

    /// SIGTERM, and a good end.
    pub fn end(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "{}", self.stderr());
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // A test failed: what is left is removed.
        if !self.ended && self.child.kill().is_ok() {
            if self.child.wait().is_err() {
                eprintln!("holm serve could not be waited for");
            }
            let drained = self.drain.output();
            eprintln!("drained: {drained:?}");
        }
    }
}

/// The answer on a connection that is closed after it.
pub fn receive(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer in time");
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status");
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Answer { status: status.parse().expect("a number"), headers, body: body.to_owned() }
}
