//! Records of sandboxes: whose they are, and how they are written.

use std::sync::Arc;

use holm_store::{Event, Owner, Record, SandboxId, StoreError};

use crate::event::Happened;
use crate::sandbox::Sandbox;
use crate::{Engine, Error, ErrorKind};

impl Engine {
    /// A sandbox of the caller that this engine holds. One of somebody else is none.
    pub(crate) fn own(&self, id: &SandboxId) -> Option<Arc<Sandbox>> {
        let sandbox = self.inner.registry.get(id);
        sandbox.filter(|sandbox| sandbox.account == self.caller.account)
    }

    /// Whether a sandbox of the caller is there and has not ended. Asks nobody: for decisions
    /// under a lock.
    #[must_use]
    pub fn sandbox_is_alive(&self, id: &SandboxId) -> bool {
        self.own(id).is_some_and(|sandbox| sandbox.ended_now().is_none())
    }

    /// What is recorded of a sandbox of the caller.
    pub(crate) async fn record(&self, id: &SandboxId) -> Result<Option<Record>, Error> {
        Ok(self.inner.store.sandbox_get(self.caller.owner(), *id).await?)
    }

    /// The error for a sandbox that this engine does not hold. That somebody else has it looks
    /// like that nobody has.
    pub(crate) async fn absent(&self, id: &SandboxId) -> Error {
        match self.record(id).await {
            Ok(None) => Error::not_found(id),
            Ok(Some(record)) => match record.ended {
                Some(ended) => Error::gone(id, ended),
                None => Error::new(
                    ErrorKind::Unavailable,
                    format!("sandbox {id} is still being made, or runs on another machine"),
                ),
            },
            Err(error) => error,
        }
    }

    /// Writes a record, with what happened by it, and answers it as it is now, with its next
    /// version.
    pub(crate) async fn record_save(
        &self,
        record: Record,
        what: &[Happened],
    ) -> Result<Record, Error> {
        let events = self.events(what, &record)?;
        let told = !events.is_empty();
        let saved = match self.inner.store.sandbox_save(record.clone(), events.clone()).await {
            Ok(saved) => Ok(saved),
            Err(StoreError::Stale { .. }) => self.save_again(record, events).await,
            Err(error) => Err(error.into()),
        };
        if told {
            self.events_recorded();
        }
        saved
    }

    /// Takes the record of a create back that failed, and tells those who heard of its beginning.
    pub(crate) async fn record_forget(&self, record: &Record) -> Result<(), Error> {
        let events = self.events(&[Happened::NotMade], record)?;
        let told = !events.is_empty();
        self.inner.store.sandbox_forget(record.id, events).await?;
        if told {
            self.events_recorded();
        }
        Ok(())
    }

    /// Nobody but this engine writes its records: where the store has a newer one, an earlier
    /// save was done although its answer was lost. What it has set once stays.
    async fn save_again(&self, mut record: Record, events: Vec<Event>) -> Result<Record, Error> {
        let found = self.inner.store.sandbox_get(Owner::Any, record.id).await?;
        let found = found.ok_or_else(|| Error::not_found(&record.id))?;
        tracing::warn!(id = %record.id, version = found.version, "a save had been done already");
        record.version = found.version;
        self.turn_again(&mut record, &found);
        record.ready_at = found.ready_at.or(record.ready_at);
        if let Some(ended) = found.ended {
            record.ended = Some(ended);
            if record.state.is_over() {
                record.state = ended.reason.final_state();
            }
        }
        Ok(self.inner.store.sandbox_save(record, events).await?)
    }

    /// A pause or its end was recorded, or was not: what follows is one of its own, or none.
    fn turn_again(&self, record: &mut Record, found: &Record) {
        let turns = record.state != found.state && record.state.is_live() && found.state.is_live();
        record.pause.turned_at = found.pause.turned_at;
        if turns {
            let sandbox = self.inner.registry.get(&record.id);
            let now = sandbox.map_or_else(jiff::Timestamp::now, |sandbox| sandbox.now());
            record.pause.turned_at = found.pause.turned_at.max(Some(now));
        }
    }
}
