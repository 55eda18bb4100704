//! The audit log: who did what to what, and what came of it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use holm_store::{
    AccountId, AuditEvent, AuditId, KeyId, KeyScope, Outcome, Owner, Page, PageQuery,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{Engine, Error, ErrorKind};

/// Failed calls of one kind and account that are written down in one [`PERIOD`]; of more, only how
/// many there were.
const REFUSALS: u32 = 60;
const PERIOD: Duration = Duration::from_secs(60);

/// What is counted together.
type Kind = (Option<AccountId>, &'static str);

/// Keeps callers whose calls fail from filling the log.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<Kind, Window>>);

#[derive(Debug)]
struct Window {
    since: Instant,
    seen: u32,
    /// Since the last one that was written down.
    unwritten: u32,
}

impl Refusals {
    /// Whether one more is written down, and then how many were not before it.
    fn count(&self, kind: Kind, now: Instant) -> Option<u32> {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |window: &Window| now.duration_since(window.since) >= PERIOD;
        // Those of which there is nothing left to tell.
        windows.retain(|other, window| *other == kind || window.unwritten > 0 || !is_over(window));
        let fresh = Window { since: now, seen: 0, unwritten: 0 };
        let window = windows.entry(kind).or_insert(fresh);
        if is_over(window) {
            window.since = now;
            window.seen = 0;
        }
        if window.seen >= REFUSALS {
            window.unwritten = window.unwritten.saturating_add(1);
            return None;
        }
        window.seen += 1;
        Some(std::mem::take(&mut window.unwritten))
    }
}

/// What came of a call that failed so.
pub(crate) fn outcome_of(error: &Error) -> Outcome {
    match error.kind {
        ErrorKind::Unauthorized
        | ErrorKind::Forbidden
        | ErrorKind::InsufficientBalance
        | ErrorKind::QuotaExceeded
        | ErrorKind::Capacity
        | ErrorKind::Conflict
        | ErrorKind::InvalidArgument => Outcome::Refused,
        _ => Outcome::Failed,
    }
}

impl Engine {
    /// Audit events, newest first: one account's, or all of them.
    ///
    /// # Errors
    /// `forbidden` without the scope `admin`; `unavailable`, `internal`.
    pub async fn audit_list(
        &self,
        account: Option<AccountId>,
        page: PageQuery,
    ) -> Result<Page<AuditEvent>, Error> {
        self.caller.needs(KeyScope::Admin)?;
        let owner = account.map_or(Owner::Any, Owner::Account);
        Ok(self.inner.store.audit_list(owner, page).await?)
    }

    /// Writes down in the background what the caller did, so that nobody waits for it. A shutdown
    /// does.
    pub(crate) fn audit(
        &self,
        action: &'static str,
        target: Option<String>,
        outcome: Outcome,
        detail: Value,
    ) {
        let who = (Some(self.caller.account), self.caller.key);
        self.audit_of(who, action, target, outcome, detail);
    }

    /// Writes down how a call of the caller went; of failed ones so many as say what happened.
    pub(crate) fn audit_result<T>(
        &self,
        action: &'static str,
        target: Option<String>,
        result: &Result<T, Error>,
        mut detail: Value,
    ) {
        let outcome = match result {
            Ok(_) => Outcome::Done,
            Err(error) => {
                let kind = (Some(self.caller.account), action);
                let Some(unwritten) = self.inner.refusals.count(kind, Instant::now()) else {
                    return;
                };
                if unwritten > 0 {
                    detail["more_before"] = json!(unwritten);
                }
                detail["error"] = json!(error.kind.as_str());
                outcome_of(error)
            }
        };
        self.audit(action, target, outcome, detail);
    }

    /// Writes down that a key was refused.
    pub(crate) fn audit_refusal(
        &self,
        who: (Option<AccountId>, Option<KeyId>),
        reason: &'static str,
    ) {
        // All together: what is presented as a key tells nobody apart.
        let kind = (None, "key.use");
        let Some(unwritten) = self.inner.refusals.count(kind, Instant::now()) else { return };
        let mut detail = json!({"reason": reason});
        if unwritten > 0 {
            detail["more_before"] = json!(unwritten);
        }
        let target = who.1.map(|key| key.to_string());
        self.audit_of(who, "key.use", target, Outcome::Refused, detail);
    }

    fn audit_of(
        &self,
        (account_id, key_id): (Option<AccountId>, Option<KeyId>),
        action: &'static str,
        target: Option<String>,
        outcome: Outcome,
        detail: Value,
    ) {
        let id = match AuditId::random() {
            Ok(id) => id,
            Err(error) => {
                tracing::error!(action, internal = error.internal(), "not in the audit log");
                return;
            }
        };
        let at = Timestamp::now();
        let action_text = action.to_owned();
        let event =
            AuditEvent { id, at, account_id, key_id, action: action_text, target, outcome, detail };
        let adding = self.inner.store.audit_add(event);
        self.inner.tasks.spawn(async move {
            if let Err(error) = adding.await {
                tracing::error!(action, internal = error.internal(), "not in the audit log");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_written_down_up_to_a_rate_and_counted_beyond_it() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        let kind = (None, "key.use");
        let written = (0..1000).filter(|_| refusals.count(kind, start) == Some(0)).count();
        assert_eq!(written, 60);
        // Whoever fills one window leaves the others alone.
        let other = (Some(AccountId::ZERO), "sandbox.create");
        assert_eq!(refusals.count(other, start), Some(0));
        assert_eq!(refusals.count(kind, start + PERIOD), Some(940));
        assert_eq!(refusals.count(kind, start + PERIOD), Some(0));
        assert_eq!(refusals.0.lock().expect("no panic").len(), 1, "what is over is forgotten");
    }
}
