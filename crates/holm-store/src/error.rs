//! Why a store refused or failed. Displays a text that a caller may see; what only the log gets is
//! [`StoreError::internal`].

use std::error::Error;

use crate::{AccountId, KeyId, SandboxId, SandboxState};

/// What lies below.
pub type Source = Box<dyn Error + Send + Sync>;

/// Why a call was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The account has as many sandboxes as it may.
    #[error("the limit of {limit} sandboxes at once is reached")]
    AccountFull {
        /// The limit.
        limit: u32,
    },
    /// The node has as many sandboxes as it takes.
    #[error("this machine has no room: it takes {limit} sandboxes at once")]
    NodeFull {
        /// The limit.
        limit: u32,
    },
    /// There is a price, and nothing to pay it with.
    #[error("the account's balance is used up")]
    BalanceEmpty {
        /// The balance in micro-units; zero or below.
        balance: i64,
    },
    /// The account is disabled.
    #[error("the account {id} is disabled")]
    AccountDisabled {
        /// The account.
        id: AccountId,
    },
    /// The key was revoked or has expired, meanwhile.
    #[error("the key {id} was revoked or has expired")]
    KeyUnusable {
        /// The key.
        id: KeyId,
    },
    /// The sandbox has as many ports as it may.
    #[error("the limit of {limit} exposed ports of a sandbox is reached")]
    PortsFull {
        /// The limit.
        limit: u32,
    },
    /// The idempotency key belongs to another request.
    #[error("the idempotency key was used for a different request before")]
    IdempotencyReused {
        /// The key.
        key: String,
    },
    /// The state machine has no such arrow.
    #[error("the sandbox {id} cannot go from {from} to {to}")]
    Transition {
        /// The sandbox.
        id: SandboxId,
        /// Recorded state.
        from: SandboxState,
        /// Wanted state.
        to: SandboxState,
    },
    /// Somebody else has saved it since it was read.
    #[error("the sandbox {id} was changed by somebody else")]
    Stale {
        /// The sandbox.
        id: SandboxId,
    },
    /// It is not there (or not the caller's: the two look the same).
    #[error("there is no {what} {id}")]
    Unknown {
        /// Its kind.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// It is there already.
    #[error("the {what} {id} exists already")]
    Exists {
        /// Its kind.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// What was given cannot be stored.
    #[error("{what}")]
    Invalid {
        /// What is wrong with it.
        what: String,
    },
    /// The database was made by a newer holm.
    #[error(
        "the database has format {found} and this holm knows formats up to {known}: use the newer \
         holm that made it, or restore a backup from before"
    )]
    TooNew {
        /// The database's.
        found: i64,
        /// The newest known.
        known: i64,
    },
    /// The database cannot be reached, is busy for too long, or the connection broke. The call may
    /// be tried again.
    #[error("the service's store does not answer")]
    Unavailable {
        /// What was being done.
        step: &'static str,
        /// Why.
        source: Source,
    },
    /// The database refused something that it should not have.
    #[error("the service's store failed")]
    Database {
        /// What was being done.
        step: &'static str,
        /// Why.
        source: Source,
    },
    /// Something stored does not read back.
    #[error("the service's store failed")]
    Corrupt {
        /// What.
        what: String,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    Random {
        /// Why.
        source: std::io::Error,
    },
}

impl StoreError {
    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid { what: what.into() }
    }

    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into() }
    }

    pub(crate) fn unknown(what: &'static str, id: &dyn std::fmt::Display) -> Self {
        Self::Unknown { what, id: id.to_string() }
    }

    pub(crate) fn exists(what: &'static str, id: &dyn std::fmt::Display) -> Self {
        Self::Exists { what, id: id.to_string() }
    }

    pub(crate) fn database(step: &'static str, source: impl Into<Source>) -> Self {
        Self::Database { step, source: source.into() }
    }

    pub(crate) fn unavailable(step: &'static str, source: impl Into<Source>) -> Self {
        Self::Unavailable { step, source: source.into() }
    }

    /// True when the same call may succeed a little later.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Details for the log only: what was being done, and everything below.
    #[must_use]
    pub fn internal(&self) -> Option<String> {
        let mut text = match self {
            Self::Unavailable { step, .. } | Self::Database { step, .. } => (*step).to_owned(),
            Self::Corrupt { what } => return Some(what.clone()),
            Self::Random { .. } => "getrandom".to_owned(),
            _ => return None,
        };
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_text_hides_what_the_internal_one_tells() {
        let error = StoreError::database("commit", "disk I/O error at /var/lib/holm");
        assert_eq!(error.to_string(), "the service's store failed");
        assert_eq!(error.internal().unwrap(), "commit: disk I/O error at /var/lib/holm");
        assert_eq!(StoreError::AccountFull { limit: 20 }.internal(), None);
    }
}
