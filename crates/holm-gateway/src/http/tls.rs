//! TLS with certificate and key from files, which are read again when they change; below the domain of
//! previews with one that somebody gets and hands over ([`Wildcard`]). Where there is none for the name
//! that a client asks for, there is no connection.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::preview::Domain;
use crate::preview::host::Claim;

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

/// A certificate for everything below a domain, once there is one.
#[derive(Debug)]
pub struct Wildcard {
    domain: Domain,
    pair: RwLock<Option<Arc<CertifiedKey>>>,
}

impl Wildcard {
    /// None yet.
    #[must_use]
    pub fn new(domain: Domain) -> Arc<Self> {
        Arc::new(Self { domain, pair: RwLock::new(None) })
    }

    /// Puts one in force, for connections that begin from now on, if it is for these names and `judge`
    /// says nothing against it, which has the certificate itself (DER). The rest is PEM.
    ///
    /// # Errors
    /// Why it cannot be used; the one before stays.
    pub fn set<T>(
        &self,
        chain: &str,
        key: &str,
        judge: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T, String> {
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| error.to_string())?;
        let first = chain.first().ok_or("there is no certificate in it")?;
        self.is_for_us(first).map_err(|error| error.to_string())?;
        let judged = judge(first)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
        let key = key.map_err(|error| format!("its key: {error}"))?;
        let pair = CertifiedKey::from_der(chain, key, &ring::default_provider());
        let pair = pair.map_err(|error| error.to_string())?;
        *self.pair.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(pair));
        Ok(judged)
    }

    fn is_for_us(&self, certificate: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let name = ServerName::try_from(format!("any.{}", self.domain));
        let name = name.map_err(|error| rustls::Error::General(error.to_string()))?;
        verify_server_name(&ParsedCertificate::try_from(certificate)?, &name)
    }

    fn pair(&self) -> Option<Arc<CertifiedKey>> {
        self.pair.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Which certificate a client gets, by the name that it asks for.
#[derive(Debug)]
struct Certificates {
    files: Option<Files>,
    wildcard: Option<Arc<Wildcard>>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().unwrap_or_default();
        match &self.wildcard {
            Some(wildcard) if wildcard.domain.judge(name) != Claim::Foreign => wildcard.pair(),
            _ => self.files.as_ref().map(Files::pair),
        }
    }
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
    pub fn from_files(
        certificate: &Path,
        key: &Path,
        wildcard: Option<Arc<Wildcard>>,
    ) -> Result<Self, TlsError> {
        let stamps = [stamp(certificate), stamp(key)];
        let pair = read(certificate, key)?;
        let now = Mutex::new(Loaded { pair, stamps, looked: Instant::now() });
        let files = Files { certificate: certificate.to_owned(), key: key.to_owned(), now };
        let certificates = Certificates { files: Some(files), wildcard };
        let failed =
            |error: rustls::Error| TlsError { path: key.to_owned(), reason: error.to_string() };
        Self::of(certificates).map_err(failed)
    }

    /// For the names below a domain alone.
    ///
    /// # Errors
    /// When the library has no version of TLS for it.
    pub fn of_wildcard(wildcard: Arc<Wildcard>) -> Result<Self, rustls::Error> {
        Self::of(Certificates { files: None, wildcard: Some(wildcard) })
    }

    fn of(certificates: Certificates) -> Result<Self, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Begins TLS.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}

impl Files {
    fn pair(&self) -> Arc<CertifiedKey> {
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
        Arc::clone(&now.pair)
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
