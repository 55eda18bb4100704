//! API keys. The key itself is shown once and never kept: a keyed hash finds it again, a short
//! prefix lets people tell keys apart.
//!
//! A key is 256 random bits, so a slow hash would add nothing. The hash is keyed with a secret of
//! the installation that is not in the database, so that a stolen database does not even tell
//! whether a key belongs to it.

use std::collections::BTreeSet;
use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use sha2::Sha256;

use crate::id::{hex, random_bytes};
use crate::{AccountId, KeyId, StoreError};

/// How often, at most, a key's last use is written down, in seconds.
pub const TOUCH_SECONDS: i64 = 60;

const PREFIX: &str = KeyText::PREFIX;
/// Characters of a key that are shown later: those of the prefix and 24 bits.
const SHOWN: usize = PREFIX.len() + 6;

/// What a key may do. Closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyScope {
    /// Look at the account's sandboxes and usage.
    Read,
    /// Create, use, extend and destroy sandboxes.
    Sandboxes,
    /// Manage accounts, keys and balances of the whole service.
    Admin,
}

impl KeyScope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Read, Self::Sandboxes, Self::Admin];

    /// Its stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Sandboxes => "sandboxes",
            Self::Admin => "admin",
        }
    }

    /// The scope of that name.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

impl fmt::Display for KeyScope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// What is kept of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its id.
    pub id: KeyId,
    /// Whose it is.
    pub account_id: AccountId,
    /// What people call it.
    pub name: String,
    /// The first characters of the key, for display.
    pub prefix: String,
    /// What it may do.
    pub scopes: BTreeSet<KeyScope>,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is refused.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to about [`TOUCH_SECONDS`].
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// Whether a key works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum KeyStatus {
    Active,
    Expired,
    Revoked,
}

impl KeyStatus {
    /// Its stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl Key {
    /// Whether it works at `now`.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> KeyStatus {
        if self.revoked_at.is_some() {
            KeyStatus::Revoked
        } else if self.expires_at.is_some_and(|end| now >= end) {
            KeyStatus::Expired
        } else {
            KeyStatus::Active
        }
    }
}

/// A key as its owner holds it. Neither displayed nor logged by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl KeyText {
    /// What every key begins with.
    pub const PREFIX: &str = "holm_sk_";

    /// A new one: `holm_sk_` and 64 hex digits.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn random() -> Result<Self, StoreError> {
        Ok(Self(format!("{PREFIX}{}", hex(&random_bytes::<32>()?))))
    }

    /// The key itself, to be shown once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What may be shown later.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.0[..SHOWN]
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}…", self.prefix())
    }
}

/// The keyed hash of a key: HMAC-SHA-256 under the installation's secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHash(pub(crate) [u8; 32]);

impl fmt::Debug for KeyHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KeyHash")
    }
}

/// Makes hashes under one installation's secret, which the caller keeps outside of the database.
#[derive(Clone)]
pub struct KeyHasher {
    keyed: Hmac<Sha256>,
}

impl KeyHasher {
    /// Under `secret`, 32 random bytes.
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> Self {
        // HMAC takes keys of every length; a block is 64 bytes, padded with zeros as HMAC says.
        let mut block = [0; 64];
        block[..32].copy_from_slice(secret);
        Self { keyed: Hmac::new(&block.into()) }
    }

    /// Another secret of the same installation, for `purpose`. No key hashes to it: none that is
    /// presented begins with a NUL.
    #[must_use]
    pub fn derived(&self, purpose: &str) -> [u8; 32] {
        let mut keyed = self.keyed.clone();
        keyed.update(b"\0");
        keyed.update(purpose.as_bytes());
        keyed.finalize().into_bytes().into()
    }

    /// The hash of what a caller presented, whatever that is.
    #[must_use]
    pub fn hash(&self, presented: &str) -> KeyHash {
        let mut keyed = self.keyed.clone();
        keyed.update(presented.as_bytes());
        KeyHash(keyed.finalize().into_bytes().into())
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KeyHasher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_hmac_sha_256() {
        // Computed with
        // `printf 'holm_sk_x' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0101…01`.
        let hash = KeyHasher::new(&[1; 32]).hash("holm_sk_x");
        assert_eq!(
            hex(&hash.0),
            "1cfd4d2bcac9dee94dc48c134ee8717be7360d528c69d8525d0adc90f28aa376"
        );
        assert_ne!(hash, KeyHasher::new(&[2; 32]).hash("holm_sk_x"));
    }

    #[test]
    fn a_key_is_long_and_never_shown_by_accident() {
        let key = KeyText::random().unwrap();
        assert_eq!(key.reveal().len(), PREFIX.len() + 64);
        assert_eq!(format!("{key:?}"), format!("{}…", &key.reveal()[..14]));
        assert_ne!(key, KeyText::random().unwrap());
    }
}
