//! Secrets of accounts, sealed: what a database holds of them can be opened only with a key that is
//! not in it, and only for the account, the name and the hosts with which it was sealed.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use ring::aead::{self, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use sha2::{Digest as _, Sha256};

use crate::id::random_bytes;
use crate::{AccountId, StoreError, secret};

/// Keys in a key file at most: the one in use, and older ones.
const KEYS: usize = 16;
/// Bytes that say which key sealed something.
const MARK: usize = 8;

/// A secret of an account, as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Whose it is.
    pub account_id: AccountId,
    /// What its owner calls it.
    pub name: String,
    /// Its value, sealed.
    pub sealed: Vec<u8>,
    /// Where it may be sent.
    pub hosts: Vec<String>,
    /// In which headers.
    pub headers: Vec<String>,
    /// Also where it is not encrypted on its way.
    pub allow_plaintext: bool,
    /// When one of that name was put first.
    pub created_at: Timestamp,
    /// When it was put last.
    pub updated_at: Timestamp,
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Secret({} of {})", self.name, self.account_id)
    }
}

/// The value of a secret. Neither displayed nor logged by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// A value.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The value itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SecretText")
    }
}

struct Key {
    mark: [u8; MARK],
    key: LessSafeKey,
}

/// Seals and opens secrets.
#[derive(Clone)]
pub struct Sealer(Arc<[Key]>);

impl fmt::Debug for Sealer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Sealer")
    }
}

impl Sealer {
    /// With the keys of `path`, a file of mode 0600 that is made with one key where it is missing.
    /// Its first 32 bytes are the key in use; further ones open what older keys have sealed.
    ///
    /// # Errors
    /// When it cannot be made or read, others may read it, or it holds no such keys.
    pub fn from_file(path: &Path) -> Result<Self, io::Error> {
        let keys = secret::file(path, KEYS)?;
        Self::new(&keys).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// With these keys, the one in use first.
    ///
    /// # Errors
    /// When there are none.
    pub fn new(keys: &[[u8; 32]]) -> Result<Self, StoreError> {
        let keys = keys.iter().map(key).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(StoreError::corrupt("there is no key to seal secrets with"));
        }
        Ok(Self(keys.into()))
    }

    /// Seals `value` into `secret`.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn seal(&self, secret: &mut Secret, value: &SecretText) -> Result<(), StoreError> {
        let failed = |_| StoreError::corrupt("a secret could not be sealed");
        let key = self.0.first().ok_or_else(|| StoreError::corrupt("no key"))?;
        let nonce = random_bytes::<{ aead::NONCE_LEN }>()?;
        let mut text = value.reveal().as_bytes().to_vec();
        let about = Aad::from(about(secret));
        let nonced = Nonce::assume_unique_for_key(nonce);
        key.key.seal_in_place_append_tag(nonced, about, &mut text).map_err(failed)?;
        secret.sealed = [&key.mark[..], &nonce, &text].concat();
        Ok(())
    }

    /// The value of `secret`.
    ///
    /// # Errors
    /// When none of the keys has sealed it, or not as it is now.
    pub fn open(&self, secret: &Secret) -> Result<SecretText, StoreError> {
        let wrong = || StoreError::corrupt("a secret cannot be opened: another key has sealed it");
        let (mark, rest) = secret.sealed.split_first_chunk::<MARK>().ok_or_else(wrong)?;
        let (nonce, text) = rest.split_first_chunk::<{ aead::NONCE_LEN }>().ok_or_else(wrong)?;
        let key = self.0.iter().find(|key| key.mark == *mark).ok_or_else(wrong)?;
        let mut text = text.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = key.key.open_in_place(nonce, Aad::from(about(secret)), &mut text);
        let opened = opened.map_err(|_| wrong())?.to_vec();
        String::from_utf8(opened).map(SecretText).map_err(|_| wrong())
    }

    /// Whether the key in use has sealed it.
    #[must_use]
    pub fn is_current(&self, secret: &Secret) -> bool {
        self.0.first().is_some_and(|key| secret.sealed.starts_with(&key.mark))
    }
}

fn key(bytes: &[u8; 32]) -> Result<Key, StoreError> {
    let digest = Sha256::new().chain_update(b"holm seal\0").chain_update(bytes).finalize();
    let mut mark = [0; MARK];
    mark.copy_from_slice(&digest[..MARK]);
    let key = UnboundKey::new(&CHACHA20_POLY1305, bytes);
    let key = key.map_err(|_| StoreError::corrupt("a key to seal secrets with is none"))?;
    Ok(Key { mark, key: LessSafeKey::new(key) })
}

/// Everything that a value is bound to: in another row, or for other hosts, it does not open.
fn about(secret: &Secret) -> Vec<u8> {
    let Secret { account_id, name, hosts, headers, allow_plaintext, .. } = secret;
    let bound = serde_json::json!([account_id, name, hosts, headers, allow_plaintext]);
    bound.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret {
            account_id: AccountId::ZERO,
            name: "TOKEN".to_owned(),
            sealed: Vec::new(),
            hosts: vec!["api.example.com".to_owned()],
            headers: vec!["authorization".to_owned()],
            allow_plaintext: false,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_value_opens_only_as_it_was_sealed() {
        let sealer = Sealer::new(&[[1; 32]]).unwrap();
        let value = SecretText::new("x-marker-é".to_owned());
        let mut sealed = secret();
        sealer.seal(&mut sealed, &value).unwrap();
        assert_eq!(sealer.open(&sealed).unwrap(), value);
        let mut again = secret();
        sealer.seal(&mut again, &value).unwrap();
        assert_ne!(again.sealed, sealed.sealed, "a nonce of its own");
        let check = |change: fn(&mut Secret)| {
            let mut changed = sealed.clone();
            change(&mut changed);
            assert!(sealer.open(&changed).is_err(), "{changed:?}");
        };
        check(|secret| secret.account_id = AccountId::random().unwrap());
        check(|secret| secret.name.push('2'));
        check(|secret| secret.hosts.push("evil.example".to_owned()));
        check(|secret| secret.headers.clear());
        check(|secret| secret.allow_plaintext = true);
        check(|secret| secret.sealed.truncate(MARK));
        check(|secret| secret.sealed.clear());
        check(|secret| *secret.sealed.last_mut().unwrap() ^= 1);
        check(|secret| secret.sealed[MARK] ^= 1);
    }

    #[test]
    fn an_older_key_opens_and_only_the_first_seals() {
        let value = SecretText::new("x".to_owned());
        let mut sealed = secret();
        Sealer::new(&[[1; 32]]).unwrap().seal(&mut sealed, &value).unwrap();
        let rotated = Sealer::new(&[[2; 32], [1; 32]]).unwrap();
        assert_eq!(rotated.open(&sealed).unwrap(), value);
        assert!(!rotated.is_current(&sealed));
        rotated.seal(&mut sealed, &value).unwrap();
        assert!(rotated.is_current(&sealed));
        assert!(Sealer::new(&[[2; 32]]).unwrap().open(&sealed).is_ok());
        assert!(Sealer::new(&[[1; 32]]).unwrap().open(&sealed).is_err());
        assert!(Sealer::new(&[]).is_err());
    }

    #[test]
    fn nothing_shows_a_value() {
        let value = SecretText::new("x-marker-x".to_owned());
        assert!(!format!("{value:?} {:?}", secret()).contains("marker"));
    }
}
