//! Images from registries: the distribution protocol, of which pulling needs two requests (manifests,
//! blobs) and a token.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`reference`] | names of images |
//! | [`session`] | requests to one repository: tokens, redirects, refusals |
//! | [`challenge`] | how a registry says where tokens are |
//! | [`blob`] | a blob as a stream, taken up again where it broke off |
//! | [`pull`] | manifest, config and layers |

mod blob;
mod challenge;
mod pull;
mod reference;
mod session;

use holm_client::connect::Reach;
use holm_client::{Proxies, Roots};

pub use pull::pull;
pub use reference::{Reference, Version};

/// How registries are reached.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// User and password, or token.
    pub login: Option<Login>,
    /// Hosts that are asked before the image's own, in this order.
    pub mirrors: Vec<String>,
    /// Registries are reached by plain HTTP where they have no TLS. Those on this machine are anyway.
    pub insecure: bool,
    /// Certificates.
    pub roots: Roots,
    /// Proxies.
    pub proxies: Proxies,
    /// Addresses that may be connected to, also those that a registry names.
    pub reach: Reach,
}

/// Who we are at a registry. Never shown.
#[derive(Clone)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Login").finish_non_exhaustive()
    }
}
