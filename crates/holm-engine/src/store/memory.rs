//! Records in memory, for a process that owns its sandboxes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use holm_runtime::BoxFuture;

use super::{Record, Store, StoreError, Totals};
use crate::SandboxId;

/// Keeps live records and the last ones that ended.
#[derive(Debug)]
pub struct MemoryStore {
    history: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// By order of creation.
    records: BTreeMap<u64, Record>,
    numbers: HashMap<SandboxId, u64>,
    next: u64,
    /// Ended ones, oldest end first.
    over: VecDeque<u64>,
    totals: Totals,
}

impl Inner {
    fn alive(&self) -> usize {
        self.records.len() - self.over.len()
    }
}

impl MemoryStore {
    /// A store that remembers the last `history` ended sandboxes.
    #[must_use]
    pub fn new(history: usize) -> Self {
        Self { history, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save_now(&self, record: Record) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let Some(&number) = inner.numbers.get(&record.id) else {
            return Err(StoreError::Unknown(record.id));
        };
        let Some(old) = inner.records.get(&number) else {
            return Err(StoreError::Unknown(record.id));
        };
        let (from, to) = (old.state, record.state);
        if from != to && !from.may_become(to) {
            return Err(StoreError::Transition { from, to });
        }
        let newly_ready = old.ready_at.is_none() && record.ready_at.is_some();
        if newly_ready {
            inner.totals.sandboxes += 1;
        }
        let over = to.is_over() && !from.is_over();
        if over {
            let end = record.ended.map_or(record.created_at, |ended| ended.at);
            inner.totals.ended_seconds += record.seconds(end);
            inner.over.push_back(number);
        }
        inner.records.insert(number, record);
        while inner.over.len() > self.history {
            let Some(oldest) = inner.over.pop_front() else { break };
            if let Some(dropped) = inner.records.remove(&oldest) {
                inner.numbers.remove(&dropped.id);
            }
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn reserve(&self, record: Record, limit: usize) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let mut inner = self.lock();
            if inner.alive() >= limit {
                return Err(StoreError::Full { limit });
            }
            let number = inner.next;
            inner.next += 1;
            inner.numbers.insert(record.id, number);
            inner.records.insert(number, record);
            Ok(())
        })
    }

    fn forget(&self, id: SandboxId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut inner = self.lock();
            let known = inner.numbers.get(&id).copied();
            if let Some(number) = known
                && !inner.over.contains(&number)
            {
                inner.numbers.remove(&id);
                inner.records.remove(&number);
            }
        })
    }

    fn save(&self, record: Record) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.save_now(record) })
    }

    fn get(&self, id: SandboxId) -> BoxFuture<'_, Option<Record>> {
        Box::pin(async move {
            let inner = self.lock();
            inner.numbers.get(&id).and_then(|number| inner.records.get(number)).cloned()
        })
    }

    fn list(&self, limit: usize, include_over: bool) -> BoxFuture<'_, Vec<Record>> {
        Box::pin(async move {
            let inner = self.lock();
            let wanted = |record: &&Record| include_over || !record.state.is_over();
            inner.records.values().rev().filter(wanted).take(limit).cloned().collect()
        })
    }

    fn alive(&self) -> BoxFuture<'_, usize> {
        Box::pin(async move { self.lock().alive() })
    }

    fn totals(&self) -> BoxFuture<'_, Totals> {
        Box::pin(async move { self.lock().totals })
    }
}
