//! A client of `holm mcp` over stdio, written here, so that it can also say what no library says.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::home::{self, Home};
use super::result::{Run, Tool};

/// No wait lasts longer; at least ten times what any of them needs.
pub const GUARD: Duration = Duration::from_secs(240);

/// What the server wrote.
#[derive(Default)]
struct Heard {
    replies: HashMap<String, Vec<Value>>,
    /// Messages without a usable id: notifications and errors with id null.
    others: Vec<Value>,
    not_protocol: Vec<String>,
    ended: bool,
}

type Shared = Arc<(Mutex<Heard>, Condvar)>;

/// A running `holm mcp`.
pub struct Mcp {
    child: Child,
    stdin: Mutex<Option<ChildStdin>>,
    heard: Shared,
    errors: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
    next: AtomicU64,
    ended: bool,
}

impl Mcp {
    /// Starts the server.
    pub fn spawn(mut command: Command, _home: &Home) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("holm mcp starts");
        let heard = Shared::default();
        let errors = Arc::<Mutex<Vec<u8>>>::default();
        let stdout = child.stdout.take().expect("piped");
        let mut stderr = child.stderr.take().expect("piped");
        let (for_out, for_err) = (Arc::clone(&heard), Arc::clone(&errors));
        let readers = vec![
            thread::spawn(move || listen(BufReader::new(stdout), &for_out)),
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = stderr.read(&mut buffer) {
                    for_err.lock().expect("no panic inside").extend_from_slice(&buffer[..read]);
                }
            }),
        ];
        let stdin = Mutex::new(child.stdin.take());
        Self { child, stdin, heard, errors, readers, next: AtomicU64::new(1), ended: false }
    }

    /// Process id of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to standard error so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.errors.lock().expect("no panic inside")).into_owned()
    }

    /// Writes these bytes as they are.
    pub fn raw(&self, bytes: &[u8]) {
        let mut stdin = self.stdin.lock().expect("no panic inside");
        let stdin = stdin.as_mut().expect("standard input is open");
        stdin.write_all(bytes).expect("the server reads");
        stdin.flush().expect("the server reads");
    }

    /// Writes one message.
    pub fn send(&self, message: &Value) {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        self.raw(&line);
    }

    /// A number that no request of this client had yet.
    pub fn fresh_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request and gives its id.
    pub fn request(&self, method: &str, params: Value) -> u64 {
        let id = self.fresh_id();
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Waits for the reply to `id` (anything that JSON has as an id).
    pub fn reply(&self, id: impl Into<Value>) -> Value {
        let key = id.into().to_string();
        self.wait_for(&format!("the reply to {key}"), |heard| {
            let list = heard.replies.get_mut(&key)?;
            (!list.is_empty()).then(|| list.remove(0))
        })
    }

    /// The reply to `id` if it came already.
    pub fn reply_now(&self, id: impl Into<Value>) -> Option<Value> {
        let key = id.into().to_string();
        let mut heard = self.heard.0.lock().expect("no panic inside");
        heard.replies.get_mut(&key).and_then(|list| (!list.is_empty()).then(|| list.remove(0)))
    }

    /// Waits for a message without a usable id that `wanted` accepts.
    pub fn other(&self, what: &str, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        self.wait_for(what, |heard| {
            let at = heard.others.iter().position(&mut wanted)?;
            Some(heard.others.remove(at))
        })
    }

    /// How many messages without a usable id have come and were not taken.
    pub fn others_count(&self) -> usize {
        self.heard.0.lock().expect("no panic inside").others.len()
    }

    /// Waits for an error with id null and gives its code.
    pub fn null_error(&self) -> i64 {
        let message =
            self.other("an error with id null", |m| m["id"].is_null() && m.get("error").is_some());
        message["error"]["code"].as_i64().expect("a code")
    }

    fn wait_for<T>(&self, what: &str, mut take: impl FnMut(&mut Heard) -> Option<T>) -> T {
        let start = Instant::now();
        let (lock, changed) = &*self.heard;
        let mut heard = lock.lock().expect("no panic inside");
        loop {
            if let Some(value) = take(&mut heard) {
                return value;
            }
            let ended = heard.ended;
            assert!(
                !ended,
                "the server's output ended; waiting for {what}; stderr: {}",
                self.stderr()
            );
            assert!(start.elapsed() < GUARD, "still waiting for {what}; stderr: {}", self.stderr());
            heard =
                changed.wait_timeout(heard, Duration::from_millis(200)).expect("no panic inside").0;
        }
    }

    /// A request and its reply.
    pub fn ask(&self, method: &str, params: Value) -> Value {
        self.reply(self.request(method, params))
    }

    /// The opening exchange.
    pub fn initialize(&self, version: &str) -> Value {
        let reply = self.ask(
            "initialize",
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "suite", "version": "1"}}),
        );
        self.notify("notifications/initialized", json!({}));
        reply
    }

    /// Sends a tool call and gives its id.
    pub fn start(&self, tool: &str, arguments: Value) -> u64 {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Waits for a tool call that was started.
    pub fn finish(&self, id: u64) -> Tool {
        Tool { reply: self.reply(id) }
    }

    /// A tool call to its end.
    pub fn call(&self, tool: &str, arguments: Value) -> Tool {
        self.finish(self.start(tool, arguments))
    }

    /// Asks the server to stop working on a request.
    pub fn cancel(&self, id: impl Into<Value>) {
        self.notify("notifications/cancelled", json!({"requestId": id.into(), "reason": "test"}));
    }

    /// Makes a sandbox and gives its id.
    pub fn create(&self) -> String {
        self.create_with(json!({}))
    }

    /// Makes a sandbox with these arguments and gives its id.
    pub fn create_with(&self, arguments: Value) -> String {
        let made = self.call("create_sandbox", arguments);
        made.ok()["sandbox_id"].as_str().expect("an id").to_owned()
    }

    /// A shell command in a sandbox.
    pub fn sh(&self, sandbox: &str, command: &str) -> Run {
        self.sh_with(sandbox, command, json!({}))
    }

    /// A shell command as `root` inside.
    pub fn sh_root(&self, sandbox: &str, command: &str) -> Run {
        self.sh_with(sandbox, command, json!({"user": "root"}))
    }

    /// A shell command with more arguments of the tool.
    pub fn sh_with(&self, sandbox: &str, command: &str, more: Value) -> Run {
        self.finish(self.start_sh(sandbox, command, more)).run()
    }

    /// Starts a shell command and gives the request's id.
    pub fn start_sh(&self, sandbox: &str, command: &str, more: Value) -> u64 {
        let mut arguments = json!({"sandbox_id": sandbox, "command": command});
        let fields = arguments.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        self.start("run_command", arguments)
    }

    /// How many processes the sandbox has, the shell that counts them included.
    pub fn processes(&self, sandbox: &str) -> u32 {
        self.sh(sandbox, "set -- /proc/[0-9]*; echo $#").good().parse().expect("a number")
    }

    /// Writes a text file that must succeed.
    pub fn write(&self, sandbox: &str, path: &str, content: &str) -> Value {
        self.call("write_file", json!({"sandbox_id": sandbox, "path": path, "content": content}))
            .ok()
            .clone()
    }

    /// Writes an executable file that must succeed, in pieces where it is larger than a message.
    pub fn write_program(&self, sandbox: &str, path: &str, bytes: &[u8]) {
        let arguments = json!({"sandbox_id": sandbox, "path": path, "mode": "0755", "encoding": "base64",
            "content": BASE64.encode(bytes)});
        self.call("write_file", arguments).ok();
    }

    /// Reads a text file that must be readable.
    pub fn read(&self, sandbox: &str, path: &str) -> String {
        let read = self.call("read_file", json!({"sandbox_id": sandbox, "path": path}));
        read.ok()["content"].as_str().expect("text").to_owned()
    }

    /// Reads a file's bytes.
    pub fn read_bytes(&self, sandbox: &str, path: &str) -> Vec<u8> {
        let read = self
            .call("read_file", json!({"sandbox_id": sandbox, "path": path, "encoding": "base64"}));
        BASE64.decode(read.ok()["content"].as_str().expect("text")).expect("base64")
    }

    /// Destroys a sandbox, which must succeed.
    pub fn destroy(&self, sandbox: &str) {
        self.call("destroy_sandbox", json!({"sandbox_id": sandbox})).ok();
    }

    /// Ids that `list_sandboxes` shows.
    pub fn list(&self) -> Vec<String> {
        let listed = self.call("list_sandboxes", json!({}));
        let rows = listed.ok()["sandboxes"].as_array().expect("a list").clone();
        rows.iter().map(|row| row["sandbox_id"].as_str().expect("an id").to_owned()).collect()
    }

    /// Sends a signal to the server.
    pub fn signal(&self, signal: Signal) {
        let pid =
            Pid::from_raw(i32::try_from(self.pid()).expect("a process id")).expect("not zero");
        kill_process(pid, signal).expect("it is our child");
    }

    /// Closes its standard input.
    pub fn close_stdin(&self) {
        drop(self.stdin.lock().expect("no panic inside").take());
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let status = home::wait(&mut self.child);
        self.ended = true;
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader ends with its pipe");
        }
        status
    }

    /// Closes the input, waits, and checks that it ended well and wrote protocol lines only.
    pub fn end(mut self, home: &Home) {
        home.note_instances();
        self.close_stdin();
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "holm mcp ends with 0; stderr: {}", self.stderr());
        self.assert_protocol_only();
    }

    /// Standard output had nothing but JSON-RPC messages, one a line.
    pub fn assert_protocol_only(&self) {
        let heard = self.heard.0.lock().expect("no panic inside");
        assert!(heard.not_protocol.is_empty(), "not protocol: {:?}", heard.not_protocol);
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        if !self.ended {
            drop(self.stdin.lock().map(|mut stdin| stdin.take()));
            // A test failed or did not care how it ends: give it the chance to remove its sandboxes.
            let start = Instant::now();
            while start.elapsed() < GUARD / 8 {
                match self.child.try_wait() {
                    Ok(None) => thread::sleep(Duration::from_millis(10)),
                    _ => return,
                }
            }
            if self.child.kill().is_ok() && self.child.wait().is_err() {
                eprintln!("holm mcp could not be waited for");
            }
        }
    }
}

fn listen(mut from: impl std::io::BufRead, heard: &Shared) {
    let (lock, changed) = &**heard;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = from.read_until(b'\n', &mut line).unwrap_or(0);
        let mut heard = lock.lock().expect("no panic inside");
        if read == 0 {
            heard.ended = true;
            changed.notify_all();
            return;
        }
        match serde_json::from_slice::<Value>(&line) {
            Ok(message) if message["jsonrpc"] == "2.0" => {
                let is_reply = message.get("method").is_none();
                match message.get("id") {
                    Some(id) if is_reply && !id.is_null() => {
                        let key = id.to_string();
                        heard.replies.entry(key).or_default().push(message);
                    }
                    _ => heard.others.push(message),
                }
            }
            Ok(Value::Array(batch)) => heard.others.push(Value::Array(batch)),
            _ => heard.not_protocol.push(String::from_utf8_lossy(&line).into_owned()),
        }
        changed.notify_all();
    }
}
