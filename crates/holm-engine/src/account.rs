//! Accounts: who owns and who pays. Managed by those who may administer the service.

use std::time::Duration;

use holm_gate::EgressPolicy;
use holm_store::{
    Account, AccountId, AccountLimits, Credit, Entry, EntryKind, KeyScope, Page, PageQuery,
    StoreError,
};
use jiff::Timestamp;
use serde_json::json;

use crate::{Engine, Error};

/// Most characters of a name.
const MAX_NAME: usize = 64;
/// Most characters of a reference.
const MAX_REFERENCE: usize = 255;

/// Request of `account_create`.
#[derive(Debug, Clone, Default)]
pub struct NewAccount {
    /// What people call it (1 to 64 characters); two may have the same name.
    pub name: String,
    /// What it may use; what is not set is the service's default.
    pub limits: AccountLimits,
}

/// Other limits for an account: what is there changes, to the service's own where nothing is inside.
#[derive(Debug, Clone, Default)]
pub struct AccountChange {
    /// Sandboxes at once.
    pub max_sandboxes: Option<Option<u32>>,
    /// Longest life of a sandbox.
    pub max_lifetime: Option<Option<Duration>>,
    /// What its sandboxes may reach at most.
    pub network: Option<Option<EgressPolicy>>,
}

/// Refuses a name that nobody could read.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let length = name.chars().count();
    if length == 0 || length > MAX_NAME || name.chars().any(char::is_control) {
        return Err(Error::invalid(format!(
            "name must have 1 to {MAX_NAME} characters and no control characters"
        )));
    }
    Ok(())
}

/// Refuses a reference that nobody could read or find again.
fn check_reference(reference: &str) -> Result<(), Error> {
    let length = reference.chars().count();
    if length == 0 || length > MAX_REFERENCE || reference.chars().any(char::is_control) {
        return Err(Error::invalid(format!(
            "reference must have 1 to {MAX_REFERENCE} characters and no control characters"
        )));
    }
    Ok(())
}

fn check_limits(limits: &AccountLimits) -> Result<(), Error> {
    if limits.max_lifetime.is_some_and(|lifetime| lifetime.is_zero()) {
        return Err(Error::invalid(
            "the longest lifetime of an account's sandboxes must be above 0",
        ));
    }
    if let Some(network) = &limits.network {
        let network = EgressPolicy::parse_json(network);
        network.map_err(|error| Error::invalid(error.to_string()))?;
    }
    Ok(())
}

impl Engine {
    /// Makes an account.
    ///
    /// # Errors
    /// `forbidden` without the scope `admin`, as all calls here; `invalid_argument`.
    pub async fn account_create(&self, request: NewAccount) -> Result<Account, Error> {
        self.caller.needs(KeyScope::Admin)?;
        check_name(&request.name)?;
        check_limits(&request.limits)?;
        let account = Account::new(AccountId::random()?, request.name);
        let account = Account { limits: request.limits, ..account };
        let id = account.id.to_string();
        let made = self.inner.store.account_create(account).await.map_err(Error::from);
        self.audit_result("account.create", Some(id), &made, json!({}));
        made
    }

    /// One account: any for an administrator, the own one for everybody who may read.
    ///
    /// # Errors
    /// `forbidden`, `not_found`.
    pub async fn account_get(&self, id: AccountId) -> Result<Account, Error> {
        self.may_read_account(id)?;
        match self.inner.store.account_get(id).await? {
            Some(account) => Ok(account),
            None => Err(StoreError::Unknown { what: "account", id: id.to_string() }.into()),
        }
    }

    /// All accounts, newest first.
    ///
    /// # Errors
    /// `forbidden`.
    pub async fn account_list(&self, page: PageQuery) -> Result<Page<Account>, Error> {
        self.caller.needs(KeyScope::Admin)?;
        Ok(self.inner.store.account_list(page).await?)
    }

    /// Gives it other limits; what it has already stays.
    ///
    /// # Errors
    /// `forbidden`, `not_found`, `invalid_argument`.
    pub async fn account_set_limits(
        &self,
        id: AccountId,
        limits: AccountLimits,
    ) -> Result<Account, Error> {
        self.caller.needs(KeyScope::Admin)?;
        check_limits(&limits)?;
        let detail = json!({
            "max_sandboxes": limits.max_sandboxes,
            "max_lifetime_seconds": limits.max_lifetime.map(|lifetime| lifetime.as_secs()),
            "network": limits.network,
        });
        let set = self.inner.store.account_set_limits(id, limits).await.map_err(Error::from);
        self.audit_result("account.set_limits", Some(id.to_string()), &set, detail);
        if let Ok(account) = &set {
            self.network_ceiling(account);
        }
        set
    }

    /// Gives it some other limits; what has no other stays. What its sandboxes may reach counts for
    /// those that run, too.
    ///
    /// # Errors
    /// As [`Self::account_set_limits`].
    pub async fn account_change(
        &self,
        id: AccountId,
        change: AccountChange,
    ) -> Result<Account, Error> {
        self.caller.needs(KeyScope::Admin)?;
        let mut limits = self.account_get(id).await?.limits;
        if let Some(count) = change.max_sandboxes {
            limits.max_sandboxes = count;
        }
        if let Some(lifetime) = change.max_lifetime {
            limits.max_lifetime = lifetime;
        }
        if let Some(network) = change.network {
            limits.network = network.map(|network| network.to_json());
        }
        self.account_set_limits(id, limits).await
    }

    /// Disables an account, or enables it again. Disabled, its keys are refused and nothing new
    /// is made for it; its sandboxes live to their lease.
    ///
    /// # Errors
    /// `forbidden`, `not_found`.
    pub async fn account_set_disabled(
        &self,
        id: AccountId,
        disabled: bool,
    ) -> Result<Account, Error> {
        self.caller.needs(KeyScope::Admin)?;
        let at = disabled.then(Timestamp::now);
        let set = self.inner.store.account_set_disabled(id, at).await.map_err(Error::from);
        let action = if disabled { "account.disable" } else { "account.enable" };
        self.audit_result(action, Some(id.to_string()), &set, json!({}));
        self.inner.key_ends.wake();
        set
    }

    /// Pays in `amount` micro-units. The same `reference` with the same amount counts once.
    ///
    /// # Errors
    /// `forbidden`, `not_found`, `invalid_argument` unless the amount is above zero, `conflict`
    /// when the reference was used for another amount.
    pub async fn account_topup(
        &self,
        id: AccountId,
        amount: i64,
        reference: Option<String>,
    ) -> Result<Entry, Error> {
        self.credit(id, EntryKind::Topup, amount, reference).await
    }

    /// Corrects a balance by `amount` micro-units, which may be below zero.
    ///
    /// # Errors
    /// As [`Self::account_topup`].
    pub async fn account_adjust(
        &self,
        id: AccountId,
        amount: i64,
        reference: Option<String>,
    ) -> Result<Entry, Error> {
        self.credit(id, EntryKind::Adjust, amount, reference).await
    }

    async fn credit(
        &self,
        account_id: AccountId,
        kind: EntryKind,
        amount: i64,
        reference: Option<String>,
    ) -> Result<Entry, Error> {
        self.caller.needs(KeyScope::Admin)?;
        reference.as_deref().map_or(Ok(()), check_reference)?;
        let detail = json!({"amount": amount, "reference": reference});
        let credit = Credit { account_id, kind, amount, reference };
        let added = self.inner.store.ledger_add(credit).await.map_err(Error::from);
        let action = match kind {
            EntryKind::Topup => "account.topup",
            _ => "account.adjust",
        };
        self.audit_result(action, Some(account_id.to_string()), &added, detail);
        let entry = added?;
        self.inner.meter.seen(account_id, entry.balance_after);
        Ok(entry)
    }

    /// What an account has, in micro-units.
    ///
    /// # Errors
    /// `forbidden`, `not_found`.
    pub async fn account_balance(&self, id: AccountId) -> Result<i64, Error> {
        self.may_read_account(id)?;
        Ok(self.inner.store.ledger_balance(id).await?)
    }

    /// Where an account's money came from and went to, newest first.
    ///
    /// # Errors
    /// `forbidden`.
    pub async fn ledger_list(&self, id: AccountId, page: PageQuery) -> Result<Page<Entry>, Error> {
        self.may_read_account(id)?;
        Ok(self.inner.store.ledger_list(id, page).await?)
    }

    fn may_read_account(&self, id: AccountId) -> Result<(), Error> {
        let own = id == self.caller.account && self.caller.may(KeyScope::Read);
        if own { Ok(()) } else { self.caller.needs(KeyScope::Admin) }
    }
}
