//! A running `holm serve`, and a client with one kept connection to it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Result;
use crate::running::Running;
use crate::workspace::Workspace;

/// What failed, as text.
pub fn failed(what: &str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{what}: {error}")
}

/// A running service, and one kept connection to it.
pub struct Service {
    child: Running,
    key: String,
    stream: BufReader<TcpStream>,
}

impl Service {
    /// Starts it, with room for `sandboxes`.
    pub fn start(holm: &Path, at: &Workspace, sandboxes: usize) -> Result<Self> {
        let data = at.root.join("served");
        let child = Command::new(holm)
            .args(["serve", "--port", "0", "--on-stop", "end", "--data-dir"])
            .arg(&data)
            .args(["--max-sandboxes", &sandboxes.to_string()])
            .env("HOLM_RUNTIME_DIR", at.root.join("run-served"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed("holm serve"))?;
        let mut child = Running(child);
        let mut announced = BufReader::new(child.0.stdout.take().ok_or("no stdout")?);
        let mut line = String::new();
        announced.read_line(&mut line).map_err(failed("holm serve"))?;
        let address = line.split("http://").nth(1).and_then(|url| url.split('/').next());
        let address = address.ok_or(format!("no address in {line:?}"))?;
        let stream = TcpStream::connect(address).map_err(failed(address))?;
        stream.set_nodelay(true).map_err(failed(address))?;
        let key = fs::read_to_string(data.join("first-key")).map_err(failed("first-key"))?;
        let stream = BufReader::with_capacity(1 << 20, stream);
        Ok(Self { child, key: key.trim().to_owned(), stream })
    }

    fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Result<()> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.key,
            body.len()
        );
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes()).map_err(failed(path))?;
        stream.write_all(body).map_err(failed(path))
    }

    /// Status and length of the answer.
    fn head(&mut self) -> Result<(u16, usize)> {
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).map_err(failed("an answer"))?;
            if line.trim().is_empty() {
                return Ok((status, length));
            }
            if let Some(code) = line.strip_prefix("HTTP/1.1 ") {
                status = code[..3].parse().map_err(|_| line.clone())?;
            }
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().map_err(|_| line.clone())?;
            }
        }
    }

    /// A request with JSON, and the JSON of its answer.
    pub fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Value> {
        self.send(method, path, body)?;
        let (status, length) = self.head()?;
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).map_err(failed(path))?;
        let text = String::from_utf8_lossy(&answer);
        if !(200..300).contains(&status) {
            return Err(format!("{method} {path}: {status} {text}"));
        }
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    /// Takes a file and throws it away; gives its length.
    pub fn download(&mut self, path: &str, buffer: &mut [u8]) -> Result<usize> {
        self.send("GET", path, b"")?;
        let (status, length) = self.head()?;
        let mut left = length;
        while left > 0 {
            let most = left.min(buffer.len());
            let read = self.stream.read(&mut buffer[..most]).map_err(failed(path))?;
            if read == 0 {
                return Err(format!("{path}: cut short"));
            }
            left -= read;
        }
        if status == 200 { Ok(length) } else { Err(format!("{path}: {status}")) }
    }

    /// Stops it, and with it its sandboxes.
    pub fn end(mut self) -> Result<()> {
        self.child.ask_to_end().map_err(failed("kill"))?;
        let status = self.child.0.wait().map_err(failed("holm serve"))?;
        if status.success() { Ok(()) } else { Err(format!("holm serve ended with {status}")) }
    }

    /// Resident memory of its process in KiB.
    pub fn resident_kib(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.child.0.id());
        let text = fs::read_to_string(&path).map_err(failed(&path))?;
        let row = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = row.and_then(|row| row.split_whitespace().next()?.parse().ok());
        kib.ok_or(format!("no VmRSS in {path}"))
    }
}
