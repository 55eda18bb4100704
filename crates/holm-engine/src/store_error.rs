//! What a store's refusals and failures mean to a caller.

use holm_store::StoreError;

use crate::{Error, ErrorKind};

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let internal = error.internal();
        let text = error.to_string();
        let kind = match &error {
            StoreError::AccountFull { .. } | StoreError::PortsFull { .. } => {
                ErrorKind::QuotaExceeded
            }
            StoreError::NodeFull { .. } => ErrorKind::Capacity,
            StoreError::BalanceEmpty { .. } => ErrorKind::InsufficientBalance,
            StoreError::AccountDisabled { .. } => ErrorKind::Forbidden,
            StoreError::KeyUnusable { .. } => ErrorKind::Unauthorized,
            StoreError::IdempotencyReused { .. } | StoreError::Exists { .. } => ErrorKind::Conflict,
            StoreError::Unknown { .. } => ErrorKind::NotFound,
            StoreError::Invalid { .. } => ErrorKind::InvalidArgument,
            StoreError::Unavailable { .. } => ErrorKind::Unavailable,
            StoreError::Transition { .. }
            | StoreError::Stale { .. }
            | StoreError::TooNew { .. }
            | StoreError::Database { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Random { .. } => {
                return Self::internal("store", &internal.unwrap_or(text));
            }
        };
        let suggestion = match &error {
            StoreError::NodeFull { .. } => Some(
                "Try again when a sandbox on this machine has ended, or ask the operator to raise \
                 its limit.",
            ),
            StoreError::PortsFull { .. } => Some("Unexpose a port that is no longer needed."),
            StoreError::AccountDisabled { .. } => {
                Some("Ask the operator of this service to enable the account again.")
            }
            StoreError::IdempotencyReused { .. } => Some(
                "Use a new idempotency key for a different request, or repeat the request exactly.",
            ),
            StoreError::Exists { .. } => Some("Use another one, or repeat the request exactly."),
            StoreError::Unknown { .. } => Some("Check the id."),
            StoreError::Unavailable { .. } => Some("Try again in a few seconds."),
            _ => None,
        };
        let mut new = Self::new(kind, text);
        new.internal = internal;
        match suggestion {
            Some(suggestion) => new.suggest(suggestion),
            None => new,
        }
    }
}

#[cfg(test)]
mod tests {
    use holm_store::{AccountId, KeyId, SandboxId, SandboxState};

    use super::*;

    fn check(error: StoreError, kind: ErrorKind, part: &str) {
        let error = Error::from(error);
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.public.contains(part), "{error}");
        assert!(!error.public.contains("/var"), "host details are for the log: {error}");
    }

    #[test]
    fn each_refusal_has_its_kind() {
        let id = SandboxId::ZERO;
        let source = || "disk I/O error at /var/lib/holm".into();
        check(StoreError::AccountFull { limit: 5 }, ErrorKind::QuotaExceeded, "5 sandboxes");
        check(StoreError::NodeFull { limit: 5 }, ErrorKind::Capacity, "this machine");
        check(StoreError::BalanceEmpty { balance: 0 }, ErrorKind::InsufficientBalance, "used up");
        let account = StoreError::AccountDisabled { id: AccountId::ZERO };
        check(account, ErrorKind::Forbidden, "disabled");
        check(StoreError::KeyUnusable { id: KeyId::ZERO }, ErrorKind::Unauthorized, "revoked");
        let reused = StoreError::IdempotencyReused { key: "k".to_owned() };
        check(reused, ErrorKind::Conflict, "different request");
        let unknown = StoreError::Unknown { what: "account", id: "x".to_owned() };
        check(unknown, ErrorKind::NotFound, "account x");
        let unavailable = StoreError::Unavailable { step: "s", source: source() };
        check(unavailable, ErrorKind::Unavailable, "does not answer");
        let failed = StoreError::Database { step: "s", source: source() };
        check(failed, ErrorKind::Internal, "inner step (store)");
        check(StoreError::Stale { id }, ErrorKind::Internal, "inner step (store)");
        let (from, to) = (SandboxState::Deleted, SandboxState::Running);
        check(StoreError::Transition { id, from, to }, ErrorKind::Internal, "inner step (store)");
    }
}
