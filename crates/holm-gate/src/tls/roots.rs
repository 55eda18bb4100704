//! Whom the gate trusts in the world: the host's list of authorities, or that of a file. The other side and its name are always verified; there is no switch against it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Where systems keep the certificates that they trust.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Nobody to trust.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoRoots {
    /// A file that cannot be used.
    #[error("cannot read certificates from {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// None on this system.
    #[error("this system has no list of trusted certificates (install ca-certificates)")]
    NoSystem,
    /// TLS itself.
    #[error("cannot set up TLS: {0}")]
    Setup(#[from] rustls::Error),
}

/// How the gate speaks to hosts: trusting the certificates of this file, or the system's.
pub(crate) fn trust(instead: Option<&Path>) -> Result<Arc<ClientConfig>, NoRoots> {
    let found = || SYSTEM.iter().map(Path::new).find(|path| path.is_file());
    let path = instead.or_else(found).ok_or(NoRoots::NoSystem)?;
    let wrong = |reason: String| NoRoots::File { path: path.to_owned(), reason };
    let mut store = RootCertStore::empty();
    for certificate in
        CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?
    {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        // A bundle may hold ones that are not understood; those that are suffice.
        let _unusable = store.add(certificate);
    }
    if store.is_empty() {
        return Err(wrong("there is none in it".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Sessions are not resumed: two sandboxes share nothing that a host could know them by.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}
