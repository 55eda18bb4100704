//! The certificates of hosts, made when they are first asked for and kept for some days.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;

use super::ca::{Ca, DAYS};
use crate::policy::HostName;

/// Hosts that are remembered, over all sandboxes.
const HOSTS: usize = 256;
/// How long a certificate is used: what runs on it then has as long again.
const USED_FOR: Duration = Duration::from_hours(24 * DAYS as u64);

/// The certificates of hosts.
#[derive(Debug)]
pub(crate) struct Leaves {
    ca: Arc<Ca>,
    made: Mutex<HashMap<HostName, (Instant, Arc<ServerConfig>)>>,
}

/// No certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoLeaf {
    #[error("cannot make a certificate: {0}")]
    Making(#[from] rcgen::Error),
    #[error("cannot use a certificate: {0}")]
    Using(#[from] rustls::Error),
}

impl Leaves {
    pub(crate) fn new(ca: Arc<Ca>) -> Self {
        Self { ca, made: Mutex::default() }
    }

    /// The settings with which the gate speaks for a host.
    pub(crate) fn of(&self, host: &HostName) -> Result<Arc<ServerConfig>, NoLeaf> {
        let now = Instant::now();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((until, config)) = made.get(host)
            && *until > now
        {
            return Ok(Arc::clone(config));
        }
        if made.len() >= HOSTS {
            // The oldest one ends first.
            let oldest = made.iter().min_by_key(|(_, (until, _))| *until);
            if let Some(oldest) = oldest.map(|(host, _)| host.clone()) {
                made.remove(&oldest);
            }
        }
        let config = Arc::new(self.config(host)?);
        made.insert(host.clone(), (now + USED_FOR, Arc::clone(&config)));
        Ok(config)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn config(&self, host: &HostName) -> Result<ServerConfig, NoLeaf> {
        let (certificate, key) = self.ca.issue(host)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        // Clients that prefer HTTP/2 fall back to this one.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Nothing is remembered of a client, so that there is nothing to bound.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}
