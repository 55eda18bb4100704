//! What is made up for in the background: ceilings that were changed by somebody else than this
//! engine, policies of which it is not known whether they are recorded, gates that could not be
//! attached, and traffic that is written down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holm_store::{Account, AccountId, Owner};

use super::{plan, recorded};
use crate::sandbox::Sandbox;
use crate::{Engine, Error};

/// Held by the refresh that is under way: a second one at the same time would find nothing else.
#[derive(Debug, Default)]
pub(crate) struct Refreshing(AtomicBool);

struct Held<'a>(&'a AtomicBool);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Refreshing {
    fn hold(&self) -> Option<Held<'_>> {
        (!self.0.swap(true, Ordering::AcqRel)).then_some(Held(&self.0))
    }
}

impl Engine {
    /// With the sweep.
    pub(crate) fn network_refresh_later(&self) {
        if self.inner.settings.uplink.is_none() {
            return;
        }
        let engine = self.clone();
        self.inner.tasks.spawn(async move {
            let Some(_held) = engine.inner.refreshing.hold() else { return };
            engine.network_refresh().await;
        });
    }

    /// Everything that should be otherwise.
    pub(crate) async fn network_refresh(&self) {
        let mut accounts = BTreeMap::<AccountId, Vec<Arc<Sandbox>>>::new();
        for sandbox in self.inner.registry.all() {
            accounts.entry(sandbox.account).or_default().push(sandbox);
        }
        let runs = |sandbox: &Arc<Sandbox>| sandbox.state().is_live();
        accounts.retain(|_, sandboxes| sandboxes.iter().any(runs));
        for (account, mut sandboxes) in accounts {
            match self.inner.store.account_get(account).await {
                Ok(found) => set_ceiling(found.as_ref(), &sandboxes),
                Err(error) => {
                    tracing::warn!(%account, internal = error.internal(), "limits are not known");
                }
            }
            sandboxes.retain(runs);
            for sandbox in &sandboxes {
                let may_attach =
                    self.refuse_when_closing().is_ok() && self.inner.no_gate().is_none();
                if may_attach && !sandbox.link.is_attached() {
                    self.network_attach_again(sandbox).await;
                }
                if let Err(error) = self.network_settle(sandbox).await {
                    let internal = error.internal.as_deref().unwrap_or_default();
                    tracing::warn!(id = %sandbox.id, internal, "its policy is not known yet");
                }
                self.traffic_save(sandbox).await;
            }
            self.secrets_give(account, &sandboxes).await;
        }
    }

    /// An account's ceiling, for its sandboxes that run.
    pub(crate) fn network_ceiling(&self, account: &Account) {
        set_ceiling(Some(account), &self.inner.registry.of(account.id));
    }

    /// Finds out which policy is recorded, where that is not known, and puts it in force.
    async fn network_settle(&self, sandbox: &Arc<Sandbox>) -> Result<(), Error> {
        if !sandbox.link.is_unsure() {
            return Ok(());
        }
        let _decision = sandbox.decision.lock().await;
        let found = self.inner.store.sandbox_get(Owner::Any, sandbox.id).await?;
        let found = found.ok_or_else(|| Error::not_found(&sandbox.id))?;
        let mut live = sandbox.live();
        if live.record.ended.is_none() {
            sandbox.link.set_own(recorded(&found.network));
            live.record.network = found.network;
            live.record.version = found.version;
            sandbox.set(live);
        }
        Ok(())
    }

    /// Writes down what has gone through, where something has since the last time.
    pub(crate) async fn traffic_save(&self, sandbox: &Sandbox) {
        let traffic = sandbox.link.traffic();
        if !sandbox.link.is_news(traffic) {
            return;
        }
        match self.inner.store.sandbox_traffic(sandbox.id, traffic).await {
            Ok(()) => sandbox.link.written(traffic),
            Err(error) => {
                let internal = error.internal();
                tracing::warn!(id = %sandbox.id, internal, "its traffic is not written down");
            }
        }
    }
}

fn set_ceiling(account: Option<&Account>, sandboxes: &[Arc<Sandbox>]) {
    let ceiling = plan::ceiling(account);
    for sandbox in sandboxes {
        sandbox.link.set_ceiling(ceiling.clone());
    }
}
