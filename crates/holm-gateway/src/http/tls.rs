//! TLS with certificate and key from files, which are read again when they change.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How often the files are looked at, at most.
const LOOK: Duration = Duration::from_secs(1);

/// TLS of a server.
pub struct Tls(TlsAcceptor);

/// Files that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct TlsError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    now: Mutex<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    pair: Arc<CertifiedKey>,
    /// What the files looked like when they were read, also where that came to nothing.
    stamps: [Stamp; 2],
    looked: Instant,
}

/// What shows that a file is another one.
type Stamp = Option<(u64, u64, i64, i64)>;

fn stamp(path: &Path) -> Stamp {
    let about = std::fs::metadata(path).ok()?;
    Some((about.ino(), about.size(), about.mtime(), about.mtime_nsec()))
}

impl Tls {
    /// Reads certificate chain and key (PEM).
    ///
    /// # Errors
    /// When they cannot be read or do not belong together.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let stamps = [stamp(certificate), stamp(key)];
        let pair = read(certificate, key)?;
        let now = Mutex::new(Loaded { pair, stamps, looked: Instant::now() });
        let files = Files { certificate: certificate.to_owned(), key: key.to_owned(), now };
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError { path: key.to_owned(), reason: error.to_string() })?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(files));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Begins TLS.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}

impl ResolvesServerCert for Files {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // Every change under the lock is one assignment: it is whole even after a panic.
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.looked.elapsed() >= LOOK {
            now.looked = Instant::now();
            let stamps = [stamp(&self.certificate), stamp(&self.key)];
            if stamps != now.stamps {
                now.stamps = stamps;
                match read(&self.certificate, &self.key) {
                    Ok(pair) => {
                        tracing::info!("the TLS certificate has changed and is in force");
                        now.pair = pair;
                    }
                    // The one before goes on; a pair that is half written is read again later.
                    Err(error) => tracing::error!(%error, "the changed TLS files are not used"),
                }
            }
        }
        Some(Arc::clone(&now.pair))
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<CertifiedKey>, TlsError> {
    let wrong = |path: &Path, reason: &dyn std::fmt::Display| TlsError {
        path: path.to_owned(),
        reason: reason.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(certificate, &error))?;
    if chain.is_empty() {
        return Err(wrong(certificate, &"there is no certificate in it"));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let pair = CertifiedKey::from_der(chain, secret, &ring::default_provider());
    pair.map(Arc::new).map_err(|error| wrong(key, &error))
}
