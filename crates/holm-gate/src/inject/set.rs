//! The credentials of one sandbox, as they are at this moment.

use std::sync::{Arc, PoisonError, RwLock};

use super::injection::{Injection, InjectionError, MAX_INJECTIONS};
use crate::policy::HostName;

/// The credentials of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Set(RwLock<Arc<Vec<Injection>>>);

impl Set {
    pub(crate) fn set(&self, injections: Vec<Injection>) -> Result<(), InjectionError> {
        if injections.len() > MAX_INJECTIONS {
            return Err(InjectionError::TooMany);
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(injections);
        Ok(())
    }

    pub(crate) fn now(&self) -> Arc<Vec<Injection>> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a connection to this port of an address with these names may have to be opened. Only
    /// then its first bytes are looked at.
    pub(crate) fn concerns(&self, names: &[HostName], port: u16) -> bool {
        names.iter().any(|name| self.is_for(name, port, true) || self.is_for(name, port, false))
    }

    /// Whether a connection to this host is opened.
    pub(crate) fn is_for(&self, host: &HostName, port: u16, tls: bool) -> bool {
        self.now().iter().any(|injection| injection.is_for(host, port, tls))
    }
}
