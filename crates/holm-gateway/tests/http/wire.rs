//! A client of HTTP that is written here, so that it can also say what no library says.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::world::HANG;

/// One connection.
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

impl Wire {
    pub async fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        Self { stream, buffer: Vec::new() }
    }

    /// Writes bytes as they are.
    pub async fn raw(&mut self, bytes: &[u8]) {
        let written = timeout(HANG, self.stream.write_all(bytes)).await;
        written.expect("a reading server").expect("written");
    }

    /// Writes a request with what every request has.
    pub async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let mut given: Vec<(&str, &str)> = headers.to_vec();
        if !given.iter().any(|(name, _)| *name == "host") {
            given.push(("host", "localhost"));
        }
        for (name, value) in given {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        self.raw(&bytes).await;
    }

    /// Reads more; false at the end.
    async fn more(&mut self) -> bool {
        let read = timeout(HANG, self.stream.read_buf(&mut self.buffer)).await;
        // A reset is an end too.
        read.expect("an answer in time").unwrap_or(0) > 0
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..at]).into_owned();
                self.buffer.drain(..at + 2);
                return Some(line);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            assert!(self.more().await, "the response is cut");
        }
        self.buffer.drain(..count).collect()
    }

    /// The head of a response; nothing when the server has closed the connection.
    pub async fn head(&mut self) -> Option<Reply> {
        let status = self.line().await?;
        let status = status.split(' ').nth(1).expect("a status").parse().expect("a number");
        let mut headers = HashMap::new();
        loop {
            let line = self.line().await.expect("a whole head");
            let Some((name, value)) = line.split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        Some(Reply { status, headers, body: Vec::new() })
    }

    /// A whole response.
    pub async fn reply(&mut self) -> Reply {
        let mut reply = self.head().await.expect("a response");
        match reply.header("content-length").map(str::to_owned) {
            Some(length) => reply.body = self.exactly(length.parse().expect("a length")).await,
            None => {
                while let Some(part) = self.part().await {
                    reply.body.extend(part);
                }
            }
        }
        reply
    }

    /// The next part of a body that comes in parts.
    async fn part(&mut self) -> Option<Vec<u8>> {
        let size = self.line().await?;
        let size = usize::from_str_radix(&size, 16).expect("a size");
        let part = self.exactly(size).await;
        self.exactly(2).await;
        (size > 0).then_some(part)
    }

    /// The next message on a stream of events; nothing at its end. Each event is one part here.
    pub async fn event(&mut self) -> Option<Value> {
        loop {
            let part = String::from_utf8(self.part().await?).expect("text");
            if part.starts_with(':') {
                continue;
            }
            let data = part.lines().find_map(|line| line.strip_prefix("data: "));
            return Some(serde_json::from_str(data.expect("data")).expect("JSON"));
        }
    }

    /// The next part of a stream, which must be a comment.
    pub async fn comment(&mut self) -> String {
        let part = String::from_utf8(self.part().await.expect("a part")).expect("text");
        assert!(part.starts_with(':') && part.ends_with("\n\n"), "{part:?}");
        part
    }

    /// True when the server closes the connection without another byte.
    pub async fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && !self.more().await
    }
}
