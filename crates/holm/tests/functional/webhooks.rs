//! Webhooks of `holm serve`: what receivers get, through failures and restarts.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::Signal;

use crate::common::{Home, Serve, Value, as_root, json, until};

as_root!(
    what_happens_is_told_and_signed,
    failures_are_told_again_under_the_same_id,
    nothing_is_lost_by_a_kill,
    one_that_never_answers_holds_nobody_up,
    private_addresses_are_refused_unless_allowed,
    redirects_are_refusals,
    wrong_settings_are_said,
);

/// 32 bytes in base64, and in hex.
const SECRET: &str = "whsec_eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg=";
const KEY: &str = "7878787878787878787878787878787878787878787878787878787878787878";
/// Part of an address that nobody may print.
const PATH: &str = "/hook/x-marker-x";

/// What a receiver got.
#[derive(Debug, Clone)]
struct Got {
    head: String,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        let prefix = format!("{name}: ");
        let line = self.head.lines().find(|line| line.to_lowercase().starts_with(&prefix));
        &line.unwrap_or_else(|| panic!("no {name}: {self:?}"))[prefix.len()..]
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    fn kind(&self) -> String {
        self.json()["type"].as_str().expect("a type").to_owned()
    }

    /// Verifies the signature by another program.
    fn verify(&self) {
        let signed = format!(
            "{}.{}.{}",
            self.header("webhook-id"),
            self.header("webhook-timestamp"),
            self.body
        );
        let mut openssl = Command::new("openssl")
            .args(["dgst", "-sha256", "-mac", "HMAC", "-macopt", &format!("hexkey:{KEY}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("openssl is there");
        openssl.stdin.take().expect("piped").write_all(signed.as_bytes()).expect("it reads");
        let done = openssl.wait_with_output().expect("its end");
        let text = String::from_utf8(done.stdout).expect("text");
        let hex = text.trim().rsplit(' ').next().expect("a sum");
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        use base64::Engine as _;
        let expected = base64::engine::general_purpose::STANDARD.encode(bytes);
        assert_eq!(self.header("webhook-signature"), format!("v1,{expected}"));
    }
}

/// A receiver that answers as it is told: by status, or not at all.
struct Receiver {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    /// The answers to come; the last one stays.
    answers: Vec<Option<String>>,
    got: Vec<Got>,
    /// Connections that get no answer.
    held: Vec<TcpStream>,
}

impl Receiver {
    fn new(answers: &[Option<&str>]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let answers = answers.iter().map(|answer| answer.map(str::to_owned)).collect();
        let state = State { answers, got: Vec::new(), held: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                let stream = stream.expect("a connection");
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, state }
    }

    fn well() -> Self {
        Self::new(&[Some("204 No Content")])
    }

    fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    fn answer(&self, answer: Option<&str>) {
        self.state.lock().expect("no panic inside").answers = vec![answer.map(str::to_owned)];
    }

    fn got(&self) -> Vec<Got> {
        self.state.lock().expect("no panic inside").got.clone()
    }

    /// Waits until it got so many different events.
    fn gets(&self, count: usize) -> Vec<Got> {
        until("the webhook to be told", || {
            let got = self.got();
            (ids(&got).len() >= count).then_some(got)
        })
    }
}

fn ids(got: &[Got]) -> BTreeSet<String> {
    got.iter().map(|got| got.header("webhook-id").to_owned()).collect()
}

fn kinds(got: &[Got]) -> Vec<String> {
    got.iter().map(Got::kind).collect()
}

/// Serves one connection, request by request.
fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    loop {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return,
            }
        }
        let head = String::from_utf8(head).expect("text");
        let length = head.lines().find_map(|line| {
            line.to_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
        });
        let mut body = vec![0; length.expect("a length")];
        stream.read_exact(&mut body).expect("a body");
        let body = String::from_utf8(body).expect("text");
        let mut state = state.lock().expect("no panic inside");
        state.got.push(Got { head, body });
        let answer = match state.answers.len() {
            1 => state.answers[0].clone(),
            _ => state.answers.remove(0),
        };
        let Some(answer) = answer else {
            state.held.push(stream);
            return;
        };
        drop(state);
        let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// A service that tells these, on loopback, with short pauses.
fn telling(home: &Home, receivers: &[&Receiver]) -> Serve {
    let urls: Vec<String> = receivers.iter().map(|receiver| receiver.url()).collect();
    let text = "[webhooks]\nallow = ['127.0.0.0/8']\ntimeout = '1s'\npause = '100ms'\n";
    std::fs::write(home.data().join("config.toml"), text).expect("written");
    let env = [("HOLM_WEBHOOK_URLS", &*urls.join(",")), ("HOLM_WEBHOOK_SECRETS", SECRET)];
    home.serve(&[], &env)
}

/// One sandbox from its beginning to its end; its id.
fn life(serve: &Serve) -> String {
    let session = serve.session();
    let made = serve.call(&session, "create_sandbox", json!({"name": "told"}));
    let id = made.ok()["sandbox_id"].as_str().expect("an id").to_owned();
    serve.call(&session, "extend_sandbox", json!({"sandbox_id": id, "additional_minutes": 5})).ok();
    serve.call(&session, "destroy_sandbox", json!({"sandbox_id": id})).ok();
    id
}

const LIFE: [&str; 4] =
    ["sandbox.created", "sandbox.ready", "sandbox.extended", "sandbox.destroyed"];

fn what_happens_is_told_and_signed(home: &Home) {
    let receiver = Receiver::well();
    let serve = telling(home, &[&receiver]);
    let id = life(&serve);
    let got = receiver.gets(4);
    assert_eq!(kinds(&got), LIFE);
    for got in &got {
        got.verify();
        assert!(got.head.starts_with(&format!("POST {PATH} HTTP/1.1\r\n")), "{got:?}");
        assert_eq!(got.header("content-type"), "application/json");
        let data = &got.json()["data"];
        assert_eq!((&data["sandbox_id"], &data["name"]), (&json!(id), &json!("told")));
    }
    let last = &got[3].json()["data"];
    assert_eq!(last["ended_reason"], "destroyed");
    assert!(!serve.stderr().contains("x-marker-x"), "{}", serve.stderr());
    assert!(!serve.stderr().contains("eHh4"), "{}", serve.stderr());
    serve.end();
}

fn failures_are_told_again_under_the_same_id(home: &Home) {
    let receiver = Receiver::new(&[Some("500 Oops"), None, Some("429 Slow Down"), Some("200 OK")]);
    let serve = telling(home, &[&receiver]);
    life(&serve);
    // The first three attempts fail: by status, by silence, by status.
    let got = until("all to be told", || {
        let got = receiver.got();
        (got.len() >= 7).then_some(got)
    });
    assert_eq!(ids(&got).len(), 4);
    got.iter().for_each(Got::verify);
    for got in &got {
        let same = receiver.got();
        let mut same =
            same.iter().filter(|other| other.header("webhook-id") == got.header("webhook-id"));
        assert!(same.all(|other| other.body == got.body), "an id is one event");
    }
    serve.end();
}

fn nothing_is_lost_by_a_kill(home: &Home) {
    let receiver = Receiver::new(&[None]);
    let mut serve = telling(home, &[&receiver]);
    let id = life(&serve);
    receiver.gets(1);
    serve.signal(Signal::KILL);
    serve.wait();
    receiver.answer(Some("200 OK"));
    let serve = telling(home, &[&receiver]);
    let got = receiver.gets(4);
    let told: BTreeSet<String> = got.iter().map(Got::kind).collect();
    assert_eq!(told, LIFE.map(str::to_owned).into());
    assert!(got.iter().all(|got| got.json()["data"]["sandbox_id"] == *id));
    serve.end();
}

fn one_that_never_answers_holds_nobody_up(home: &Home) {
    let (silent, well) = (Receiver::new(&[None]), Receiver::well());
    let serve = telling(home, &[&silent, &well]);
    for _ in 0..5 {
        life(&serve);
    }
    assert_eq!(kinds(&well.gets(20)), LIFE.repeat(5));
    // An attempt that still waits does not hold up the end either.
    serve.end();
}

fn private_addresses_are_refused_unless_allowed(home: &Home) {
    let receiver = Receiver::well();
    let env = [("HOLM_WEBHOOK_URLS", &*receiver.url()), ("HOLM_WEBHOOK_SECRETS", SECRET)];
    let serve = home.serve(&[], &env);
    life(&serve);
    until("the refusal in the log", || {
        serve.stderr().contains("has no address that may be reached").then_some(())
    });
    assert!(!serve.stderr().contains("x-marker-x"), "{}", serve.stderr());
    serve.end();
    assert!(receiver.got().is_empty());
    // Kept meanwhile, and told when it may be.
    let serve = telling(home, &[&receiver]);
    receiver.gets(4);
    serve.end();
}

fn redirects_are_refusals(home: &Home) {
    let other = Receiver::well();
    let location = format!("302 Found\r\nlocation: {}", other.url());
    let receiver = Receiver::new(&[Some(&location)]);
    let serve = telling(home, &[&receiver]);
    life(&serve);
    receiver.gets(1);
    until("another attempt", || (receiver.got().len() > ids(&receiver.got()).len()).then_some(()));
    assert!(other.got().is_empty());
    serve.end();
}

fn wrong_settings_are_said(home: &Home) {
    let check = |urls: &str, secrets: &str, part: &str| {
        let mut command = home.command();
        command.args(["serve", "--port", "0"]);
        command.env("HOLM_WEBHOOK_URLS", urls).env("HOLM_WEBHOOK_SECRETS", secrets);
        let exit = crate::common::finish(command, b"");
        assert_eq!((exit.code(), &*exit.out()), (Some(2), ""), "{}", exit.err());
        assert!(exit.err().contains(part), "{}", exit.err());
        assert!(!exit.err().contains("x-marker-x"), "{}", exit.err());
    };
    check("https://a.example/x-marker-x", "", "HOLM_WEBHOOK_SECRETS");
    check("https://a.example/x-marker-x", "x-marker-x", "HOLM_WEBHOOK_SECRETS");
    check("a.example/x-marker-x", SECRET, "HOLM_WEBHOOK_URLS");
}
