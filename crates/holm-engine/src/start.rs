//! The beginning of an engine: it tells its store that it is there, and goes on with what an engine
//! before it, on the same node, has left (`adopt`).

use holm_store::{Account, Node, StoreError};
use jiff::Timestamp;

use crate::{Caller, Engine, Error};

impl Engine {
    /// Makes the engine known to its store and settles what an earlier one of this node left:
    /// sandboxes that run are taken over with their leases, those whose lease has ended meanwhile
    /// end, creates that did not end are taken back, sandboxes that are gone are lost since they
    /// were last known to live, and what has no record is removed. The first create does it by
    /// itself. Only one engine at a time may use a node id.
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
        self.secrets_reseal().await?;
        self.settle_left_over().await?;
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
}
