//! Which certificates are served where.

use std::sync::Arc;

use holm_gateway::http::tls::{Tls, Wildcard};
use holm_runtime::Hook;

use crate::exit::Failure;
use crate::service::{Acme, Place};
use crate::settings::ServeSettings;

/// TLS of the service's listeners.
pub struct Certificates {
    /// At the service's own address.
    pub tls: Option<Arc<Tls>>,
    /// At that of previews, where they have one.
    pub apart: Option<Arc<Tls>>,
    /// What gets the certificate of previews.
    pub acme: Option<Acme>,
}

impl Certificates {
    /// Reads the files, and the certificate that was kept.
    pub fn new(
        settings: &ServeSettings,
        hook: Option<Hook>,
        place: &Place,
    ) -> Result<Self, Failure> {
        let domain = || settings.previews.domain.clone();
        let acme = match (&settings.previews.acme, hook) {
            (Some(acme), Some(hook)) => {
                let wildcard = Wildcard::new(domain());
                let shared = (domain(), Arc::clone(&wildcard));
                Some((wildcard, Acme::new(acme, hook, shared, place.dir())))
            }
            _ => None,
        };
        let (wildcard, acme) = acme.unzip();
        let tls = match (&settings.tls, &wildcard) {
            (Some((certificate, key)), _) => {
                let tls = Tls::from_files(certificate, key, wildcard.clone());
                Some(Arc::new(tls.map_err(|error| {
                    Failure::new(format!("no TLS with {error}"))
                        .hint("both files are PEM, and the key is that of the first certificate")
                })?))
            }
            _ => None,
        };
        let apart = match (&tls, wildcard) {
            (None, Some(wildcard)) => {
                let tls = Tls::of_wildcard(wildcard);
                Some(Arc::new(tls.map_err(|error| Failure::new(format!("no TLS: {error}")))?))
            }
            (tls, _) => tls.clone(),
        };
        Ok(Self { tls, apart, acme })
    }
}
