//! The gate of one sandbox. While it lives its sockets are served; when it is dropped they are
//! closed, and so are its connections: what is not served is refused by the kernel.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::counters::Counters;
use crate::denial::Denial;
use crate::dns;
use crate::inject::{Injection, InjectionError};
use crate::policy::{Policies, PolicyError};
use crate::state::State;
use crate::tcp::{self, Origin};
use crate::uplink::Uplink;

/// Sockets that were made inside a sandbox's namespace.
#[derive(Debug)]
pub struct Sockets {
    /// Listeners, IPv4 and IPv6. All TCP of the sandbox ends here, also that to port 53.
    pub tcp: Vec<OwnedFd>,
    /// UDP, IPv4 and IPv6. All DNS of the sandbox ends here.
    pub dns: Vec<OwnedFd>,
}

/// A gate that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A socket that is none.
    #[error("cannot serve a socket of the sandbox: {0}")]
    Socket(io::Error),
    /// A policy that does not hold together.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// The gate of one sandbox.
#[derive(Debug)]
pub struct Gate {
    state: Arc<State>,
    listeners: Vec<Arc<TcpListener>>,
    tasks: Vec<AbortHandle>,
}

impl Gate {
    /// Starts serving a sandbox's sockets. `owner` is whose it is, in whatever words: of places that
    /// all sandboxes of this process share, those of one owner have a part at most.
    ///
    /// # Errors
    /// When one of them cannot be served, or a policy does not hold together.
    pub fn start(
        uplink: &Arc<Uplink>,
        owner: &str,
        sockets: Sockets,
        policies: Policies,
    ) -> Result<Self, GateError> {
        Self::with_origin(uplink, owner, sockets, &policies, Origin::Kernel)
    }

    pub(crate) fn with_origin(
        uplink: &Arc<Uplink>,
        owner: &str,
        sockets: Sockets,
        policies: &Policies,
        origin: Origin,
    ) -> Result<Self, GateError> {
        check(policies)?;
        let state = Arc::new(State::new(Arc::clone(uplink), owner, origin, policies));
        let mut gate = Self { state, listeners: Vec::new(), tasks: Vec::new() };
        for socket in sockets.tcp {
            let listener = Arc::new(tcp::listener(uplink, socket).map_err(GateError::Socket)?);
            gate.listeners.push(Arc::clone(&listener));
            let serve = tcp::serve(Arc::clone(&gate.state), listener);
            gate.tasks.push(uplink.worker().spawn(serve).abort_handle());
        }
        for socket in sockets.dns {
            let socket = dns::socket(uplink, socket).map_err(GateError::Socket)?;
            let serve = dns::datagrams(Arc::clone(&gate.state), socket);
            gate.tasks.push(uplink.worker().spawn(serve).abort_handle());
        }
        Ok(gate)
    }

    /// Sets other policies. Connections that these refuse are closed.
    ///
    /// # Errors
    /// A policy that does not hold together; the former ones hold on.
    pub fn set_policies(&self, policies: Policies) -> Result<(), PolicyError> {
        check(&policies)?;
        self.state.set_policies(&policies);
        Ok(())
    }

    /// Sets the credentials that are put into this sandbox's requests, in place of those before.
    ///
    /// # Errors
    /// When there are too many, or no authority to open connections with; those before hold on.
    pub fn set_injections(&self, injections: Vec<Injection>) -> Result<(), InjectionError> {
        if !self.state.uplink.opens_tls() && !injections.is_empty() {
            return Err(InjectionError::NoAuthority);
        }
        self.state.injections.set(injections)
    }

    /// What has gone through since this gate was started.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.state.tally.read()
    }

    #[cfg(test)]
    pub(crate) fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// What was refused, newest last.
    #[must_use]
    pub fn denials(&self) -> Vec<Denial> {
        self.state.log.read()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // Nothing is taken in after this line, whenever the task ends that accepts.
        for listener in &self.listeners {
            let _closed = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
        self.state.open.end_all();
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn check(policies: &Policies) -> Result<(), PolicyError> {
    policies.own.check()?;
    policies.ceiling.as_ref().map_or(Ok(()), super::policy::EgressPolicy::check)
}
