//! Traces of `holm serve`: what a collector gets, and that one that is away or slow harms nobody.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{Home, Serve, Value, as_root, json, until};

as_root!(
    a_collector_is_told_of_requests_and_calls,
    the_last_ones_are_told_at_the_end,
    a_collector_that_is_away_or_silent_harms_nobody,
    wrong_settings_are_said,
);

/// In commands, files, headers and keys; in nothing that is told.
const MARKER: &str = "x-marker-x";

/// A collector that answers, or keeps silent.
struct Collector {
    address: SocketAddr,
    got: Arc<Mutex<Vec<(String, Value)>>>,
    /// Connections that get no answer.
    held: Arc<Mutex<Vec<TcpStream>>>,
}

impl Collector {
    fn new(answers: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (got, held) = (Arc::default(), Arc::<Mutex<Vec<TcpStream>>>::default());
        let (kept, waiting) = (Arc::clone(&got), Arc::clone(&held));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                if answers {
                    let kept = Arc::clone(&kept);
                    thread::spawn(move || serve(stream, &kept));
                } else {
                    waiting.lock().expect("no panic inside").push(stream);
                }
            }
        });
        Self { address, got, held }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every span by its name, and its attributes.
    fn spans(&self) -> Vec<(String, Value)> {
        let mut spans = Vec::new();
        for (_, body) in self.got.lock().expect("no panic inside").iter() {
            let found = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array();
            for span in found.expect("spans") {
                let mut attributes = json!({});
                for attribute in span["attributes"].as_array().expect("attributes") {
                    let value = &attribute["value"];
                    let value = value.get("stringValue").or(value.get("intValue"));
                    attributes[attribute["key"].as_str().expect("a key")] =
                        value.expect("a value").clone();
                }
                spans.push((span["name"].as_str().expect("a name").to_owned(), attributes));
            }
        }
        spans
    }
}

/// Takes requests of one connection.
fn serve(mut stream: TcpStream, got: &Mutex<Vec<(String, Value)>>) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            // The end of the connection is no error.
            if stream.read_exact(&mut byte).is_err() {
                return;
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("text");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.expect("a length").parse().expect("a number")];
        stream.read_exact(&mut body).expect("a body");
        let body = serde_json::from_slice(&body).expect("JSON");
        got.lock().expect("no panic inside").push((head, body));
        let answer =
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        stream.write_all(answer.as_bytes()).expect("it reads");
    }
}

fn ran(serve: &Serve, session: &str) {
    let command = json!({"command": format!("echo {MARKER}")});
    let ran = serve.call(session, "run_command", command);
    assert_eq!(ran.ok()["stdout"], format!("{MARKER}\n"));
}

fn traced(home: &Home, collector: &str) -> Serve {
    let headers = format!("authorization=Bearer%20{MARKER}");
    let env =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", collector), ("OTEL_EXPORTER_OTLP_HEADERS", &*headers)];
    home.serve(&[], &env)
}

fn a_collector_is_told_of_requests_and_calls(home: &Home) {
    let collector = Collector::new(true);
    let serve = traced(home, &collector.url());
    let session = serve.session();
    ran(&serve, &session);
    assert_eq!(serve.ask("GET", &format!("/v1/{MARKER}"), &[], "").status, 404);
    // In its own time, while the service runs.
    let spans = until("the collector to be told", || {
        let spans = collector.spans();
        (spans.len() >= 4).then_some(spans)
    });
    let find = |name: &str| {
        let found = spans.iter().find(|(found, _)| found == name);
        &found.unwrap_or_else(|| panic!("no {name}: {spans:?}")).1
    };
    let call = find("tools/call run_command");
    assert_eq!(
        (&call["holm.outcome"], &call["gen_ai.tool.name"]),
        (&json!("ok"), &json!("run_command"))
    );
    assert!(call["holm.sandbox.id"].as_str().is_some_and(|id| id.starts_with("sbx_")), "{call}");
    assert_eq!(find("POST /mcp")["http.response.status_code"], "200");
    assert_eq!(find("GET")["holm.outcome"], "not_found");
    let metrics = serve.ask("GET", "/metrics", &[], "").body;
    assert!(metrics.contains("holm_trace_spans_total{result=\"dropped\"} 0\n"), "{metrics}");
    let key = serve.key.clone().expect("a key");
    serve.end();
    let got = collector.got.lock().expect("no panic inside");
    for (head, body) in got.iter() {
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("authorization: Bearer {MARKER}\r\n")), "{head}");
        let text = body.to_string();
        for secret in [MARKER, &key, &session] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    let resource = got[0].1["resourceSpans"][0]["resource"].to_string();
    assert!(resource.contains("\"service.name\"") && resource.contains("\"holm\""), "{resource}");
}

fn the_last_ones_are_told_at_the_end(home: &Home) {
    let collector = Collector::new(true);
    std::fs::write(
        home.data().join("config.toml"),
        format!("[traces]\nendpoint = '{}'\nservice_name = 'mine'\n", collector.url()),
    )
    .expect("a settings file");
    let serve = home.serve(&[], &[]);
    ran(&serve, &serve.session());
    serve.end();
    let spans = collector.spans();
    assert_eq!(spans.iter().filter(|(name, _)| name == "tools/call run_command").count(), 1);
    assert!(collector.got.lock().expect("no panic inside")[0].1.to_string().contains("mine"));
}

fn a_collector_that_is_away_or_silent_harms_nobody(home: &Home) {
    // Nobody listens at a port that was given back.
    let away = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let serve = traced(home, &format!("http://{}", away.expect("an address")));
    ran(&serve, &serve.session());
    until("spans to be dropped", || {
        let metrics = serve.ask("GET", "/metrics", &[], "").body;
        let zero = "holm_trace_spans_total{result=\"dropped\"} 0\n";
        (metrics.contains("holm_trace_spans_total") && !metrics.contains(zero)).then_some(())
    });
    assert_eq!(serve.stderr().matches("traces are not taken").count(), 1, "{}", serve.stderr());
    assert!(!serve.stderr().contains(MARKER), "{}", serve.stderr());
    serve.end();
    let silent = Collector::new(false);
    let serve = traced(home, &silent.url());
    let session = serve.session();
    ran(&serve, &session);
    until("the collector to be asked", || {
        (!silent.held.lock().expect("no panic inside").is_empty()).then_some(())
    });
    // While it keeps silent calls go on, and more than may wait are dropped.
    ran(&serve, &session);
    for _ in 0..2200 {
        serve.ask("GET", "/.well-known/mcp/server-card.json", &[], "");
    }
    let metrics = serve.ask("GET", "/metrics", &[], "").body;
    assert!(!metrics.contains("holm_trace_spans_total{result=\"dropped\"} 0\n"), "{metrics}");
    serve.end();
}

fn wrong_settings_are_said(home: &Home) {
    let check = |name: &str, value: &str, part: &str| {
        let mut command = home.command();
        command.args(["serve", "--port", "0"]).env(name, value);
        let exit = crate::common::finish(command, b"");
        assert_eq!(exit.code(), Some(2), "{}", exit.err());
        assert!(exit.err().contains(name) && exit.err().contains(part), "{}", exit.err());
        assert!(!exit.err().contains(MARKER), "{}", exit.err());
    };
    check("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("{MARKER}:4317"), "http://localhost:4318");
    check("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://u:{MARKER}@h"), "http://localhost:4318");
    check("OTEL_EXPORTER_OTLP_HEADERS", MARKER, "name=value");
}
