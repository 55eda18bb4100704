//! API keys: made, listed and revoked by those who may administer the service. The key itself is
//! answered once, by the call that makes it, and kept nowhere.

use std::collections::BTreeSet;

use holm_store::{AccountId, Key, KeyHasher, KeyId, KeyScope, KeyText, Owner, Page, PageQuery};
use jiff::Timestamp;
use serde_json::json;

use crate::account::check_name;
use crate::{Engine, Error};

/// Request of `key_create`.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Whose it will be.
    pub account: AccountId,
    /// What people call it (1 to 64 characters).
    pub name: String,
    /// What it may do; at least one.
    pub scopes: BTreeSet<KeyScope>,
    /// From when on it is refused.
    pub expires_at: Option<Timestamp>,
}

impl NewKey {
    /// One that may use sandboxes, without an end.
    #[must_use]
    pub fn new(account: AccountId, name: impl Into<String>) -> Self {
        let scopes = [KeyScope::Read, KeyScope::Sandboxes].into();
        Self { account, name: name.into(), scopes, expires_at: None }
    }
}

/// Answer of `key_create`.
#[derive(Debug, Clone)]
pub struct CreatedKey {
    /// What is kept of it.
    pub key: Key,
    /// The key itself, to be shown now or never.
    pub text: KeyText,
}

impl Engine {
    /// A secret for `purpose`: the installation's, where it has one, so that it is the same after a
    /// restart; else a new one.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn secret_for(&self, purpose: &str) -> Result<[u8; 32], Error> {
        match &self.inner.settings.keys {
            Some(keys) => Ok(keys.derived(purpose)),
            None => crate::random_bytes(),
        }
    }

    pub(crate) fn hasher(&self) -> Result<&KeyHasher, Error> {
        self.inner.settings.keys.as_ref().ok_or_else(|| {
            Error::invalid("this holm works without API keys")
                .suggest("Start it with `holm serve`, whose data directory holds their secret.")
        })
    }

    /// Makes a key.
    ///
    /// # Errors
    /// `forbidden` without the scope `admin`, as all calls here; `not_found` without such an
    /// account; `invalid_argument`.
    pub async fn key_create(&self, request: NewKey) -> Result<CreatedKey, Error> {
        self.caller.needs(KeyScope::Admin)?;
        let hasher = self.hasher()?;
        check_name(&request.name)?;
        if request.scopes.is_empty() {
            return Err(Error::invalid("a key needs at least one scope: read, sandboxes, admin"));
        }
        let now = Timestamp::now();
        if request.expires_at.is_some_and(|end| end <= now) {
            return Err(Error::invalid("expires_at of a new key must be in the future"));
        }
        let text = KeyText::random()?;
        let scopes: Vec<&str> = request.scopes.iter().map(|scope| scope.as_str()).collect();
        let detail = json!({"account": request.account, "scopes": scopes});
        let key = Key {
            id: KeyId::random()?,
            account_id: request.account,
            name: request.name,
            prefix: text.prefix().to_owned(),
            scopes: request.scopes,
            created_at: now,
            expires_at: request.expires_at,
            last_used_at: None,
            revoked_at: None,
        };
        let id = key.id.to_string();
        let made = self.inner.store.key_create(key, hasher.hash(text.reveal())).await;
        let made = made.map_err(Error::from);
        self.audit_result("key.create", Some(id), &made, detail);
        Ok(CreatedKey { key: made?, text })
    }

    /// Keys, newest first: one account's, or all of them.
    ///
    /// # Errors
    /// `forbidden`.
    pub async fn key_list(
        &self,
        account: Option<AccountId>,
        page: PageQuery,
    ) -> Result<Page<Key>, Error> {
        self.caller.needs(KeyScope::Admin)?;
        let owner = account.map_or(Owner::Any, Owner::Account);
        Ok(self.inner.store.key_list(owner, page).await?)
    }

    /// Revokes a key, from now on and for good: no call that begins after the answer succeeds
    /// with it, and what a face runs with it ends. One that is revoked already stays as it is.
    ///
    /// # Errors
    /// `forbidden`, `not_found`.
    pub async fn key_revoke(&self, id: KeyId) -> Result<Key, Error> {
        self.caller.needs(KeyScope::Admin)?;
        let revoked = self.inner.store.key_revoke(Owner::Any, id, Timestamp::now()).await;
        let revoked = revoked.map_err(Error::from);
        self.audit_result("key.revoke", Some(id.to_string()), &revoked, json!({}));
        self.inner.key_ends.wake();
        revoked
    }
}
