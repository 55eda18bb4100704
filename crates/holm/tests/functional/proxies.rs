//! Long calls through a proxy that gives connections up that are silent for too long.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{Client, Home, Value, as_root, fresh_id, json, long, until};

as_root!(case_87_long_calls_come_through_an_impatient_proxy);

const EVENTS: (&str, &str) = ("accept", "application/json, text/event-stream");

/// Passes bytes on, and ends a connection whose service says nothing for too long.
struct Proxy {
    address: SocketAddr,
    cut: Arc<AtomicUsize>,
}

impl Proxy {
    fn new(target: SocketAddr, patience: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let cut = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&cut);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a connection");
                let service = TcpStream::connect(target).expect("the service listens");
                service.set_read_timeout(Some(patience)).expect("a time");
                let (mut up, mut to) = (copy(&client), copy(&service));
                thread::spawn(move || {
                    // An error is an end like any other, here and below.
                    let _ = std::io::copy(&mut up, &mut to);
                });
                let count = Arc::clone(&count);
                thread::spawn(move || {
                    pass(&service, &client, &count);
                    let _ = client.shutdown(Shutdown::Both);
                    let _ = service.shutdown(Shutdown::Both);
                });
            }
        });
        Self { address, cut }
    }
}

fn copy(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a copy")
}

fn pass(mut service: &TcpStream, mut client: &TcpStream, cut: &AtomicUsize) {
    let mut buffer = [0; 4096];
    loop {
        match service.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => {
                if client.write_all(&buffer[..read]).is_err() {
                    return;
                }
            }
            Err(_silence) => {
                cut.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }
}

/// What came of a call, in the order in which it came.
#[derive(Debug, Default)]
struct Came {
    comments: usize,
    progress: Vec<f64>,
    /// Answers, and how many other messages came after one.
    answers: Vec<Value>,
    after: usize,
}

fn came(text: &str) -> Came {
    let mut came = Came::default();
    // The lines of a body in parts: sizes in between are neither comments nor data.
    for line in text.lines() {
        if line.starts_with(": ") {
            came.comments += 1;
            came.after += came.answers.len();
        } else if let Some(data) = line.strip_prefix("data: ") {
            let message: Value = serde_json::from_str(data).expect("JSON");
            came.after += came.answers.len();
            match message["method"].as_str() {
                Some("notifications/progress") => {
                    assert_eq!(message["params"]["progressToken"], "t");
                    came.progress.push(message["params"]["progress"].as_f64().expect("a number"));
                }
                None => came.answers.push(message),
                Some(other) => panic!("{other}"),
            }
        }
    }
    came
}

fn call(client: &Client, session: &str, arguments: &Value, token: bool, accept: bool) -> TcpStream {
    let mut params = json!({"name": "run_command", "arguments": arguments});
    if token {
        params["_meta"] = json!({"progressToken": "t"});
    }
    let body =
        json!({"jsonrpc": "2.0", "id": fresh_id(), "method": "tools/call", "params": params});
    let mut headers = vec![("mcp-session-id", session)];
    headers.extend(accept.then_some(EVENTS));
    client.send("POST", "/mcp", &headers, &body.to_string())
}

/// Bytes until the connection ends, however that is.
fn rest_of(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end too.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The proxy's patience ends several times while the calls run. Those of clients that read events
/// come through, with progress or without; the one that must be silent shows that it cuts.
fn case_87_long_calls_come_through_an_impatient_proxy(home: &Home) {
    // As shipped: a sign of life at least each 15 s, and proxies that give up after 60 s.
    let (keep_alive, patience, lasts) = if long() { ("15s", 60, 120) } else { ("1s", 4, 10) };
    let text = format!("[server]\nkeep_alive = '{keep_alive}'\n");
    std::fs::write(home.data().join("config.toml"), text).expect("written");
    let serve = home.serve(&[], &[]);
    let proxy = Proxy::new(serve.address, Duration::from_secs(patience));
    let client = Client { address: proxy.address, key: serve.key.clone() };
    let session = client.session();
    let command = format!("touch up; sleep {lasts}; echo over");
    let arguments = json!({"command": command, "timeout_ms": 600_000});
    let with_token = call(&client, &session, &arguments, true, true);
    until("it runs", || {
        let read = serve.call(&session, "read_file", json!({"path": "up"}));
        (!read.is_error()).then_some(())
    });
    let without = call(&client, &session, &arguments, false, true);
    let silent = call(&client, &session, &arguments, true, false);
    let id = serve.call(&session, "list_sandboxes", json!({})).ok()["sandboxes"][0]["sandbox_id"]
        .clone();
    let path = format!("/v1/sandboxes/{}/exec", id.as_str().expect("an id"));
    let mut streamed = arguments.clone();
    streamed["stream"] = true.into();
    let kind = [("content-type", "application/json")];
    let streamed = client.send("POST", &path, &kind, &streamed.to_string());

    let text = rest_of(with_token);
    let told = came(&text);
    assert!(told.progress.len() >= 3, "{text}");
    assert!(told.progress.windows(2).all(|two| two[0] < two[1]), "{told:?}");
    // At least every 15 seconds, by the service's own clock.
    assert!(told.progress.windows(2).all(|two| two[1] - two[0] < 15.0), "{told:?}");
    assert_eq!((told.answers.len(), told.after), (1, 0), "{text}");
    assert_eq!(told.answers[0]["result"]["structuredContent"]["stdout"], "over\n", "{text}");
    let text = rest_of(without);
    let told = came(&text);
    assert_eq!(told.progress, Vec::<f64>::new());
    assert!(told.comments >= 2, "{text}");
    assert_eq!((told.answers.len(), told.after), (1, 0), "{text}");
    assert_eq!(told.answers[0]["result"]["structuredContent"]["stdout"], "over\n", "{text}");
    let text = rest_of(streamed);
    assert!(text.contains(": keep-alive") && text.contains("event: exit"), "{text}");
    assert_eq!(rest_of(silent), "", "it has no way to say that it lives");
    assert_eq!(proxy.cut.load(Ordering::SeqCst), 1, "only that one was cut");
    // A call that is over soon is a plain answer, whatever its client reads.
    let short = call(&client, &session, &json!({"command": "echo short"}), false, true);
    let short = rest_of(short);
    assert!(short.contains("application/json") && short.contains("short"), "{short}");
    serve.end();
}
