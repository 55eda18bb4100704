//! Accounts, payments and keys as they are printed: the same from a database and from a service.

use holm_client::rest;
use holm_engine::{Account, Entry, Key};
use jiff::Timestamp;
use serde::Serialize;

use crate::settings::money;

/// An account. Money is in millionths of the currency's unit.
#[derive(Debug, Serialize)]
pub struct AccountView {
    /// Its id.
    pub id: String,
    name: String,
    created_at: String,
    balance: i64,
    currency: String,
    /// Nothing where the service's limit counts.
    max_sandboxes: Option<u32>,
    /// The same.
    max_lifetime_seconds: Option<u64>,
    /// What its sandboxes may reach at most; the same.
    network: Option<serde_json::Value>,
    disabled: bool,
}

/// A payment. Money is in millionths of the currency's unit.
#[derive(Debug, Serialize)]
pub struct PaymentView {
    /// Whose money.
    pub account: String,
    entry: String,
    amount: i64,
    /// What the account has now.
    pub balance: i64,
    /// What it is counted in.
    pub currency: String,
}

/// A key: never the key itself.
#[derive(Debug, Serialize)]
pub struct KeyView {
    /// Its id.
    pub id: String,
    account: String,
    name: String,
    /// The key's first characters.
    prefix: String,
    /// What it may do.
    pub scopes: Vec<String>,
    status: String,
    created_at: String,
    expires_at: Option<String>,
    last_used_at: Option<String>,
    revoked_at: Option<String>,
}

/// A key that was made just now.
#[derive(Serialize)]
pub struct MadeKey {
    /// The key itself: shown now or never.
    pub key: String,
    /// What is kept of it.
    #[serde(flatten)]
    pub view: KeyView,
}

impl AccountView {
    /// The columns of [`Self::row`].
    pub const HEAD: [&'static str; 5] = ["ID", "NAME", "BALANCE", "SANDBOXES", "CREATED"];

    pub(super) fn of_engine(account: &Account, balance: i64, currency: &str) -> Self {
        Self {
            id: account.id.to_string(),
            name: account.name.clone(),
            created_at: time(account.created_at),
            balance,
            currency: currency.to_owned(),
            max_sandboxes: account.limits.max_sandboxes,
            max_lifetime_seconds: account.limits.max_lifetime.map(|time| time.as_secs()),
            network: account.limits.network.clone(),
            disabled: account.disabled_at.is_some(),
        }
    }

    pub(super) fn of_service(account: rest::Account, currency: &str) -> Self {
        Self {
            id: account.id,
            name: account.name,
            created_at: account.created_at,
            balance: account.balance.map_or(0, money::of_units),
            currency: currency.to_owned(),
            max_sandboxes: account.max_sandboxes,
            max_lifetime_seconds: account.max_lifetime_minutes.map(|time| time.saturating_mul(60)),
            network: account.network,
            disabled: account.disabled_at.is_some(),
        }
    }

    /// One line of a table.
    #[must_use]
    pub fn row(&self) -> Vec<String> {
        let disabled = if self.disabled { " (disabled)" } else { "" };
        let limit = self.max_sandboxes.map_or("default".to_owned(), |count| count.to_string());
        vec![
            self.id.clone(),
            format!("{}{disabled}", self.name),
            format!("{} {}", money::show(self.balance), self.currency),
            limit,
            for_table(&self.created_at),
        ]
    }
}

impl PaymentView {
    pub(super) fn of_engine(entry: &Entry, currency: &str) -> Self {
        Self {
            account: entry.account_id.to_string(),
            entry: entry.id.to_string(),
            amount: entry.amount,
            balance: entry.balance_after,
            currency: currency.to_owned(),
        }
    }

    pub(super) fn of_service(entry: rest::Entry, currency: String) -> Self {
        Self {
            account: entry.account_id,
            entry: entry.id,
            amount: money::of_units(entry.amount),
            balance: money::of_units(entry.balance_after),
            currency,
        }
    }
}

impl KeyView {
    /// The columns of [`Self::row`].
    pub const HEAD: [&'static str; 7] =
        ["ID", "ACCOUNT", "NAME", "KEY", "SCOPES", "STATUS", "LAST USED"];

    /// One line of a table.
    #[must_use]
    pub fn row(&self) -> Vec<String> {
        vec![
            self.id.clone(),
            self.account.clone(),
            self.name.clone(),
            format!("{}…", self.prefix),
            self.scopes.join(","),
            self.status.clone(),
            self.last_used_at.as_deref().map_or("never".to_owned(), for_table),
        ]
    }
}

impl From<&Key> for KeyView {
    fn from(key: &Key) -> Self {
        Self {
            id: key.id.to_string(),
            account: key.account_id.to_string(),
            name: key.name.clone(),
            prefix: key.prefix.clone(),
            scopes: key.scopes.iter().map(ToString::to_string).collect(),
            status: key.status(Timestamp::now()).as_str().to_owned(),
            created_at: time(key.created_at),
            expires_at: key.expires_at.map(time),
            last_used_at: key.last_used_at.map(time),
            revoked_at: key.revoked_at.map(time),
        }
    }
}

impl From<rest::Key> for KeyView {
    fn from(key: rest::Key) -> Self {
        Self {
            id: key.id,
            account: key.account_id,
            name: key.name,
            prefix: key.prefix,
            scopes: key.scopes,
            status: key.status,
            created_at: key.created_at,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
            revoked_at: key.revoked_at,
        }
    }
}

/// A moment to the second, as the service writes it.
pub(super) fn time(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The same without its zone, which is always UTC.
pub(super) fn for_table(time: &str) -> String {
    time.trim_end_matches('Z').to_owned()
}
