//! What all gates of a process share: limits, the service's deny list, what this machine's addresses
//! are, and the thread on which gates do their work, so that no sandbox's traffic delays a call to
//! the service.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::{ClientConfig, ServerConfig};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::address::{self, Own};
use crate::dial::Proxy;
use crate::dns::{Servers, Upstream};
use crate::limits::Limits;
use crate::policy::{HostName, Rule};
use crate::relay::{PIPES, Pipes};
use crate::share::{Common, Full, Share, Shares, Taken};
use crate::tls::{self, Ca, Leaves};

/// Files that this process needs for all else.
const OTHERS: usize = 256;

/// What an uplink is made of.
#[derive(Debug, Clone, Default)]
pub struct UplinkOptions {
    /// What no sandbox may reach, whatever its policy says.
    pub deny: Vec<Rule>,
    /// Whom to ask for names; the host's `resolv.conf` without.
    pub resolvers: Option<Vec<SocketAddr>>,
    /// The authority with which connections are opened for credentials; none are without.
    pub ca: Option<Arc<Ca>>,
    /// The certificates to trust in the world, as `SSL_CERT_FILE` names them; the system's without.
    pub trust: Option<PathBuf>,
    /// The host's outbound proxy.
    pub proxy: Option<Proxy>,
    /// Bounds.
    pub limits: Limits,
    /// Whether all sandboxes are of one owner, who may have all places then.
    pub has_one_owner: bool,
}

/// An uplink that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum UplinkError {
    /// The thread did not start.
    #[error("cannot start the thread of the egress gate: {0}")]
    Thread(io::Error),
}

/// What all gates of a process share.
#[derive(Debug)]
pub struct Uplink {
    options: UplinkOptions,
    addresses: Addresses,
    upstream: Upstream,
    leaves: Option<Leaves>,
    trust: OnceLock<Result<Arc<ClientConfig>, String>>,
    open: Common,
    shares: Shares,
    pipes: Pipes,
    worker: Handle,
    /// Its end is the thread's.
    _stop: oneshot::Sender<()>,
}

/// Which addresses are refused always.
pub(crate) enum Addresses {
    /// As [`address::refused`] and the kernel say.
    Real(Own),
    /// As a test says; there is no such form in the product.
    #[cfg(test)]
    Told(Box<dyn Fn(IpAddr) -> Option<&'static str> + Send + Sync>),
}

impl Uplink {
    /// Starts one.
    ///
    /// # Errors
    /// When its thread does not start.
    pub fn new(options: UplinkOptions) -> Result<Arc<Self>, UplinkError> {
        Self::with_addresses(options, Addresses::Real(Own::default()))
    }

    pub(crate) fn with_addresses(
        options: UplinkOptions,
        addresses: Addresses,
    ) -> Result<Arc<Self>, UplinkError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(UplinkError::Thread)?;
        let worker = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let work = move || drop(runtime.block_on(stopped));
        let named = thread::Builder::new().name("holm-gate".to_owned());
        named.spawn(work).map_err(UplinkError::Thread)?;
        let servers = match &options.resolvers {
            Some(servers) => Servers::given(servers.clone()),
            None => Servers::of_host(),
        };
        let is_shared = !options.has_one_owner;
        let upstream = Upstream::new(servers, is_shared);
        let leaves = options.ca.clone().map(Leaves::new);
        let trust = OnceLock::new();
        let open_limit = options.limits.connections_total.min(descriptors() / 2);
        let (open, pipes) = (Common::new(open_limit, is_shared), Pipes::default());
        Ok(Arc::new(Self {
            options,
            addresses,
            upstream,
            leaves,
            trust,
            open,
            shares: Shares::default(),
            pipes,
            worker,
            _stop: stop,
        }))
    }

    /// Bounds.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.options.limits
    }

    /// What no sandbox may reach.
    #[must_use]
    pub fn deny(&self) -> &[Rule] {
        &self.options.deny
    }

    /// Whom to ask for names.
    pub(crate) fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Whether connections can be opened for credentials.
    pub(crate) fn opens_tls(&self) -> bool {
        self.leaves.is_some()
    }

    /// The settings with which the gate speaks for a host.
    pub(crate) fn leaf(&self, host: &HostName) -> Result<Arc<ServerConfig>, String> {
        let leaves = self.leaves.as_ref().ok_or("this gate has no authority of its own")?;
        leaves.of(host).map_err(|error| error.to_string())
    }

    /// The settings with which it speaks to hosts, read when they are first needed. The text of an
    /// error has no path of the host; that is in the log.
    pub(crate) fn trust(&self) -> Result<Arc<ClientConfig>, String> {
        let load = || {
            tls::trust(self.options.trust.as_deref()).map_err(|error| {
                tracing::error!("cannot open connections for credentials: {error}");
                "the host has no usable list of trusted certificates".to_owned()
            })
        };
        self.trust.get_or_init(load).clone()
    }

    /// The host's outbound proxy.
    pub(crate) fn proxy(&self) -> Option<&Proxy> {
        self.options.proxy.as_ref()
    }

    /// What the owner of that name has of the places that all share.
    pub(crate) fn share(&self, owner: &str) -> Arc<Share> {
        self.shares.of(owner)
    }

    /// A place for one more open connection.
    pub(crate) fn enter(&self, share: &Share) -> Result<Taken, Full> {
        self.open.enter(&share.open)
    }

    pub(crate) fn pipes(&self) -> &Pipes {
        &self.pipes
    }

    /// Where gates do their work.
    pub(crate) fn worker(&self) -> &Handle {
        &self.worker
    }

    /// Why an address is refused whatever a policy says; nothing for one that policies decide.
    #[must_use]
    pub fn refused(&self, address: IpAddr) -> Option<String> {
        let kind = match &self.addresses {
            Addresses::Real(own) => {
                address::refused(address).or_else(|| match own.is_own(address) {
                    Ok(own) => own.then_some("an address of this host"),
                    Err(error) => {
                        tracing::warn!("refused a connection: {error}");
                        Some("this host's addresses are not known now")
                    }
                })
            }
            #[cfg(test)]
            Addresses::Told(told) => told(address),
        };
        kind.map(|kind| format!("always refused: {kind}"))
    }
}

/// How many files connections may have open: all that this process may, but for what others of it
/// and pipes need. What the kernel permits is asked for first: the lower limit is for old programs.
fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current =
        if setrlimit(Resource::Nofile, raised).is_ok() { raised.current } else { limit.current };
    let current = current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    current.saturating_sub(OTHERS + 2 * PIPES).max(OTHERS / 2)
}

impl std::fmt::Debug for Addresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Addresses")
    }
}
