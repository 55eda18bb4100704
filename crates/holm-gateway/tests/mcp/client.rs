//! A client over pipes in memory, and the comparison of what it gets.

use std::sync::Arc;

use holm_engine::Engine;
use holm_gateway::mcp::{Ended, StdioOptions, serve_stdio};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::world::{HANG, World, reaches};

/// Room in the pipe from the server: less than a big reply, so that writing in parts is tried too.
const PIPE: usize = 64 << 10;

/// One connection.
pub struct Client {
    pub world: Arc<World>,
    input: Option<DuplexStream>,
    output: Option<Lines<BufReader<DuplexStream>>>,
    serving: JoinHandle<Ended>,
    stop: Option<oneshot::Sender<()>>,
}

/// Runs a test on a runtime of its own.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test);
}

impl Client {
    /// A connection in a world of its own.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// The same with other options.
    pub fn with(change: impl FnOnce(&mut StdioOptions)) -> Self {
        let (world, engine) = World::new();
        Self::of(world, engine, change)
    }

    /// A connection to this engine of a world.
    pub fn of(world: Arc<World>, engine: Engine, change: impl FnOnce(&mut StdioOptions)) -> Self {
        let (input, server_input) = tokio::io::duplex(PIPE);
        let (server_output, output) = tokio::io::duplex(PIPE);
        let (stop, stopped) = oneshot::channel::<()>();
        let mut options = StdioOptions {
            shutdown: Box::pin(async {
                // A dropped sender is no signal.
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            }),
            ..StdioOptions::default()
        };
        change(&mut options);
        let serving = tokio::spawn(serve_stdio(engine, options, server_input, server_output));
        Self {
            world,
            input: Some(input),
            output: Some(BufReader::new(output).lines()),
            serving,
            stop: Some(stop),
        }
    }

    /// Sends bytes as they are.
    pub async fn raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("open input");
        timeout(HANG, input.write_all(bytes)).await.expect("a reading server").expect("written");
    }

    /// Sends one line.
    pub async fn line(&mut self, line: impl AsRef<[u8]>) {
        self.raw(line.as_ref()).await;
        self.raw(b"\n").await;
    }

    /// Sends one message.
    pub async fn send(&mut self, message: Value) {
        self.line(message.to_string()).await;
    }

    /// Sends a tool call.
    pub async fn call(&mut self, id: impl Into<Value>, name: &str, arguments: Value) {
        let params = json!({"name": name, "arguments": arguments});
        self.request(id, "tools/call", params).await;
    }

    /// Sends a `run_command` that does not end by itself (`gate`, `hang`) and waits until it runs
    /// beside the others.
    pub async fn running(&mut self, id: i64, command: &str) {
        let running = self.world.running.clone();
        let others = *running.borrow();
        self.call(id, "run_command", json!({"command": command})).await;
        reaches(&running, others + 1).await;
    }

    /// Sends a `create_sandbox` or another call that needs one, while none can be made, and waits
    /// until its creation is under way.
    pub async fn creating(&mut self, id: i64, name: &str, arguments: Value) {
        self.world.may_create.send_replace(false);
        let creating = self.world.creating.clone();
        self.call(id, name, arguments).await;
        reaches(&creating, 1).await;
    }

    /// Sends a request.
    pub async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id: Value = id.into();
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    /// The next message.
    pub async fn next(&mut self) -> Value {
        let output = self.output.as_mut().expect("open output");
        let line = timeout(HANG, output.next_line()).await.expect("an answer in time");
        let line = line.expect("readable").expect("one more line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line}"))
    }

    /// The next message, which must be the reply to `id`; its result.
    pub async fn result(&mut self, id: impl Into<Value>) -> Value {
        let mut message = self.next().await;
        assert_eq!(message["id"], id.into(), "{message}");
        assert!(message["error"].is_null(), "{message}");
        message["result"].take()
    }

    /// Calls a tool and waits for its result; its structured content.
    pub async fn tool(&mut self, name: &str, arguments: Value) -> Value {
        self.call(name, name, arguments).await;
        self.result(name).await["structuredContent"].take()
    }

    /// Closes the client's end of stdin.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Closes the client's end of stdout.
    pub fn close_output(&mut self) {
        self.output = None;
    }

    /// Sends the signal.
    pub fn stop(&mut self) {
        self.stop.take().expect("one signal").send(()).expect("serving");
    }

    /// Reads until the server closes its output, then waits for its end.
    pub async fn rest(mut self) -> (Vec<Value>, Ended, Arc<World>) {
        let mut rest = Vec::new();
        if let Some(output) = &mut self.output {
            while let Some(line) =
                timeout(HANG, output.next_line()).await.expect("in time").expect("readable")
            {
                rest.push(serde_json::from_str(&line).expect("JSON only"));
            }
        }
        let ended = timeout(HANG, self.serving).await.expect("an end in time").expect("no panic");
        (rest, ended, self.world)
    }
}

/// Sends lines, then the end of input, and compares everything that comes back.
pub fn check(lines: &[&str], expected: &[Value]) {
    check_bytes(&lines.iter().map(|line| line.as_bytes()).collect::<Vec<_>>(), expected);
}

/// The same for lines that are no text.
pub fn check_bytes(lines: &[&[u8]], expected: &[Value]) {
    run(async {
        let mut client = Client::new();
        for line in lines {
            client.line(line).await;
        }
        client.close_input();
        let (got, ended, world) = client.rest().await;
        assert!(matches!(ended, Ended::EndOfInput), "{ended:?}");
        assert_eq!(*world.alive.borrow(), 0);
        let shown: Vec<String> = lines.iter().map(|line| shorten(line)).collect();
        assert_eq!(got.len(), expected.len(), "{shown:#?} gave {got:#?}");
        for (got, expected) in got.iter().zip(expected) {
            assert!(matches(got, expected), "{shown:#?} gave\n{got:#}\ninstead of\n{expected:#}");
        }
    });
}

fn shorten(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()
}

/// True when `got` has everything that `expected` names: objects may have more, `"*"` is anything,
/// `"*text*"` is a string with that text in it.
pub fn matches(got: &Value, expected: &Value) -> bool {
    match (got, expected) {
        (_, Value::String(any)) if any == "*" => true,
        (Value::String(got), Value::String(part))
            if part.starts_with('*') && part.ends_with('*') =>
        {
            got.contains(part.trim_matches('*'))
        }
        (Value::Object(got), Value::Object(expected)) => {
            expected.iter().all(|(key, value)| got.get(key).is_some_and(|got| matches(got, value)))
        }
        (Value::Array(got), Value::Array(expected)) => {
            got.len() == expected.len()
                && got.iter().zip(expected).all(|(got, expected)| matches(got, expected))
        }
        (got, expected) => got == expected,
    }
}

/// Asserts [`matches`].
pub fn assert_matches(got: &Value, expected: Value) {
    assert!(matches(got, &expected), "{got:#}\ninstead of\n{expected:#}");
}
