//! Everything in plain maps behind one lock, for an engine whose sandboxes end with its process:
//! no thread to hop to, no text to write and read again.
//!
//! What is over is remembered up to a bound, see [`MemoryStore::new`]. The ledger is kept whole;
//! without prices nothing is written to it. A call works on the maps when its future is looked at
//! first, and first finds everything out that may refuse it, so that none is half done.

mod account;
mod audit;
mod faces;
mod key;
mod ledger;
mod outbox;
mod page;
mod port;
mod reserve;
mod sandbox;
mod secret;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::{Answer, Node, NodeId, StoreError};

/// Audit events that are remembered for each remembered sandbox.
const EVENTS_EACH: usize = 4;

/// Keeps everything in memory.
#[derive(Clone)]
pub struct MemoryStore(Arc<Mutex<Tables>>);

#[derive(Default)]
struct Tables {
    closed: bool,
    accounts: account::Table,
    keys: key::Table,
    sandboxes: sandbox::Table,
    secrets: secret::Table,
    ports: port::Table,
    ledger: ledger::Table,
    audit: audit::Table,
    outbox: outbox::Table,
    nodes: BTreeMap<NodeId, Node>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("MemoryStore")
    }
}

impl MemoryStore {
    /// Remembers the last `history` sandboxes that are over, with their idempotency keys, and
    /// some audit events for each. Sums still count what was forgotten.
    #[must_use]
    pub fn new(history: usize) -> Self {
        let tables = Tables {
            sandboxes: sandbox::Table::new(history),
            audit: audit::Table::new(history.saturating_mul(EVENTS_EACH)),
            ..Tables::default()
        };
        Self(Arc::new(Mutex::new(tables)))
    }

    /// Works on the tables.
    fn call<T, F>(&self, work: F) -> Answer<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tables) -> Result<T, StoreError> + Send + 'static,
    {
        let tables = Arc::clone(&self.0);
        Box::pin(async move {
            let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
            if tables.closed {
                return Err(StoreError::unavailable("look into memory", "the store is closed"));
            }
            work(&mut tables)
        })
    }
}

/// As databases keep it: to the microsecond.
fn micros(moment: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(moment.as_microsecond()).unwrap_or(moment)
}
