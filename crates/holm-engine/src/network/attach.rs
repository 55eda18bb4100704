//! Attaching a sandbox's gate: a step of its create, and the first thing when it is taken over, so
//! that nothing is ever open in between.

use holm_gate::{EgressPolicy, Gate, GateError, Sockets};
use holm_runtime::DriverError;

use super::unavailable;
use crate::create::Build;
use crate::sandbox::Sandbox;
use crate::{Engine, Error, driver_error};

/// A gate that was not attached.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unattached {
    #[error("{}", .0.internal)]
    Driver(DriverError),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error("the sandbox has no machine")]
    NoMachine,
}

impl Engine {
    /// Attaches the sandbox's gate. False where this host has none for it.
    pub(super) async fn network_attach(&self, sandbox: &Sandbox) -> Result<bool, Unattached> {
        let Some(uplink) = &self.inner.settings.uplink else { return Ok(false) };
        let machine = sandbox.machine().ok_or(Unattached::NoMachine)?;
        let sockets = machine.gate_sockets().await.map_err(Unattached::Driver)?;
        let Some(sockets) = sockets else { return Ok(false) };
        let sockets = Sockets { tcp: sockets.tcp, dns: sockets.dns };
        let owner = sandbox.account.to_string();
        sandbox.link.attach(|policies| Gate::start(uplink, &owner, sockets, policies))?;
        self.secrets_attach(sandbox).await;
        Ok(true)
    }

    /// The same for a sandbox that is taken over. One that cannot be attached now reaches nothing,
    /// and the sweep tries again.
    pub(crate) async fn network_attach_again(&self, sandbox: &Sandbox) {
        let id = sandbox.id;
        match self.network_attach(sandbox).await {
            Ok(true) => tracing::info!(%id, "its network is attached again"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%id, %error, "it reaches nothing for now; the sweep tries again");
            }
        }
    }
}

impl Build {
    /// The step `network`.
    pub(crate) async fn network(&mut self) -> Result<(), Error> {
        let attached = self.engine.network_attach(&self.sandbox).await;
        let attached = attached.map_err(|error| match error {
            Unattached::Driver(error) => driver_error::from_driver(error),
            other => Error::internal("network", &other),
        })?;
        if attached || self.policy() == EgressPolicy::none() {
            return Ok(());
        }
        // That this host gives none is only known with the first sandbox.
        if self.network_asked {
            let mend = self.engine.inner.no_gate();
            return Err(unavailable(mend.as_deref().unwrap_or("Run `holm doctor`.")));
        }
        self.go_without_network().await;
        Ok(())
    }

    fn policy(&self) -> EgressPolicy {
        super::recorded(&self.sandbox.live().record.network)
    }

    /// What nobody asked for falls back to nothing.
    async fn go_without_network(&mut self) {
        let none = EgressPolicy::none();
        let _decision = self.sandbox.decision.lock().await;
        let mut live = self.sandbox.live();
        live.record.network = none.to_json();
        self.sandbox.set(live);
        self.sandbox.link.set_own(none);
        let variables = std::mem::take(&mut self.configure.env);
        self.configure.env = crate::env::without_network(variables);
    }

    /// Its undo.
    pub(crate) async fn network_close(&mut self) -> Result<(), Error> {
        self.sandbox.link.close(&self.engine.inner.counts.links);
        Ok(())
    }
}
