//! A host of the world: it notes what it is sent, byte for byte, and answers as a test says.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// An authority of the world.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        let pem = crate::tls::pem_of(certificate.der());
        Self { pem, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn config(&self, name: &str) -> Arc<ServerConfig> {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.into()], key.into())
            .expect("a certificate");
        Arc::new(config)
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) head: String,
    /// As it came: chunks with their lengths.
    pub(crate) body: Vec<u8>,
}

impl Seen {
    /// The values of a header, in order.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.filter(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }
}

/// What to say to a request, and whether the connection goes on.
pub(crate) enum Say {
    Bytes(&'static str),
    /// And then the end of the connection.
    Last(&'static str),
    /// A body of so many bytes.
    Large(usize),
    /// A WebSocket that says everything twice.
    Socket,
}

type Script = dyn Fn(&Seen) -> Say + Send + Sync;

/// The host; dropping it ends it.
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<Mutex<usize>>,
    task: JoinHandle<()>,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Host {
    /// One that speaks TLS with these settings, or plainly.
    pub(crate) async fn start(
        tls: Option<Arc<ServerConfig>>,
        script: impl Fn(&Seen) -> Say + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket");
        let address = listener.local_addr().expect("an address");
        let log: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let connections: Arc<Mutex<usize>> = Arc::default();
        let script: Arc<Script> = Arc::new(script);
        let (seen, count) = (Arc::clone(&log), Arc::clone(&connections));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *count.lock().expect("no panic") += 1;
                tokio::spawn(connection(stream, tls.clone(), Arc::clone(&script), seen.clone()));
            }
        });
        Self { address, log, connections, task }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.log.lock().expect("no panic").clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().expect("no panic")
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    script: Arc<Script>,
    log: Arc<Mutex<Vec<Seen>>>,
) {
    let _broken = match tls {
        Some(config) => match TlsAcceptor::from(config).accept(stream).await {
            Ok(stream) => requests(stream, &*script, &log).await,
            Err(error) => Err(error),
        },
        None => requests(stream, &*script, &log).await,
    };
}

async fn requests(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    script: &Script,
    log: &Mutex<Vec<Seen>>,
) -> std::io::Result<()> {
    loop {
        let head = until(&mut stream, b"\r\n\r\n").await?;
        let mut seen = Seen { head: String::from_utf8_lossy(&head).into_owned(), body: Vec::new() };
        if let Some(length) = seen.all("content-length").first() {
            seen.body = vec![0; length.parse().expect("a length")];
            stream.read_exact(&mut seen.body).await?;
        } else if !seen.all("transfer-encoding").is_empty() {
            // Chunks end with an empty one, and trailers with an empty line.
            while !(seen.body.ends_with(b"\r\n\r\n") && seen.body.windows(3).any(|w| w == b"0\r\n"))
            {
                seen.body.push(stream.read_u8().await?);
            }
        }
        log.lock().expect("no panic").push(seen.clone());
        match script(&seen) {
            Say::Bytes(text) => stream.write_all(text.as_bytes()).await?,
            Say::Last(text) => {
                stream.write_all(text.as_bytes()).await?;
                return stream.shutdown().await;
            }
            Say::Large(length) => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
                let chunk = [b'z'; 8192];
                let mut left = length;
                while left > 0 {
                    let part = left.min(chunk.len());
                    stream.write_all(&chunk[..part]).await?;
                    left -= part;
                }
            }
            Say::Socket => {
                let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: \
                            Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n";
                stream.write_all(head.as_bytes()).await?;
                stream.flush().await?;
                loop {
                    let byte = stream.read_u8().await?;
                    stream.write_all(&[byte, byte]).await?;
                    stream.flush().await?;
                }
            }
        }
        stream.flush().await?;
    }
}

async fn until(stream: &mut (impl AsyncRead + Unpin), end: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end) {
        bytes.push(stream.read_u8().await?);
    }
    Ok(bytes)
}
