//! What reached the internet's servers.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A connection that a server accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The address that was dialled.
    pub to: SocketAddr,
    /// Who dialled.
    pub from: SocketAddr,
    /// The name that TLS was asked for.
    pub sni: Option<String>,
}

/// A request of HTTP.
#[derive(Debug, Clone)]
pub struct Request {
    /// The connection on which it came.
    pub connection: Connection,
    /// `GET`, `POST` …
    pub method: String,
    /// Path and query, or the whole URL where a client says it.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Length of the body.
    pub body: usize,
}

impl Request {
    /// A header by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// Everything, in the order in which it came; bounded, with counts that go on.
#[derive(Debug, Default)]
pub struct Seen {
    connections: Mutex<Vec<Connection>>,
    requests: Mutex<Vec<Request>>,
    datagrams: Mutex<Vec<(SocketAddr, SocketAddr)>>,
    accepted: AtomicU64,
    open: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
}

/// Most entries of a list.
const MOST: usize = 20_000;

fn push<T>(list: &Mutex<Vec<T>>, item: T) {
    let mut list = list.lock().expect("no panic inside");
    if list.len() < MOST {
        list.push(item);
    }
}

impl Seen {
    /// Connections, those of the proxy included.
    pub fn connections(&self) -> Vec<Connection> {
        self.connections.lock().expect("no panic inside").clone()
    }

    /// Requests of HTTP, by whatever way.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic inside").clone()
    }

    /// Datagrams other than questions for names: to, from.
    pub fn datagrams(&self) -> Vec<(SocketAddr, SocketAddr)> {
        self.datagrams.lock().expect("no panic inside").clone()
    }

    /// Connections that were ever accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Connections that are open now.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::SeqCst)
    }

    /// Bytes that servers read from connections, below TLS.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::SeqCst)
    }

    /// Bytes that servers wrote to connections, below TLS.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::SeqCst)
    }

    pub(crate) fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        self.open.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn connection(&self, connection: &Connection) {
        push(&self.connections, connection.clone());
    }

    pub(crate) fn close(&self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn request(&self, request: Request) {
        push(&self.requests, request);
    }

    pub(crate) fn datagram(&self, to: SocketAddr, from: SocketAddr) {
        push(&self.datagrams, (to, from));
    }
}
