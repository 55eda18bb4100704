//! Accounts: who owns sandboxes and who pays for them.

use std::time::Duration;

use jiff::Timestamp;

use crate::AccountId;

/// An account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// What people call it; two may have the same name.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// What it may use.
    pub limits: AccountLimits,
    /// Set while it is disabled: nothing new is created for it.
    pub disabled_at: Option<Timestamp>,
}

impl Account {
    /// A new one with the service's default limits.
    #[must_use]
    pub fn new(id: AccountId, name: impl Into<String>) -> Self {
        Self {
            id,
            name: name.into(),
            created_at: Timestamp::now(),
            limits: AccountLimits::default(),
            disabled_at: None,
        }
    }
}

/// Limits of one account. What is not set is the service's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountLimits {
    /// Sandboxes that are not over, at once.
    pub max_sandboxes: Option<u32>,
    /// Longest life of a sandbox from ready.
    pub max_lifetime: Option<Duration>,
    /// What its sandboxes may reach at most. Opaque.
    pub network: Option<serde_json::Value>,
}
