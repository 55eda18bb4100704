//! The beginning of an engine: it tells its store that it is there, and sets right what an engine
//! before it, on the same node, could not finish.

use holm_store::{Account, EndReason, Ended, Node, Record, SandboxState, StoreError};
use jiff::Timestamp;

use crate::{Caller, Engine, Error};

impl Engine {
    /// Makes the engine known to its store and settles what an earlier one of this node left
    /// there: creates that did not end are taken back, sandboxes that nobody holds any more are
    /// lost since they were last known to live. The first create does it by itself. Only one
    /// engine at a time may use a node id.
    ///
    /// # Errors
    /// `unavailable`, `internal`: it can be called again.
    pub async fn start(&self) -> Result<(), Error> {
        self.inner.started.get_or_try_init(|| self.start_now()).await.copied()
    }

    async fn start_now(&self) -> Result<(), Error> {
        let store = &self.inner.store;
        self.say_alive().await?;
        let local = Account::new(Caller::local().account, "local");
        match store.account_create(local).await {
            Ok(_) | Err(StoreError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        for record in store.sandbox_alive_on(self.inner.settings.node).await? {
            if self.inner.registry.get(&record.id).is_none() {
                self.settle_left_over(record).await?;
            }
        }
        crate::lease::start(self);
        crate::meter::start(self);
        Ok(())
    }

    /// Writes down that this node lives.
    pub(crate) async fn say_alive(&self) -> Result<(), Error> {
        let settings = &self.inner.settings;
        let node = Node {
            id: settings.node,
            boot_id: settings.boot_id.clone(),
            last_seen: Timestamp::now(),
        };
        self.inner.store.node_seen(node).await?;
        Ok(())
    }

    async fn settle_left_over(&self, mut record: Record) -> Result<(), Error> {
        let id = record.id;
        tracing::warn!(%id, state = %record.state, "left over by an engine before");
        if record.state == SandboxState::Provisioning {
            self.inner.store.sandbox_forget(id).await?;
            return Ok(());
        }
        if record.ended.is_none() {
            // It is charged as far as it was known to live, and no further.
            let at = record.metered_until.or(record.ready_at).unwrap_or(record.created_at);
            let reason = EndReason::Lost;
            record.state = SandboxState::Deleting;
            record.ended = Some(Ended { reason, at });
            let what = crate::event::Happened::Ended(reason);
            record = self.record_save(record, &[what]).await?;
        }
        if let Some(ended) = record.ended {
            record.state = ended.reason.final_state();
            self.record_save(record, &[]).await?;
        }
        Ok(())
    }
}
