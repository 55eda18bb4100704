//! Looking at what a sandbox may reach, and changing it while it runs.

use std::sync::Arc;

use holm_gate::{EgressPolicy, Mode};
use holm_store::{KeyScope, Record};
use serde_json::json;

use super::{AUDITED, recorded, unavailable};
use crate::faults::Moment;
use crate::sandbox::Sandbox;
use crate::text::shorten;
use crate::view::{NetworkState, NetworkView};
use crate::{Engine, Error, SandboxId};

/// The steps of a change, for [`crate::Faults`].
const RECORD: &str = "network_record";
const APPLY: &str = "network_apply";
/// Names of the steps of a change of a policy, in order, for tests that stop at each of them.
#[doc(hidden)]
#[must_use]
pub fn network_steps() -> Vec<&'static str> {
    vec![RECORD, APPLY]
}

impl Engine {
    /// What a sandbox may reach, what has gone through, and what was refused. Also of one that is
    /// over, while it is remembered.
    ///
    /// # Errors
    /// `not_found`, also for somebody else's; `forbidden`.
    pub async fn network_get(&self, id: &SandboxId) -> Result<NetworkView, Error> {
        self.caller.needs(KeyScope::Read)?;
        if let Some(sandbox) = self.own(id) {
            return Ok(view(&sandbox));
        }
        match self.record(id).await? {
            Some(record) => Ok(view_of_record(&record)),
            None => Err(Error::not_found(id)),
        }
    }

    /// Sets what a sandbox may reach, from now on: what it may no longer reach is cut off.
    /// Recorded before it is in force; where that fails and it is not known which policy is
    /// recorded, the sandbox reaches nothing until it is.
    ///
    /// # Errors
    /// `invalid_argument`; `isolation_unavailable` where the sandbox has no gate; `not_found`,
    /// `sandbox_gone`, `forbidden`.
    pub async fn network_set(
        &self,
        id: &SandboxId,
        policy: EgressPolicy,
    ) -> Result<NetworkView, Error> {
        let detail = json!({"network": shorten(&policy.to_string(), AUDITED)});
        let result = self.set(id, policy).await;
        // What is not there is nobody's doing, and could be asked for without end.
        if !result.as_ref().is_err_and(|error| error.kind == crate::ErrorKind::NotFound) {
            self.audit_result("sandbox.network", Some(id.to_string()), &result, detail);
        }
        result
    }

    /// Why sandboxes have no network here, and how to mend that; nothing where they have one.
    #[must_use]
    pub fn network_missing(&self) -> Option<String> {
        self.inner.no_gate()
    }

    /// What a sandbox has of its network at this moment.
    pub(crate) fn network_now(&self, sandbox: &Sandbox) -> NetworkView {
        view(sandbox)
    }

    async fn set(&self, id: &SandboxId, policy: EgressPolicy) -> Result<NetworkView, Error> {
        let sandbox = self.usable(id).await?;
        policy.check().map_err(|error| Error::invalid(error.to_string()))?;
        if policy.mode != Mode::None && !sandbox.link.is_attached() {
            let mend = self.inner.no_gate();
            return Err(unavailable(mend.as_deref().unwrap_or("Try again in a few seconds.")));
        }
        // Goes on when the caller stops waiting: what is recorded comes into force.
        let engine = self.clone();
        let set =
            self.inner.tasks.spawn(async move { engine.set_recorded(&sandbox, policy).await });
        set.await.unwrap_or_else(|panic| Err(Error::internal("network", &panic)))
    }

    async fn set_recorded(
        &self,
        sandbox: &Arc<Sandbox>,
        policy: EgressPolicy,
    ) -> Result<NetworkView, Error> {
        let _decision = sandbox.decision.lock().await;
        let mut live = sandbox.live();
        if let Some(ended) = live.record.ended {
            return Err(Error::gone(&sandbox.id, ended));
        }
        let faults = &self.inner.settings.faults;
        faults.check(RECORD, Moment::Before)?;
        live.record.network = policy.to_json();
        let saved = self.record_save(live.record.clone(), &[]).await;
        let saved = saved.and_then(|record| {
            live.record = record;
            faults.check(RECORD, Moment::After)?;
            faults.check(APPLY, Moment::Before)
        });
        if let Err(error) = saved {
            // Either may be recorded by now.
            sandbox.link.set_unsure();
            return Err(error);
        }
        sandbox.set(live);
        sandbox.link.set_own(policy);
        faults.check(APPLY, Moment::After)?;
        Ok(view(sandbox))
    }
}

/// Of one that runs.
fn state(sandbox: &Sandbox) -> NetworkState {
    NetworkState {
        ceiling: sandbox.link.ceiling(),
        attached: sandbox.link.is_attached(),
        unsure: sandbox.link.is_unsure(),
        counters: sandbox.link.counters(),
        denials: sandbox.link.denials(),
        denials_since: sandbox.link.since(),
    }
}

fn view(sandbox: &Sandbox) -> NetworkView {
    let record = sandbox.live().record;
    let runs = record.state.is_live();
    NetworkView {
        policy: recorded(&record.network),
        traffic: sandbox.link.traffic(),
        state: runs.then(|| state(sandbox)),
    }
}

/// Of one that is over, as far as it was written down.
pub(crate) fn view_of_record(record: &Record) -> NetworkView {
    NetworkView { policy: recorded(&record.network), traffic: record.traffic, state: None }
}
