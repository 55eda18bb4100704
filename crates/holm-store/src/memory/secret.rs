//! Secrets of accounts.

use std::collections::BTreeMap;

use super::{Tables, micros};
use crate::{AccountId, Secret, StoreError, rules};

#[derive(Default)]
pub(super) struct Table(BTreeMap<(AccountId, String), Secret>);

impl Tables {
    pub(super) fn secret_put(
        &mut self,
        mut secret: Secret,
        limit: u32,
    ) -> Result<bool, StoreError> {
        rules::texts([&*secret.name])?;
        self.accounts.get(secret.account_id)?;
        secret.created_at = micros(secret.created_at);
        secret.updated_at = micros(secret.updated_at);
        let secrets = &mut self.secrets;
        let key = (secret.account_id, secret.name.clone());
        if let Some(before) = secrets.0.get_mut(&key) {
            secret.created_at = before.created_at;
            *before = secret;
            return Ok(false);
        }
        if secrets.list(secret.account_id).len() >= limit as usize {
            return Err(rules::secrets_full(limit));
        }
        secrets.0.insert(key, secret);
        Ok(true)
    }
}

impl Table {
    pub fn list(&self, id: AccountId) -> Vec<Secret> {
        self.0.values().filter(|secret| secret.account_id == id).cloned().collect()
    }

    pub fn all(&self) -> Vec<Secret> {
        self.0.values().cloned().collect()
    }

    pub fn delete(&mut self, id: AccountId, name: String) -> bool {
        self.0.remove(&(id, name)).is_some()
    }

    pub fn reseal(&mut self, old: &Secret, sealed: Vec<u8>) -> bool {
        match self.0.get_mut(&(old.account_id, old.name.clone())) {
            Some(found) if found.sealed == old.sealed => {
                found.sealed = sealed;
                true
            }
            _ => false,
        }
    }
}
