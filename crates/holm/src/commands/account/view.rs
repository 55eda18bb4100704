//! An account as it is printed.

use holm_engine::Account;
use serde::Serialize;

use crate::settings::money;

/// What `--json` prints. Money is in millionths of the currency's unit.
#[derive(Serialize)]
pub(super) struct View {
    id: String,
    name: String,
    created_at: String,
    balance: i64,
    currency: String,
    /// Nothing where the service's limit counts.
    max_sandboxes: Option<u32>,
    /// The same.
    max_lifetime_seconds: Option<u64>,
    disabled: bool,
}

impl View {
    /// The columns of [`Self::row`].
    pub const HEAD: [&'static str; 5] = ["ID", "NAME", "BALANCE", "SANDBOXES", "CREATED"];

    pub fn new(account: &Account, balance: i64, currency: &str) -> Self {
        Self {
            id: account.id.to_string(),
            name: account.name.clone(),
            created_at: account.created_at.to_string(),
            balance,
            currency: currency.to_owned(),
            max_sandboxes: account.limits.max_sandboxes,
            max_lifetime_seconds: account.limits.max_lifetime.map(|time| time.as_secs()),
            disabled: account.disabled_at.is_some(),
        }
    }

    /// One line of a table.
    pub fn row(&self) -> Vec<String> {
        let disabled = if self.disabled { " (disabled)" } else { "" };
        let limit = self.max_sandboxes.map_or("default".to_owned(), |count| count.to_string());
        vec![
            self.id.clone(),
            format!("{}{disabled}", self.name),
            format!("{} {}", money::show(self.balance), self.currency),
            limit,
            self.created_at.chars().take(19).collect(),
        ]
    }
}
