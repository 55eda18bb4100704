//! What stands between a client and its service, or in the service's place.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

/// Moves bytes until one side ends, then ends the other.
fn join(one: &TcpStream, other: &TcpStream) {
    let copy = |from: &TcpStream, to: &TcpStream| {
        let (mut from, mut to) =
            (from.try_clone().expect("a copy"), to.try_clone().expect("a copy"));
        thread::spawn(move || {
            // An error is an end like any other.
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        })
    };
    drop((copy(one, other), copy(other, one)));
}

/// An address that leads to a service, to another one later, or to none.
pub struct Pipe {
    pub address: SocketAddr,
    state: Arc<Mutex<(Option<SocketAddr>, Vec<TcpStream>)>>,
    connections: Arc<AtomicUsize>,
}

impl Pipe {
    pub fn new(target: Option<SocketAddr>) -> Self {
        let (listener, address) = listener();
        let state = Arc::new(Mutex::new((target, Vec::new())));
        let connections = Arc::<AtomicUsize>::default();
        let (shared, count) = (Arc::clone(&state), Arc::clone(&connections));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                count.fetch_add(1, Ordering::SeqCst);
                let mut state = shared.lock().expect("no panic inside");
                let target = state.0.and_then(|target| TcpStream::connect(target).ok());
                if let Some(target) = target {
                    join(&stream, &target);
                    state.1.push(stream);
                }
            }
        });
        Self { address, state, connections }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many were made.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Ends all connections and leads to another service.
    pub fn lead_to(&self, target: Option<SocketAddr>) {
        let mut state = self.state.lock().expect("no panic inside");
        state.0 = target;
        for stream in state.1.drain(..) {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// A forward proxy. Every name leads to `target`.
pub struct Proxy {
    pub address: SocketAddr,
    /// Heads of requests that it got.
    pub seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub fn new(target: SocketAddr) -> Self {
        let (listener, address) = listener();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let Some(head) = head(&mut stream) else { continue };
                let mut service = TcpStream::connect(target).expect("the service listens");
                if head.starts_with("CONNECT ") {
                    stream.write_all(b"HTTP/1.1 200 Connected\r\nx: y\r\n\r\n").expect("it reads");
                } else {
                    // As it is: services take whole URLs too.
                    service.write_all(head.as_bytes()).expect("it reads");
                }
                shared.lock().expect("no panic inside").push(head);
                join(&stream, &service);
            }
        });
        Self { address, seen }
    }

    pub fn url(&self) -> String {
        format!("http://user:pass%40word@{}", self.address)
    }

    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("no panic inside").clone()
    }
}

/// The head of a request, its end included.
fn head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

/// A peer that answers as `answer` says; nothing is a connection that ends. Each answer ends its
/// connection.
pub fn scripted(
    answer: impl Fn(&str, &serde_json::Value) -> Option<String> + Send + 'static,
) -> SocketAddr {
    let (listener, address) = listener();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let Some(head) = head(&mut stream) else { continue };
            let length = head.lines().find_map(|line| {
                line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
            });
            let mut body = vec![0; length.unwrap_or(0)];
            if stream.read_exact(&mut body).is_err() {
                continue;
            }
            let body = serde_json::from_slice(&body).unwrap_or_default();
            if let Some(answer) = answer(&head, &body) {
                // A client that left is its own affair.
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    address
}

/// An answer with a body.
pub fn reply(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// An authority of the test's own and a certificate for `holm.test` that it has signed.
pub struct Authority {
    pub file: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Authority {
    pub fn new(dir: &Path) -> Self {
        let path = |name: &str| dir.join(name);
        let openssl = |arguments: &str| {
            let mut command = Command::new("openssl");
            command.args(arguments.split(' ')).current_dir(dir);
            let done = command.output().expect("openssl is there");
            assert!(done.status.success(), "{arguments}: {done:?}");
        };
        std::fs::write(path("extensions"), "subjectAltName=DNS:holm.test\n").expect("written");
        openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca",
        );
        openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout own.key -out own.csr -subj /CN=holm.test",
        );
        openssl(
            "x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out own.pem -days 2 -extfile extensions",
        );
        Self { file: path("ca.pem"), certificate: path("own.pem"), key: path("own.key") }
    }

    /// TLS in front of a service.
    pub fn front(&self, target: SocketAddr) -> SocketAddr {
        let certificates = CertificateDer::pem_file_iter(&self.certificate).expect("a file");
        let certificates = certificates.map(|one| one.expect("a certificate")).collect();
        let key = PrivateKeyDer::from_pem_file(&self.key).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .expect("they fit");
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let (listener, address) = listener();
        listener.set_nonblocking(true).expect("a mode");
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                loop {
                    let (stream, _) = listener.accept().await.expect("a connection");
                    let acceptor = acceptor.clone();
                    tokio::spawn(async move {
                        // A client that does not trust it ends the connection.
                        let Ok(mut stream) = acceptor.accept(stream).await else { return };
                        let service = tokio::net::TcpStream::connect(target).await;
                        let mut service = service.expect("the service listens");
                        // An error is an end like any other.
                        let _ = tokio::io::copy_bidirectional(&mut stream, &mut service).await;
                    });
                }
            });
        });
        address
    }
}
