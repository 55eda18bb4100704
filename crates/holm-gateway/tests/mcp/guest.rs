//! A guest that pretends: just enough of the guest protocol for the engine to work with, and a few
//! commands whose behaviour the tests choose.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use holm_wire::guest::{
    Captured, Configured, FileWritten, ListTreeRequest, ListTreeResponse, Outcome, Probe,
    RunRequest, RunResponse, TreeEntry,
};
use holm_wire::paths;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::watch;

/// What a guest knows, shared by its connections.
#[derive(Default)]
pub struct Guest {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
}

/// Commands that run now, in all guests of a world.
pub type Running = watch::Sender<usize>;

/// Counts one running command for as long as it lives.
struct Counted<'a>(&'a Running);

impl<'a> Counted<'a> {
    fn new(running: &'a Running) -> Self {
        running.send_modify(|count| *count += 1);
        Self(running)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

struct Reply {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

impl Reply {
    fn json(value: &impl serde::Serialize) -> Self {
        Self::bytes(serde_json::to_vec(value).expect("serializable"))
    }

    fn bytes(body: Vec<u8>) -> Self {
        Self { status: 200, headers: String::new(), body }
    }

    fn error(status: u16, code: &str, message: &str) -> Self {
        let body = json!({"code": code, "message": message}).to_string().into_bytes();
        Self { status, headers: String::new(), body }
    }
}

impl Guest {
    /// Serves one connection until the peer closes it.
    pub async fn serve(
        &self,
        mut stream: UnixStream,
        running: &Running,
        gate: watch::Receiver<bool>,
    ) {
        let mut buffer = Vec::new();
        loop {
            let Some((head, body)) = read_request(&mut stream, &mut buffer).await else { return };
            let mut one = [0];
            let reply = tokio::select! {
                reply = self.answer(&head, body, running, gate.clone()) => reply,
                // Nothing is sent while a call is open, so this is the peer's end.
                _ = stream.read(&mut one) => return,
            };
            let head = format!(
                "HTTP/1.1 {} X\r\ncontent-length: {}\r\n{}\r\n",
                reply.status,
                reply.body.len(),
                reply.headers
            );
            if stream.write_all(head.as_bytes()).await.is_err()
                || stream.write_all(&reply.body).await.is_err()
            {
                return;
            }
        }
    }

    async fn answer(
        &self,
        head: &str,
        body: Vec<u8>,
        running: &Running,
        gate: watch::Receiver<bool>,
    ) -> Reply {
        let mut words = head.split_whitespace();
        let method = words.next().unwrap_or_default();
        let (path, query) =
            words.next().map_or(("", ""), |uri| uri.split_once('?').unwrap_or((uri, "")));
        match path {
            paths::guest::CONFIGURE => {
                let measured = Probe { loopback_only: true, ..Probe::default() };
                Reply::json(&Configured { measured })
            }
            paths::guest::RUN => {
                let request: RunRequest = serde_json::from_slice(&body).expect("a run request");
                let _counted = Counted::new(running);
                Reply::json(&self.run(&request, gate).await)
            }
            paths::guest::LIST_TREE => {
                let request: ListTreeRequest = serde_json::from_slice(&body).expect("a request");
                Reply::json(&self.list(&request))
            }
            paths::guest::FILE => self.file(method, query, body),
            paths::guest::START_BACKGROUND => Reply::json(&json!({"id": "cmd_1", "pid": 42})),
            paths::guest::GET_BACKGROUND => Reply::json(&json!({
                "id": "cmd_1", "pid": 42, "command": "x", "state": "exited", "exitCode": 3,
                "stdout": {"from": 0, "bytes": "b3V0Cg==", "total": 4},
            })),
            // It has no kernels.
            paths::guest::EXECUTE => Reply::error(501, "unimplemented", "no kernel"),
            // Whatever else only wants to be told that all is well.
            _ => Reply::json(&json!({})),
        }
    }

    async fn run(&self, request: &RunRequest, mut gate: watch::Receiver<bool>) -> RunResponse {
        let line = request.argv.last().cloned().unwrap_or_default();
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let mut stdout = Vec::new();
        let mut stderr = Vec::new();
        let mut exit_code = 0;
        match word {
            "echo" => stdout = format!("{rest}\n").into_bytes(),
            "printenv" => stdout = request.env.get(rest).cloned().unwrap_or_default().into_bytes(),
            "fail" => {
                exit_code = 3;
                stderr = format!("{rest}\n").into_bytes();
            }
            "bytes" => stdout = vec![b'x'; rest.parse().unwrap_or(0)],
            "binary" => stdout = vec![b'a', 0, 0xff],
            "hang" => std::future::pending::<()>().await,
            "gate" => {
                // An error means that the test is over.
                let _ = gate.wait_for(|open| *open).await;
            }
            path => match self.files.lock().expect("files").get(path) {
                // A "program" prints its own text.
                Some(text) => stdout.clone_from(text),
                None => stdout = b"python3\nbash\nsh\n".to_vec(),
            },
        }
        RunResponse {
            outcome: Outcome::Exited,
            exit_code,
            signal: None,
            stdout: captured(stdout, request.stdout_limit),
            stderr: captured(stderr, request.stderr_limit),
            duration_ms: 1,
        }
    }

    fn list(&self, request: &ListTreeRequest) -> ListTreeResponse {
        let limit = usize::try_from(request.limit).expect("a limit");
        let mut entries: Vec<TreeEntry> = self
            .files
            .lock()
            .expect("files")
            .iter()
            .filter(|(path, _)| path.starts_with(&request.path) && **path > request.after)
            .map(|(path, bytes)| TreeEntry {
                path: path.clone(),
                r#type: "file".to_owned(),
                size: bytes.len() as u64,
                mode: 0o644,
                ..TreeEntry::default()
            })
            .collect();
        let next = (entries.len() > limit).then(|| entries[limit - 1].path.clone());
        entries.truncate(limit);
        ListTreeResponse { entries, next, unreadable: Vec::new() }
    }

    fn file(&self, method: &str, query: &str, body: Vec<u8>) -> Reply {
        let value = |name: &str| {
            let pair = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
            pair.unwrap_or_default().to_owned()
        };
        let mut path = value("path");
        if !path.starts_with('/') {
            path = format!("/workspace/{path}");
        }
        let mut files = self.files.lock().expect("files");
        if method == "PUT" {
            let size = body.len() as u64;
            files.insert(path.clone(), body);
            return Reply::json(&FileWritten { path, size });
        }
        let Some(bytes) = files.get(&path) else {
            return Reply::error(404, "not_found", &format!("no such file: {path}"));
        };
        let number = |name: &str| value(name).parse::<usize>().unwrap_or(0);
        let start = number("offset").min(bytes.len());
        let end = match number("limit") {
            0 => bytes.len(),
            limit => bytes.len().min(start + limit),
        };
        let headers = format!("x-holm-size: {}\r\nx-holm-mode: 644\r\n", bytes.len());
        Reply { status: 200, headers, body: bytes[start..end].to_vec() }
    }
}

fn captured(bytes: Vec<u8>, limit: u64) -> Captured {
    let limit = usize::try_from(if limit == 0 { 1 << 20 } else { limit }).expect("a limit");
    let total = bytes.len() as u64;
    if bytes.len() <= limit {
        return Captured { head: bytes, tail: Vec::new(), total };
    }
    let tail = bytes[bytes.len() - limit / 2..].to_vec();
    Captured { head: bytes[..limit / 2].to_vec(), tail, total }
}

/// Head and body of the next request; `None` at the peer's end.
async fn read_request(stream: &mut UnixStream, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
    let uri_head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .map_or(0, |length| length.trim().parse().expect("a length"));
    while buffer.len() < end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let rest = buffer.split_off(end + length);
    let body = buffer.split_off(end);
    *buffer = rest;
    Some((uri_head, body))
}

/// So that guests can be shared by their connections.
pub type Shared = Arc<Guest>;
