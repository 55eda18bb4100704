//! The sandboxes that an engine holds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holm_store::AccountId;

use crate::SandboxId;
use crate::sandbox::Sandbox;

/// The live sandboxes by id.
#[derive(Default)]
pub(crate) struct Registry(Mutex<HashMap<SandboxId, Arc<Sandbox>>>);

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Sandbox>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, sandbox: &Arc<Sandbox>) {
        self.lock().insert(sandbox.id, Arc::clone(sandbox));
    }

    pub fn remove(&self, id: &SandboxId) {
        self.lock().remove(id);
    }

    pub fn get(&self, id: &SandboxId) -> Option<Arc<Sandbox>> {
        self.lock().get(id).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Sandbox>> {
        self.lock().values().cloned().collect()
    }

    /// Those of one account.
    pub fn of(&self, account: AccountId) -> Vec<Arc<Sandbox>> {
        let all = self.lock();
        all.values().filter(|sandbox| sandbox.account == account).cloned().collect()
    }
}
