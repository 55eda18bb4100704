//! Whom to trust: the system's certificates, or a file of one's own. The other side and its name are
//! always verified; there is no switch against it.

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

/// Whom to trust.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots {
    /// In place of the system's list.
    pub instead: Option<PathBuf>,
    /// Beside it: the certificates of a company's own authority.
    pub also: Option<PathBuf>,
}

/// No certificates to trust.
#[derive(Debug, thiserror::Error)]
pub enum NoRoots {
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
    Setup(rustls::Error),
}

impl Roots {
    /// The TLS settings that trust these.
    ///
    /// # Errors
    /// When there is nobody to trust.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, NoRoots> {
        let mut store = RootCertStore::empty();
        match &self.instead {
            Some(path) => load(&mut store, path)?,
            None => match SYSTEM.iter().map(Path::new).find(|path| path.is_file()) {
                Some(path) => load(&mut store, path)?,
                None if self.also.is_some() => {}
                None => return Err(NoRoots::NoSystem),
            },
        }
        if let Some(path) = &self.also {
            load(&mut store, path)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(NoRoots::Setup)?
            .with_root_certificates(store)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn load(store: &mut RootCertStore, path: &Path) -> Result<(), NoRoots> {
    let wrong = |reason: String| NoRoots::File { path: path.to_owned(), reason };
    let before = store.len();
    let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        // A bundle may hold ones that are not understood; those that are suffice.
        let _unusable = store.add(certificate);
    }
    if store.len() == before {
        return Err(wrong("there is none in it".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        for path in ["/nonexistent/ca.pem", "/dev/null"] {
            let roots = Roots { instead: None, also: Some(path.into()) };
            let error = roots.config().expect_err("refused").to_string();
            assert!(error.contains(path), "{error}");
        }
    }
}
