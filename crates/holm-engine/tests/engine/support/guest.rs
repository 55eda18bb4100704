//! Scripted guests on a real socket: honest ones that understand a few words, and hostile ones.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use holm_wire::connect::{self, Code};
use holm_wire::guest::{
    Captured, FileWritten, ListTreeRequest, ListTreeResponse, Outcome, Probe, RunRequest,
    RunResponse, TreeEntry,
};
use holm_wire::{background, paths, process};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// How a guest behaves once it was configured and measured (before that all behave).
#[derive(Clone, Debug, Default)]
pub enum Manner {
    /// Does what it should.
    #[default]
    Honest,
    /// Takes requests and never answers.
    Silent,
    /// Accepts and closes at once.
    HangsUp,
    /// Answers these bytes to everything, then keeps the connection open.
    Says(Vec<u8>),
    /// Answers a head and then these bytes again and again.
    Floods(Vec<u8>, Vec<u8>),
    /// Answers a head, then one byte a second.
    Drips(Vec<u8>),
}

/// What a new guest is like.
#[derive(Clone, Debug, Default)]
pub struct Guest {
    pub manner: Manner,
    pub configure_delay: Duration,
    pub probe: Probe,
    /// Programs that it says it has.
    pub programs: Vec<&'static str>,
    /// Writes below these directories fail with this.
    pub refuses: Vec<(&'static str, connect::Error)>,
}

/// A file's bytes, and the mode that was given with them.
type Stored = (Vec<u8>, Option<u32>);

pub struct FakeGuest {
    task: JoinHandle<()>,
    pub shared: Arc<Shared>,
}

#[derive(Default)]
pub struct Shared {
    kind: Guest,
    oom_kills: Arc<AtomicU64>,
    pub files: Mutex<BTreeMap<String, Stored>>,
    pub env: Mutex<BTreeMap<String, String>>,
    pub image: Mutex<Option<holm_wire::guest::Image>>,
    pub last_run: Mutex<RunRequest>,
    pub runs: AtomicUsize,
    /// Commands that ended because nobody waited any more.
    pub dropped: AtomicUsize,
    configured: AtomicUsize,
}

impl FakeGuest {
    pub fn start(socket: &Path, kind: Guest, oom_kills: Arc<AtomicU64>) -> Self {
        let listener = UnixListener::bind(socket).expect("bind");
        let shared = Arc::new(Shared { kind, oom_kills, ..Shared::default() });
        let state = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&state)));
            }
        });
        Self { task, shared }
    }

    /// Ends it and every connection.
    pub fn stop(&self) {
        self.task.abort();
    }
}

async fn serve(stream: UnixStream, state: Arc<Shared>) {
    let hostile = !matches!(state.kind.manner, Manner::Honest);
    // Configure comes first; a hostile user takes the guest over after it.
    if hostile && state.configured.load(Ordering::SeqCst) >= 1 {
        return misbehave(stream, &state.kind.manner).await;
    }
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(answer(request, state).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    // One request on a connection of a guest that turns hostile later.
    http.keep_alive(!hostile);
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn misbehave(mut stream: UnixStream, manner: &Manner) {
    if matches!(manner, Manner::HangsUp) {
        return;
    }
    let mut request = [0; 4096];
    let _ = stream.read(&mut request).await;
    let forever = std::future::pending::<()>;
    match manner {
        Manner::Honest | Manner::HangsUp | Manner::Silent => forever().await,
        Manner::Says(bytes) => {
            let _ = stream.write_all(bytes).await;
            forever().await;
        }
        Manner::Floods(head, bytes) => {
            let _ = stream.write_all(head).await;
            while stream.write_all(bytes).await.is_ok() {}
        }
        Manner::Drips(head) => {
            let _ = stream.write_all(head).await;
            while stream.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

type Reply = Response<Full<Bytes>>;

fn json<T: serde::Serialize>(value: &T) -> Reply {
    let body = serde_json::to_vec(value).expect("serializable");
    Response::new(Full::new(Bytes::from(body)))
}

fn refuse(code: Code, text: &str) -> Reply {
    failure(&connect::Error::new(code, text))
}

fn failure(error: &connect::Error) -> Reply {
    let mut reply = json(error);
    *reply.status_mut() = hyper::StatusCode::from_u16(error.code.http_status()).expect("a status");
    reply
}

async fn answer(request: Request<Incoming>, state: Arc<Shared>) -> Reply {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let query = query(head.uri.query().unwrap_or_default());
    match (&head.method, head.uri.path()) {
        (_, paths::guest::CONFIGURE) => {
            tokio::time::sleep(state.kind.configure_delay).await;
            state.configured.fetch_add(1, Ordering::SeqCst);
            let configure: holm_wire::guest::Configure = serde_json::from_slice(&body).unwrap();
            *state.env.lock().unwrap() = configure.env;
            *state.image.lock().unwrap() = configure.image;
            let measured = state.kind.probe.clone();
            json(&holm_wire::guest::Configured { measured })
        }
        (_, paths::guest::RUN) => run(serde_json::from_slice(&body).unwrap(), &state).await,
        (_, paths::guest::LIST_TREE) => list(&serde_json::from_slice(&body).unwrap(), &state),
        (_, paths::filesystem::STAT) => json(&holm_wire::filesystem::EntryResponse::default()),
        (_, paths::filesystem::REMOVE) => {
            let asked: holm_wire::filesystem::PathRequest = serde_json::from_slice(&body).unwrap();
            let below = format!("{}/", asked.path);
            state.files.lock().unwrap().retain(|path, _| !path.starts_with(&below));
            json(&process::Empty {})
        }
        (_, paths::guest::START_BACKGROUND) => {
            json(&background::Started { id: "cmd_1".into(), pid: 77 })
        }
        (_, paths::guest::GET_BACKGROUND) => {
            let asked: background::GetRequest = serde_json::from_slice(&body).unwrap();
            if asked.id != "cmd_1" {
                return refuse(Code::NotFound, "no such command");
            }
            let all = "tick é\n".as_bytes();
            let from = usize::try_from(asked.stdout_from).map_or(all.len(), |n| n.min(all.len()));
            let bytes = all[from..].to_vec();
            let total = all.len() as u64;
            let stdout = background::Part { from: from as u64, bytes, total };
            json(&background::Command { id: asked.id, pid: 77, stdout, ..Default::default() })
        }
        (_, paths::process::START) => {
            let event = process::ProcessEvent::Start(process::StartEvent { pid: 77 });
            let event = serde_json::to_vec(&process::EventResponse { event }).unwrap();
            let mut frames = connect::envelope(0, &event).to_vec();
            frames.extend_from_slice(&connect::envelope(connect::FLAG_END, b"{}"));
            Response::new(Full::new(Bytes::from(frames)))
        }
        (&Method::PUT, paths::guest::FILE) => put(&query, body.to_vec(), &state),
        (&Method::GET, paths::guest::FILE) => get(&query, &state),
        (_, other) => refuse(Code::Unimplemented, other),
    }
}

fn put(query: &HashMap<String, String>, body: Vec<u8>, state: &Shared) -> Reply {
    let path = query["path"].clone();
    let refused = state.kind.refuses.iter().find(|(directory, _)| path.starts_with(directory));
    if let Some((_, error)) = refused {
        return failure(error);
    }
    let mode = query.get("mode").map(|mode| u32::from_str_radix(mode, 8).unwrap());
    let size = body.len() as u64;
    state.files.lock().unwrap().insert(path.clone(), (body, mode));
    json(&FileWritten { path, size })
}

fn get(query: &HashMap<String, String>, state: &Shared) -> Reply {
    let files = state.files.lock().unwrap();
    let Some((bytes, _)) = files.get(&query["path"]) else {
        return refuse(Code::NotFound, "no such file");
    };
    let number = |name: &str| query[name].parse::<usize>().unwrap();
    let start = number("offset").min(bytes.len());
    let end = match number("limit") {
        0 => bytes.len(),
        limit => bytes.len().min(start.saturating_add(limit)),
    };
    let part = Bytes::copy_from_slice(&bytes[start..end]);
    let reply = Response::builder().header("x-holm-size", bytes.len()).header("x-holm-mode", "644");
    reply.body(Full::new(part)).unwrap()
}

fn list(request: &ListTreeRequest, state: &Shared) -> Reply {
    let files = state.files.lock().unwrap();
    let wanted = |path: &&String| path.as_str() > request.after.as_str();
    let mut paths: Vec<&String> = files.keys().filter(wanted).collect();
    let limit = request.limit as usize;
    let more = paths.len() > limit;
    paths.truncate(limit);
    let next = if more { paths.last().map(|path| (*path).clone()) } else { None };
    let entry = |path: &&String| TreeEntry {
        path: (*path).clone(),
        r#type: "file".to_owned(),
        size: files[*path].0.len() as u64,
        ..TreeEntry::default()
    };
    let entries = paths.iter().map(entry).collect();
    json(&ListTreeResponse { entries, next, unreadable: Vec::new() })
}

fn query(text: &str) -> HashMap<String, String> {
    let decode = |value: &str| {
        let (mut out, bytes) = (Vec::new(), value.as_bytes());
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] == b'%' {
                out.push(u8::from_str_radix(&value[at + 1..at + 3], 16).unwrap());
                at += 3;
            } else {
                out.push(bytes[at]);
                at += 1;
            }
        }
        String::from_utf8(out).unwrap()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), decode(value))).collect()
}

/// Counts a command whose caller went away.
struct Running<'a>(&'a Shared, bool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn run(request: RunRequest, state: &Shared) -> Reply {
    state.runs.fetch_add(1, Ordering::SeqCst);
    *state.last_run.lock().unwrap() = request.clone();
    let mut running = Running(state, false);
    let reply = understand(&request, state).await;
    running.1 = true;
    match reply {
        Ok(response) => json(&response),
        Err((code, text)) => refuse(code, text),
    }
}

fn wrote(text: impl Into<Vec<u8>>) -> RunResponse {
    let head = text.into();
    let total = head.len() as u64;
    let stdout = Captured { head, tail: Vec::new(), total };
    RunResponse { stdout, ..RunResponse::default() }
}

/// `word argument` as a shell line, or an interpreter with a script that prints itself.
async fn understand(
    request: &RunRequest,
    state: &Shared,
) -> Result<RunResponse, (Code, &'static str)> {
    let argv: Vec<&str> = request.argv.iter().map(String::as_str).collect();
    let line = match argv.as_slice() {
        ["/bin/sh", "-c", line] => *line,
        [_, .., script] => {
            let files = state.files.lock().unwrap();
            let (text, _) = files.get(*script).ok_or((Code::NotFound, "no script"))?;
            let mut response = wrote(text.clone());
            let limit = usize::try_from(request.stdout_limit).unwrap();
            response.stdout.head.truncate(limit);
            return Ok(response);
        }
        _ => return Err((Code::InvalidArgument, "what?")),
    };
    let (word, argument) = line.split_once(' ').unwrap_or((line, ""));
    let number = || argument.parse::<i32>().unwrap_or(0);
    match word {
        "echo" => Ok(wrote(argument)),
        "true" => Ok(RunResponse::default()),
        "for" => Ok(wrote(state.kind.programs.join("\n"))),
        "exit" => Ok(RunResponse { exit_code: number(), ..RunResponse::default() }),
        "kill" => Ok(killed(number())),
        "oom" => {
            state.oom_kills.fetch_add(1, Ordering::SeqCst);
            Ok(killed(9))
        }
        "survive" => {
            state.oom_kills.fetch_add(1, Ordering::SeqCst);
            Ok(RunResponse { exit_code: number(), ..RunResponse::default() })
        }
        "full" => Err((Code::ResourceExhausted, "no process left for another command")),
        "flood" => {
            let half = usize::try_from(request.stdout_limit / 2).unwrap();
            let (head, tail) = (vec![b'h'; half], vec![b't'; half]);
            let stdout = Captured { head, tail, total: 1 << 30 };
            Ok(RunResponse { stdout, ..RunResponse::default() })
        }
        "sleep" => {
            let asked = Duration::from_secs(argument.parse().unwrap());
            let limit = Duration::from_millis(request.timeout_ms);
            tokio::time::sleep(asked.min(limit)).await;
            let mut response = wrote("so far");
            if asked > limit {
                response.outcome = Outcome::TimedOut;
                response.exit_code = 137;
            }
            Ok(response)
        }
        _ => Err((Code::InvalidArgument, "what?")),
    }
}

fn killed(signal: i32) -> RunResponse {
    RunResponse {
        outcome: Outcome::Signaled,
        exit_code: 128 + signal,
        signal: Some(signal),
        ..RunResponse::default()
    }
}
