//! From a presented key to a caller.
//!
//! Only a keyed hash of what was presented is looked up, so how long that takes says nothing
//! about the keys that exist. Nothing is cached: each call asks the store.

use std::fmt;
use std::num::NonZeroU32;

use holm_store::{Account, Key, KeyStatus};
use jiff::Timestamp;

use crate::{Caller, Engine, Error, ErrorKind};

/// Why a key does not open anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// There is no such key.
    Unknown,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
    /// Its account is disabled.
    AccountDisabled,
}

impl Refusal {
    /// Every refusal.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::Expired, Self::Revoked, Self::AccountDisabled];

    /// Why this key opens nothing at `now`, if so. One whose account is gone is as good as disabled.
    pub(crate) fn of(key: &Key, account: Option<&Account>, now: Timestamp) -> Option<Self> {
        match key.status(now) {
            KeyStatus::Revoked => Some(Self::Revoked),
            KeyStatus::Expired => Some(Self::Expired),
            KeyStatus::Active => account
                .is_none_or(|account| account.disabled_at.is_some())
                .then_some(Self::AccountDisabled),
        }
    }

    /// Its stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::AccountDisabled => "account_disabled",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unknown => "this API key is not known here",
            Self::Expired => "this API key has expired",
            Self::Revoked => "this API key was revoked",
            Self::AccountDisabled => "the account of this API key is disabled",
        })
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let text = refusal.to_string();
        match refusal {
            Refusal::AccountDisabled => Self::new(ErrorKind::Forbidden, text)
                .suggest("Ask the operator of this service to enable the account again."),
            Refusal::Unknown => Self::new(ErrorKind::Unauthorized, text),
            Refusal::Expired | Refusal::Revoked => Self::new(ErrorKind::Unauthorized, text)
                .suggest("Ask the operator for a new key (`holm key create`)."),
        }
    }
}

impl Engine {
    /// Who presents this key, as of this moment. A refusal is written into the audit log, without
    /// the key; a use is written down with the key, about once a minute.
    ///
    /// # Errors
    /// `unavailable` or `internal` when it cannot be found out.
    pub async fn authenticate(&self, presented: &str) -> Result<Result<Caller, Refusal>, Error> {
        let Some(hasher) = &self.inner.settings.keys else { return Ok(Err(Refusal::Unknown)) };
        let hash = hasher.hash(presented);
        let Some((key, account)) = self.inner.store.key_by_hash(hash).await? else {
            return Ok(Err(self.refuse((None, None), Refusal::Unknown)));
        };
        let who = (Some(account.id), Some(key.id));
        let now = Timestamp::now();
        if let Some(refusal) = Refusal::of(&key, Some(&account), now) {
            return Ok(Err(self.refuse(who, refusal)));
        }
        let caller = Caller {
            account: account.id,
            key: Some(key.id),
            scopes: key.scopes.clone(),
            session: None,
        };
        self.touch_later(key, now);
        Ok(Ok(caller))
    }

    /// Counts a request of the caller against the rate of its key. For faces, once for each
    /// request; a caller without a key has no rate.
    ///
    /// # Errors
    /// [`ErrorKind::RateLimited`].
    pub fn admit(&self) -> Result<(), Error> {
        let Some(key) = self.caller.key else { return Ok(()) };
        self.inner.key_rates.take(key).map_err(|wait| {
            let text = "this API key makes more requests than it may";
            let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            let retry_after = NonZeroU32::new(seconds);
            Error { retry_after, ..Error::new(ErrorKind::RateLimited, text) }
        })
    }

    fn refuse(
        &self,
        who: (Option<holm_store::AccountId>, Option<holm_store::KeyId>),
        refusal: Refusal,
    ) -> Refusal {
        tracing::warn!(key = ?who.1, reason = refusal.as_str(), "API key refused");
        self.audit_refusal(who, refusal.as_str());
        refusal
    }

    /// Nobody waits for it, and it is no reason to refuse a call.
    fn touch_later(&self, key: Key, now: Timestamp) {
        let id = key.id;
        let touching = self.inner.store.key_touch(key, now);
        self.inner.tasks.spawn(async move {
            if let Err(error) = touching.await {
                tracing::warn!(%id, internal = error.internal(), "use of a key not recorded");
            }
        });
    }
}
