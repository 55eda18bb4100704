//! Going on with what an engine before this one has left, on the same node: each of its records is
//! held against what the driver has found.
//!
//! | record | sandbox runs | it does not |
//! |---|---|---|
//! | provisioning | removed, and the create taken back | taken back |
//! | running | adopted, or ended if its lease has ended | lost, since it was last known to live |
//! | paused | the same, and stands still | the same |
//! | deleting | removed | its removal is finished |
//! | none | removed | |

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use holm_runtime::Machine;
use holm_store::{Account, EndReason, Ended, Owner, Port, Record, SandboxId, SandboxState};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use crate::create::Build;
use crate::end::REMOVAL;
use crate::event::Happened;
use crate::measure::Measured;
use crate::sandbox::Sandbox;
use crate::template::Standing;
use crate::{Engine, Error, network, plan};

/// What a record says for the next engine: everything that only its create knew.
#[derive(Debug, Serialize, Deserialize)]
struct Adoption {
    workdir: String,
    /// Digests of the template's layers, which is known by its name only as long as nobody makes
    /// another one of that name. None of the host's own programs.
    #[serde(default)]
    layers: Vec<String>,
    /// They lie over the host's own programs.
    #[serde(default)]
    on_host: bool,
    /// The copy that keeps them, of a fork.
    #[serde(default)]
    copy: Option<String>,
    enforced: Vec<String>,
    missing: Vec<String>,
    /// In which run of the host's kernel it became ready, and when by `EngineSettings::clock`.
    boot_id: String,
    ready_usec: u64,
}

impl Build {
    /// For the record of a sandbox that becomes ready now.
    pub(crate) fn adoption(&self) -> Result<serde_json::Value, Error> {
        let settings = &self.engine.inner.settings;
        let measured = self.sandbox.measured();
        let standing = self.sandbox.standing();
        let adoption = Adoption {
            workdir: self.sandbox.workdir.clone(),
            layers: standing.layers,
            on_host: standing.on_host,
            copy: standing.copy,
            enforced: measured.enforced,
            missing: measured.missing,
            boot_id: settings.boot_id.clone(),
            ready_usec: u64::try_from((settings.clock)().as_micros()).unwrap_or(u64::MAX),
        };
        serde_json::to_value(adoption).map_err(|error| Error::internal("adoption", &error))
    }
}

impl Engine {
    /// Settles all records of this node, and everything that the driver has found.
    pub(crate) async fn settle_left_over(&self) -> Result<(), Error> {
        let inner = &self.inner;
        let mut unsettled = BTreeSet::new();
        for record in inner.store.sandbox_alive_on(inner.settings.node).await? {
            let id = record.id;
            if inner.registry.get(&id).is_some() {
                continue;
            }
            // One that cannot be settled keeps nobody else from what is theirs.
            if let Err(error) = self.settle_record(record).await {
                let internal = error.internal.as_deref().unwrap_or_default();
                tracing::error!(%id, %error, internal, "not settled; the sweep tries again");
                unsettled.insert(id);
            }
        }
        for id in inner.driver.left_over() {
            if id.parse().is_ok_and(|id: SandboxId| unsettled.contains(&id)) {
                continue;
            }
            if let Some(machine) = inner.driver.adopt(&id) {
                tracing::warn!(id, "nobody's sandbox is removed");
                inner.tasks.spawn(discard(id, machine));
            }
        }
        if unsettled.is_empty() && inner.driver.outlived() {
            // All that runs holds what it stands on.
            self.sweep_library();
        }
        self.unsettled().extend(unsettled);
        Ok(())
    }

    fn unsettled(&self) -> MutexGuard<'_, BTreeSet<SandboxId>> {
        self.inner.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Settles what the start could not, with the sweep.
    pub(crate) fn settle_again(&self) {
        let unsettled = std::mem::take(&mut *self.unsettled());
        for id in unsettled {
            let engine = self.clone();
            self.inner.tasks.spawn(async move {
                match engine.settle_one(id).await {
                    Ok(()) => tracing::info!(%id, "settled"),
                    Err(error) => {
                        let internal = error.internal.as_deref().unwrap_or_default();
                        tracing::debug!(%id, %error, internal, "still not settled");
                        engine.unsettled().insert(id);
                    }
                }
            });
        }
    }

    async fn settle_one(&self, id: SandboxId) -> Result<(), Error> {
        // It may have come so far that the sweep goes on with it.
        if self.inner.registry.get(&id).is_some() {
            return Ok(());
        }
        match self.inner.store.sandbox_get(Owner::Any, id).await? {
            Some(record) if !record.state.is_over() => self.settle_record(record).await,
            _ => Ok(()),
        }
    }

    async fn settle_record(&self, record: Record) -> Result<(), Error> {
        let id = record.id;
        let account = self.inner.store.account_get(record.account_id).await?;
        let ports = self.inner.store.port_list(id).await?;
        // From here on nothing fails that would lose it: this may have to be done again.
        let machine = self.inner.driver.adopt(&id.to_string());
        let runs = machine.is_some();
        tracing::info!(%id, state = %record.state, runs, "left over by an engine before");
        match (record.state, machine) {
            (SandboxState::Provisioning, None) => {
                self.record_forget(&record).await?;
            }
            (SandboxState::Provisioning, Some(machine)) => {
                let engine = self.clone();
                self.inner.tasks.spawn(async move {
                    if !discard(id.to_string(), machine).await {
                        // Its place stays taken until the next start.
                        return;
                    }
                    if let Err(error) = engine.record_forget(&record).await {
                        let internal = error.internal.as_deref().unwrap_or_default();
                        tracing::error!(%id, %error, internal, "a create is not taken back");
                    }
                });
            }
            (_, None) => self.settle_gone(record).await?,
            (SandboxState::Deleting, Some(machine)) => {
                let mut standing = standing_of(&record);
                let hold = self.hold_again(&record, &mut standing).await;
                let sandbox = Sandbox::new(record.clone(), String::new(), Duration::ZERO, None);
                let sandbox = Arc::new(sandbox);
                sandbox.stands_on(standing, hold);
                let live = sandbox.live();
                sandbox.set(live);
                sandbox.attach(machine)?;
                self.take(&sandbox);
                let engine = self.clone();
                // What it cannot remove the sweep removes.
                self.inner.tasks.spawn(async move { engine.remove(&sandbox).await });
            }
            (_, Some(machine)) => {
                self.adopt(record, account.as_ref(), ports, machine).await?;
            }
        }
        Ok(())
    }

    /// It was running or being removed, and nothing of it is there.
    async fn settle_gone(&self, mut record: Record) -> Result<(), Error> {
        if record.ended.is_none() {
            // It is charged as far as it was known to live, and no further.
            let at = record.metered_until.or(record.ready_at).unwrap_or(record.created_at);
            let reason = EndReason::Lost;
            record.state = SandboxState::Deleting;
            record.ended = Some(Ended { reason, at });
            record = self.record_save(record, &[Happened::Ended(reason)]).await?;
        }
        if let Some(ended) = record.ended {
            record.state = ended.reason.final_state();
            self.record_save(record, &[]).await?;
        }
        Ok(())
    }

    /// Goes on with one that runs: with its lease, as if nothing had been.
    async fn adopt(
        &self,
        record: Record,
        account: Option<&Account>,
        ports: Vec<Port>,
        machine: Box<dyn Machine>,
    ) -> Result<(), Error> {
        let inner = &self.inner;
        let id = record.id;
        let adoption = record.adoption.clone().map(serde_json::from_value::<Adoption>);
        let Some(Ok(adoption)) = adoption else {
            // Of another form than ours: an engine of another version made it.
            tracing::error!(%id, "what is recorded does not suffice to go on with it");
            inner.tasks.spawn(discard(id.to_string(), machine));
            return self.settle_gone(record).await;
        };
        let max_life = account.map_or(inner.settings.lifetime.max, |account| {
            plan::lifetimes(&inner.settings, account).max
        });
        let now = Instant::now();
        let ready = self.ready_then(&record, &adoption, now);
        let lease = match (record.ready_at, record.expires_at) {
            (Some(ready), Some(end)) => Duration::try_from(end.duration_since(ready)),
            _ => Ok(record.lifetime),
        };
        let deadline = ready + lease.unwrap_or_default();
        let ceiling = network::ceiling(account);
        let mut standing = standing_of(&record);
        let hold = self.hold_again(&record, &mut standing).await;
        let sandbox = Arc::new(Sandbox::new(record, adoption.workdir, max_life, ceiling));
        sandbox.stands_on(standing, hold);
        let mut live = sandbox.live();
        live.ready = Some(ready);
        live.deadline = Some(deadline);
        live.ceiling = Some((ready + max_life).max(deadline));
        sandbox.set(live);
        sandbox.set_measured(Measured {
            enforced: adoption.enforced,
            missing: adoption.missing,
            fatal: Vec::new(),
        });
        sandbox.ports.adopt(ports);
        sandbox.attach(machine)?;
        self.make_as_recorded(&sandbox).await;
        // Before anybody can use it: what it may reach is never open in between, as without its
        // gate it reaches nothing.
        if now < deadline {
            self.network_attach_again(&sandbox).await;
        }
        self.take(&sandbox);
        if now >= deadline {
            // Before anybody can use it again.
            return self.expire(&sandbox).await;
        }
        inner.timer.add(deadline, id);
        self.watch(&sandbox);
        self.pause_when_idle(&sandbox);
        // The guest is hostile: whoever does not answer within a while is lost.
        crate::health::check_later(self, &sandbox);
        Ok(())
    }

    /// It stands still exactly if it is recorded as paused: the engine before may have been killed
    /// between the one and the other.
    async fn make_as_recorded(&self, sandbox: &Arc<Sandbox>) {
        let Some(machine) = sandbox.machine() else { return };
        let made = match sandbox.state() {
            SandboxState::Paused => machine.freeze().await,
            _ => machine.thaw().await,
        };
        if let Err(error) = made {
            let (id, state) = (sandbox.id, sandbox.state());
            tracing::error!(%id, %state, internal = error.internal, "it is not what is recorded");
            if state == SandboxState::Paused {
                Self::go_on_again(sandbox);
            }
        }
    }

    /// When it became ready, on this process's clock.
    fn ready_then(&self, record: &Record, adoption: &Adoption, now: Instant) -> Instant {
        let settings = &self.inner.settings;
        let then = Duration::from_micros(adoption.ready_usec);
        let age = match (settings.clock)().checked_sub(then) {
            Some(age) if adoption.boot_id == settings.boot_id => age,
            // Not to be met where sandboxes end with the host's kernel.
            _ => record.ready_at.map_or(Duration::ZERO, |ready| {
                let age = jiff::Timestamp::now().duration_since(ready);
                Duration::try_from(age).unwrap_or_default()
            }),
        };
        now.checked_sub(age).unwrap_or(now)
    }

    /// Makes it one of ours, which the sweep knows.
    fn take(&self, sandbox: &Arc<Sandbox>) {
        sandbox.hand_over(true);
        self.inner.registry.add(sandbox);
    }
}

/// What a sandbox that is recorded stands on, as far as that is recorded. Nothing where it never became
/// ready.
fn standing_of(record: &Record) -> Standing {
    let adoption = record.adoption.clone().map(serde_json::from_value::<Adoption>);
    let Some(Ok(adoption)) = adoption else { return Standing::default() };
    let Adoption { layers, on_host, copy, .. } = adoption;
    Standing { on_host: on_host || layers.is_empty(), layers, copy, ..Standing::default() }
}

/// Removes what nobody has. False when it could not be done.
async fn discard(id: String, machine: Box<dyn Machine>) -> bool {
    let failure = match timeout(REMOVAL, machine.destroy()).await {
        Ok(Ok(())) => return true,
        Ok(Err(error)) => error.internal,
        Err(_elapsed) => format!("no end within {REMOVAL:?}"),
    };
    tracing::error!(
        id,
        failure,
        "what nobody has could not be removed; the next start tries again"
    );
    false
}
