//! A client of HTTP that is written here, so that it can also say what no library says.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::mcp::GUARD;
use super::result::Tool;

/// Somebody who uses a service.
#[derive(Debug, Clone)]
pub struct Client {
    /// Where it listens.
    pub address: SocketAddr,
    /// The key that requests carry when they bring no credential of their own.
    pub key: Option<String>,
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

/// An id that no request of this process had yet: one in flight cannot be used again.
pub fn fresh_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(100);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Client {
    /// Somebody else.
    pub fn with_key(&self, key: impl Into<String>) -> Self {
        Self { address: self.address, key: Some(key.into()) }
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

    /// A request of REST with a JSON body, or none.
    pub fn rest(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.ask(method, path, &[("content-type", "application/json")], &body)
    }

    /// A new session.
    pub fn session(&self) -> String {
        let params = json!({"protocolVersion": "2025-11-25"});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        self.post(&[], &body).session()
    }

    /// A tool call that stands for itself, without a session.
    pub fn stateless(&self, tool: &str, arguments: &Value) -> Answer {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", tool),
        ];
        self.post(&headers, &body)
    }

    /// Starts a tool call of a session.
    pub fn start(&self, session: &str, tool: &str, arguments: Value) -> TcpStream {
        self.start_with(session, fresh_id(), tool, arguments)
    }

    /// The same under this id, by which it can be cancelled.
    pub fn start_with(&self, session: &str, id: u64, tool: &str, arguments: Value) -> TcpStream {
        let params = json!({"name": tool, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.send("POST", "/mcp", &[("mcp-session-id", session)], &body.to_string())
    }

    /// A tool call of a session to its end.
    pub fn call(&self, session: &str, tool: &str, arguments: Value) -> Tool {
        receive(self.start(session, tool, arguments)).tool()
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
