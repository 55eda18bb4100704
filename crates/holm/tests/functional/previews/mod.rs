//! Previews of a real service: real programs in real sandboxes, and visitors that say what browsers
//! say, and what they never would.

mod access;
mod cases;
mod crowd;
mod direct;
mod life;
mod pauses;
mod proxy;
mod remote;
mod second;
mod secure;
mod websocket;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::common::{Answer, Client, GUARD, Value, json, receive, until};

/// What runs in the sandboxes.
const PROGRAM: &str = include_str!("program.py");

/// A sandbox with servers in it.
struct Bed<'a> {
    client: &'a Client,
    id: String,
}

/// An exposed port, as its visitors have it.
struct Shown {
    /// Where previews are.
    address: SocketAddr,
    /// With the port.
    host: String,
    answer: Value,
}

impl<'a> Bed<'a> {
    fn new(client: &'a Client) -> Self {
        Self::with(client, &json!({}))
    }

    fn with(client: &'a Client, wanted: &Value) -> Self {
        let made = client.rest("POST", "/v1/sandboxes", wanted);
        assert_eq!(made.status, 201, "{made:?}");
        let id = made.json()["id"].as_str().expect("an id").to_owned();
        let bed = Self { client, id };
        let file = json!({"path": "program.py", "content": PROGRAM});
        assert!(bed.ask("PUT", "/files", &file).status < 300);
        bed
    }

    fn ask(&self, method: &str, below: &str, body: &Value) -> Answer {
        self.client.rest(method, &format!("/v1/sandboxes/{}{below}", self.id), body)
    }

    fn digits(&self) -> &str {
        self.id.strip_prefix("sbx_").expect("an id")
    }

    /// Starts servers at `port@address` and waits until they listen.
    fn start(&self, places: &[&str]) {
        let command = format!("exec python3 program.py {}", places.join(" "));
        let body = json!({"command": command, "background": true});
        let ran = self.ask("POST", "/exec", &body);
        assert_eq!(ran.status, 202, "{ran:?}");
        for place in places {
            let (port, address) = place.split_once('@').expect("a place");
            let address = match address {
                "0.0.0.0" => "127.0.0.1",
                "::" => "::1",
                other => other,
            };
            let probe = format!(
                "python3 -c 'import socket; socket.create_connection((\"{address}\", {port}), 1)'"
            );
            until("it listens", || {
                let ran = self.ask("POST", "/exec", &json!({"command": probe})).json();
                (ran["exit_code"] == 0).then_some(())
            });
        }
    }

    fn stop(&self) {
        let run = |command: &str| {
            let ran = self.ask("POST", "/exec", &json!({"command": command})).json();
            ran["exit_code"].as_i64().expect("a code")
        };
        assert_eq!(run("pkill -KILL -f '[p]rogram.py'"), 0);
        // A killed one has ended a moment later.
        until("it has ended", || (run("pgrep -f '[p]rogram.py'") == 1).then_some(()));
    }

    fn expose(&self, body: &Value) -> Shown {
        let exposed = self.ask("POST", "/ports", body);
        assert_eq!(exposed.status, 200, "{exposed:?}");
        Shown::of(self.client.address, exposed.json())
    }

    fn public(&self, port: u16) -> Shown {
        self.expose(&json!({"port": port, "public": true}))
    }

    fn destroy(&self) {
        assert_eq!(self.ask("DELETE", "", &Value::Null).status, 200);
    }
}

impl Shown {
    fn of(address: SocketAddr, answer: Value) -> Self {
        let url = answer["url"].as_str().expect("a URL");
        let host = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/'));
        Self { address, host: host.expect("a URL of a host").to_owned(), answer }
    }

    fn token(&self) -> &str {
        self.answer["token"].as_str().expect("a token")
    }

    /// What follows the host in its link.
    fn link(&self) -> String {
        let link = self.answer["link"].as_str().expect("a link");
        let path = link.strip_prefix(&format!("http://{}", self.host)).expect("of its host");
        path.to_owned()
    }

    /// Sends a head and gives the connection.
    fn open(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> TcpStream {
        open(self.address, &self.host, method, path, headers)
    }

    /// A request and its whole answer.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut headers = headers.to_vec();
        headers.push(("connection", "close"));
        receive(self.open(method, path, &headers))
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[])
    }

    /// What the program has seen of a request.
    fn seen(&self, path: &str, headers: &[(&str, &str)]) -> Vec<(String, String)> {
        let answer = self.ask("GET", path, headers);
        assert_eq!(answer.status, 200, "{answer:?}");
        let seen = answer.json()["headers"].clone();
        let pairs: Vec<(String, String)> = serde_json::from_value(seen).expect("pairs");
        pairs.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect()
    }
}

/// Sends a head and gives the connection.
fn open(
    address: SocketAddr,
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(GUARD)).expect("a time");
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    stream
}

/// Reads until the text has this in it.
fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut byte = [0; 1];
    while !text.contains(wanted) {
        let read = stream.read(&mut byte).expect("more in time");
        assert_eq!(read, 1, "no more after {text:?}");
        text.push(char::from(byte[0]));
    }
    text
}

/// Everything until the end, whichever it is.
fn rest_of(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end too.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
