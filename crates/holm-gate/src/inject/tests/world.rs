//! A gate between the two.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::{Injection, Opened, Secret, open};
use super::host::{Authority, Host, Say, Seen};
use crate::http::Stream;
use crate::limits::Limits;
use crate::policy::Policies;
use crate::state::State;
use crate::tcp::Origin;
use crate::tls::Ca;
use crate::uplink::{Uplink, UplinkOptions};

pub(crate) const NAME: &str = "api.example";
pub(crate) const PLACEHOLDER: &str = "holm-placeholder";
pub(crate) const SECRET: &str = "s3cr3t-value";

/// A port that no test listens on: the site that a connection is for, not what is dialled.
const TLS_PORT: u16 = 443;

static NUMBER: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct World {
    pub(crate) state: Arc<State>,
    pub(crate) host: Host,
    ca: Arc<Ca>,
    directory: PathBuf,
}

impl Drop for World {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.directory);
    }
}

pub(crate) fn injection(plain: bool) -> Injection {
    let hosts = vec![NAME.parse().expect("a rule")];
    Injection::new(hosts, PLACEHOLDER.into(), Secret::new(SECRET), &[], plain).expect("one")
}

impl World {
    /// A host with a certificate that is trusted.
    pub(crate) async fn new(script: impl Fn(&Seen) -> Say + Send + Sync + 'static) -> Self {
        let authority = Authority::new();
        let host = Host::start(Some(authority.config(NAME)), script).await;
        Self::with(host, &authority, true)
    }

    /// One that is spoken to plainly, with a secret that may be used there, or not.
    pub(crate) async fn plain(
        allowed: bool,
        script: impl Fn(&Seen) -> Say + Send + Sync + 'static,
    ) -> Self {
        Self::with(Host::start(None, script).await, &Authority::new(), allowed)
    }

    pub(crate) fn with(host: Host, trusted: &Authority, plain: bool) -> Self {
        Self::within(host, trusted, plain, Limits::default())
    }

    pub(crate) fn within(host: Host, trusted: &Authority, plain: bool, limits: Limits) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("holm-gate-inject-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).expect("a directory");
        let trust = directory.join("trust.pem");
        std::fs::write(&trust, &trusted.pem).expect("a file");
        let ca = Arc::new(Ca::load_or_create(&directory).expect("an authority"));
        let options = UplinkOptions {
            ca: Some(Arc::clone(&ca)),
            trust: Some(trust),
            limits,
            ..UplinkOptions::default()
        };
        let uplink = Uplink::new(options).expect("an uplink");
        let state = Arc::new(State::new(uplink, "somebody", Origin::Kernel, &Policies::default()));
        state.injections.set(vec![injection(plain)]).expect("set");
        Self { state, host, ca, directory }
    }

    /// The sandbox's end of a connection, and how the gate's work on it ends.
    pub(crate) fn connect(&self, tls: bool) -> (DuplexStream, JoinHandle<std::io::Result<()>>) {
        let (near, far) = duplex(64 * 1024);
        let port = if tls { TLS_PORT } else { 80 };
        let opened = Opened {
            host: NAME.parse().expect("a name"),
            address: ([203, 0, 113, 7], port).into(),
            tls,
        };
        let (state, target) = (Arc::clone(&self.state), self.host.address);
        let work =
            async move { open(&state, far, opened, || Box::pin(TcpStream::connect(target))).await };
        (near, tokio::spawn(work))
    }

    /// A client that trusts the gate.
    pub(crate) async fn secured(&self) -> TlsStream<DuplexStream> {
        let (near, _work) = self.connect(true);
        let trusted = self.ca.certificate_pem();
        secure(near, trusted, NAME).await.expect("a connection")
    }

    /// Everything that the gate tells, to look for what it must not.
    pub(crate) fn told(&self) -> String {
        format!("{:?} {:?}", self.state, self.state.log.read())
    }
}

/// A client that trusts these certificates.
pub(crate) async fn secure<S: Stream>(
    stream: S,
    trusted: &str,
    name: &'static str,
) -> std::io::Result<TlsStream<S>> {
    let mut store = RootCertStore::empty();
    let der = CertificateDer::from_pem_slice(trusted.as_bytes()).expect("a certificate");
    store.add(der).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from(name).expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}
