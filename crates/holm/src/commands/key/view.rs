//! A key as it is printed: never the key itself.

use holm_engine::{Key, KeyStatus};
use jiff::Timestamp;
use serde::Serialize;

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct View {
    id: String,
    account: String,
    name: String,
    /// The key's first characters.
    prefix: String,
    pub scopes: Vec<&'static str>,
    status: &'static str,
    created_at: String,
    expires_at: Option<String>,
    last_used_at: Option<String>,
    revoked_at: Option<String>,
}

impl View {
    /// The columns of [`Self::row`].
    pub const HEAD: [&'static str; 7] =
        ["ID", "ACCOUNT", "NAME", "KEY", "SCOPES", "STATUS", "LAST USED"];

    pub fn new(key: &Key, now: Timestamp) -> Self {
        Self {
            id: key.id.to_string(),
            account: key.account_id.to_string(),
            name: key.name.clone(),
            prefix: key.prefix.clone(),
            scopes: key.scopes.iter().map(|scope| scope.as_str()).collect(),
            status: match key.status(now) {
                KeyStatus::Active => "active",
                KeyStatus::Expired => "expired",
                KeyStatus::Revoked => "revoked",
            },
            created_at: key.created_at.to_string(),
            expires_at: key.expires_at.map(|at| at.to_string()),
            last_used_at: key.last_used_at.map(|at| at.to_string()),
            revoked_at: key.revoked_at.map(|at| at.to_string()),
        }
    }

    /// One line of a table.
    pub fn row(&self) -> Vec<String> {
        let used = self.last_used_at.as_deref().unwrap_or("never");
        vec![
            self.id.clone(),
            self.account.clone(),
            self.name.clone(),
            format!("{}…", self.prefix),
            self.scopes.join(","),
            self.status.to_owned(),
            used.chars().take(19).collect(),
        ]
    }
}
