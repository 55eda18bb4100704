//! The open connections of a sandbox, so that a change of policy reaches each of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::conn::Conn;
use crate::state::State;

/// The open connections of a sandbox.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    open: HashMap<u64, Arc<Conn>>,
}

impl Registry {
    /// Takes a connection in; nothing where there is no place.
    pub(super) fn enter(&self, conn: &Arc<Conn>, places: usize) -> Option<u64> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.open.len() >= places {
            return None;
        }
        inner.next += 1;
        let key = inner.next;
        inner.open.insert(key, Arc::clone(conn));
        Some(key)
    }

    pub(super) fn leave(&self, key: u64) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.open.remove(&key);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open.len()
    }

    /// Judges all of them anew; those that are refused now are reset before this returns.
    pub(crate) fn judge_again(&self, state: &State) {
        for conn in self.all() {
            if let Err(refusal) = conn.judge_again(state) {
                conn.refuse(state, &refusal.rule);
                conn.end();
            }
        }
    }

    /// Resets all of them.
    pub(crate) fn end_all(&self) {
        self.all().iter().for_each(|conn| conn.end());
    }

    fn all(&self) -> Vec<Arc<Conn>> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.open.values().cloned().collect()
    }
}
