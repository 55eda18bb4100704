//! Accounts.

use std::collections::HashMap;

use jiff::Timestamp;

use super::micros;
use super::page::{is_after, page};
use crate::{Account, AccountId, AccountLimits, Cursor, Page, PageQuery, StoreError, rules};

#[derive(Default)]
pub(super) struct Table(HashMap<AccountId, Account>);

impl Table {
    pub fn find(&self, id: AccountId) -> Option<&Account> {
        self.0.get(&id)
    }

    pub fn get(&self, id: AccountId) -> Result<&Account, StoreError> {
        self.0.get(&id).ok_or_else(|| StoreError::unknown("account", &id))
    }

    pub fn create(&mut self, mut account: Account) -> Result<Account, StoreError> {
        rules::texts([&*account.name])?;
        if self.0.contains_key(&account.id) {
            return Err(StoreError::exists("account", &account.id));
        }
        account.created_at = micros(account.created_at);
        account.disabled_at = account.disabled_at.map(micros);
        self.0.insert(account.id, account.clone());
        Ok(account)
    }

    pub fn list(&self, query: &PageQuery) -> Page<Account> {
        let after = |account: &&Account| is_after(query, account.created_at, &account.id);
        let mut found: Vec<&Account> = self.0.values().filter(after).collect();
        found.sort_unstable_by_key(|account| std::cmp::Reverse((account.created_at, account.id)));
        page(found.into_iter(), query, |account| Cursor::at(account.created_at, &account.id))
    }

    pub fn set_limits(
        &mut self,
        id: AccountId,
        limits: AccountLimits,
    ) -> Result<Account, StoreError> {
        self.change(id, |account| account.limits = limits)
    }

    pub fn set_disabled(
        &mut self,
        id: AccountId,
        at: Option<Timestamp>,
    ) -> Result<Account, StoreError> {
        self.change(id, |account| account.disabled_at = at.map(micros))
    }

    fn change(
        &mut self,
        id: AccountId,
        change: impl FnOnce(&mut Account),
    ) -> Result<Account, StoreError> {
        let account = self.0.get_mut(&id).ok_or_else(|| StoreError::unknown("account", &id))?;
        change(account);
        Ok(account.clone())
    }
}
