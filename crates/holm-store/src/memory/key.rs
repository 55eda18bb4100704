//! API keys.

use std::collections::HashMap;

use jiff::Timestamp;

use super::page::{is_after, page};
use super::{Tables, micros};
use crate::{
    Account, AccountId, Cursor, Key, KeyHash, KeyId, KeyStatus, Owner, Page, PageQuery, StoreError,
    rules,
};

#[derive(Default)]
pub(super) struct Table {
    keys: HashMap<KeyId, Key>,
    hashes: HashMap<[u8; 32], KeyId>,
}

impl Tables {
    pub(super) fn key_create(&mut self, mut key: Key, hash: KeyHash) -> Result<Key, StoreError> {
        rules::texts([&*key.name, &*key.prefix])?;
        self.accounts.get(key.account_id)?;
        let table = &mut self.keys;
        if table.keys.contains_key(&key.id) || table.hashes.contains_key(&hash.0) {
            return Err(StoreError::exists("key", &key.id));
        }
        key.created_at = micros(key.created_at);
        key.expires_at = key.expires_at.map(micros);
        key.last_used_at = key.last_used_at.map(micros);
        key.revoked_at = key.revoked_at.map(micros);
        table.hashes.insert(hash.0, key.id);
        table.keys.insert(key.id, key.clone());
        Ok(key)
    }

    pub(super) fn key_by_hash(&self, hash: KeyHash) -> Option<(Key, Account)> {
        let key = self.keys.keys.get(self.keys.hashes.get(&hash.0)?)?;
        Some((key.clone(), self.accounts.find(key.account_id)?.clone()))
    }
}

impl Table {
    pub fn get(&self, owner: Owner, id: KeyId) -> Option<&Key> {
        self.keys.get(&id).filter(|key| owner.sees(key.account_id))
    }

    pub fn list(&self, owner: Owner, query: &PageQuery) -> Page<Key> {
        let wanted =
            |key: &&Key| owner.sees(key.account_id) && is_after(query, key.created_at, &key.id);
        let mut found: Vec<&Key> = self.keys.values().filter(wanted).collect();
        found.sort_unstable_by_key(|key| std::cmp::Reverse((key.created_at, key.id)));
        page(found.into_iter(), query, |key| Cursor::at(key.created_at, &key.id))
    }

    pub fn revoke(&mut self, owner: Owner, id: KeyId, at: Timestamp) -> Result<Key, StoreError> {
        let key = self.keys.get_mut(&id).filter(|key| owner.sees(key.account_id));
        let key = key.ok_or_else(|| StoreError::unknown("key", &id))?;
        key.revoked_at.get_or_insert(micros(at));
        Ok(key.clone())
    }

    pub fn touch(&mut self, id: KeyId, at: Timestamp) {
        let at = micros(at);
        if let Some(key) = self.keys.get_mut(&id)
            && key.last_used_at.is_none_or(|last| last < at)
        {
            key.last_used_at = Some(at);
        }
    }

    /// Fails unless the key works at `now`.
    pub fn check_usable(
        &self,
        account: AccountId,
        id: KeyId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let key = self.get(Owner::Account(account), id);
        let key = key.ok_or_else(|| StoreError::unknown("key", &id))?;
        match key.status(now) {
            KeyStatus::Active => Ok(()),
            KeyStatus::Expired | KeyStatus::Revoked => Err(StoreError::KeyUnusable { id }),
        }
    }
}
