//! What every face asks before it does anything: is this our name, may this page ask, who asks.
//! The order is fixed, so that a page learns nothing about credentials.

use hyper::http::request::Parts;

use super::access::{Access, Caller, Refused};
use super::origin::Origins;

/// The checks of one server.
#[derive(Debug, Clone)]
pub struct Door {
    origins: Origins,
    access: Access,
}

/// Why a request got no further. Faces say it in their own form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// 403: the `Host` is not one of ours.
    #[error("this server does not answer to the name in the Host header")]
    ForeignHost,
    /// 403: the `Origin` is not allowed.
    #[error("requests of pages with this Origin are not allowed")]
    ForeignOrigin,
    /// 400, 401, 403, 429 or 503.
    #[error(transparent)]
    Credential(#[from] Refused),
}

impl Stopped {
    /// The status that fits.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::ForeignHost | Self::ForeignOrigin => 403,
            Self::Credential(refused) => refused.status(),
        }
    }
}

impl Door {
    /// The door of a server.
    #[must_use]
    pub fn new(origins: Origins, access: Access) -> Self {
        Self { origins, access }
    }

    /// Lets a request in, and says who sent it.
    ///
    /// # Errors
    /// When it must not go on.
    pub async fn enter(&self, head: &Parts) -> Result<Caller, Stopped> {
        if !self.origins.host_is_ours(head) {
            return Err(Stopped::ForeignHost);
        }
        if !self.origins.origin_is_allowed(head) {
            return Err(Stopped::ForeignOrigin);
        }
        Ok(self.access.caller(head).await?)
    }

    /// Lets a request for something public in.
    ///
    /// # Errors
    /// When it comes from somewhere foreign.
    pub fn enter_public(&self, head: &Parts) -> Result<(), Stopped> {
        match self.origins.host_is_ours(head) {
            true => Ok(()),
            false => Err(Stopped::ForeignHost),
        }
    }

    /// True where requests need a credential.
    #[must_use]
    pub fn needs_key(&self) -> bool {
        !matches!(self.access, Access::Open)
    }
}
