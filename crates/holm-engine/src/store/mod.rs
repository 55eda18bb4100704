//! Where the engine keeps what it knows about sandboxes: a small trait, and an implementation in
//! memory.
//!
//! The engine's process decides; a store records, and counts against the limit atomically. A
//! store on disk writes each change through before the engine acts on it.

mod memory;

pub use memory::MemoryStore;

use std::collections::BTreeMap;
use std::time::Duration;

use holm_runtime::BoxFuture;
use jiff::Timestamp;

use crate::{Ended, SandboxId, SandboxState, Size, SizeName};

/// What is known about one sandbox. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its id.
    pub id: SandboxId,
    /// The caller's name for it.
    pub name: Option<String>,
    /// Its template.
    pub template: String,
    /// Its size.
    pub size: SizeName,
    /// The size's numbers as given.
    pub given: Size,
    /// Processors before they were clamped to the host's.
    pub vcpus_asked: u32,
    /// The caller's labels.
    pub metadata: BTreeMap<String, String>,
    /// The lifetime that it was created with.
    pub lifetime: Duration,
    /// Where it is in its life.
    pub state: SandboxState,
    /// When the create was asked for.
    pub created_at: Timestamp,
    /// When it became usable; from here it is metered.
    pub ready_at: Option<Timestamp>,
    /// When its lease ends.
    pub expires_at: Option<Timestamp>,
    /// Why and when it ended; set from `deleting` on.
    pub ended: Option<Ended>,
}

impl Record {
    /// Seconds from ready to its end, or to `now` while it lives.
    #[must_use]
    pub fn seconds(&self, now: Timestamp) -> f64 {
        let Some(ready) = self.ready_at else { return 0.0 };
        let end = self.ended.map_or(now, |ended| ended.at);
        end.duration_since(ready).as_secs_f64().max(0.0)
    }
}

/// Sums over everything that a store has seen, also what its history has dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// Sandboxes that became ready.
    pub sandboxes: u64,
    /// Seconds of those that ended.
    pub ended_seconds: f64,
}

/// Why a store refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// As many live sandboxes as allowed.
    #[error("{limit} sandboxes exist already")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// The state machine has no such arrow.
    #[error("a sandbox cannot go from {from} to {to}")]
    Transition {
        /// Recorded state.
        from: SandboxState,
        /// Wanted state.
        to: SandboxState,
    },
    /// No such record.
    #[error("no record of {0}")]
    Unknown(SandboxId),
}

/// Keeps records. All calls are atomic.
pub trait Store: Send + Sync + 'static {
    /// Adds a provisioning sandbox if fewer than `limit` are alive (all that are not over count,
    /// also those being removed).
    ///
    /// # Errors
    /// [`StoreError::Full`].
    fn reserve(&self, record: Record, limit: usize) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Takes a reservation back: the create failed, nothing of it counts or is remembered.
    fn forget(&self, id: SandboxId) -> BoxFuture<'_, ()>;

    /// Replaces a record. Its state is the recorded one or follows from it by an arrow.
    ///
    /// # Errors
    /// [`StoreError::Transition`], [`StoreError::Unknown`].
    fn save(&self, record: Record) -> BoxFuture<'_, Result<(), StoreError>>;

    /// One record; also an ended one while it is remembered.
    fn get(&self, id: SandboxId) -> BoxFuture<'_, Option<Record>>;

    /// Newest first, at most `limit`.
    fn list(&self, limit: usize, include_over: bool) -> BoxFuture<'_, Vec<Record>>;

    /// Sandboxes that are not over.
    fn alive(&self) -> BoxFuture<'_, usize>;

    /// Sums.
    fn totals(&self) -> BoxFuture<'_, Totals>;
}
