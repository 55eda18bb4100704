//! Names of things: a prefix that says what it is, and 18 lowercase hex digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::StoreError;

const DIGITS: usize = 18;

/// A text that is no id of the wanted kind. Displays what is right, for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be `{prefix}` and 18 lowercase hex digits, for example {prefix}0123456789abcdef01")]
pub struct IdError {
    /// How such an id begins.
    pub prefix: &'static str,
}

/// Random bytes from the kernel, good enough for secrets.
///
/// # Errors
/// When the system gives none.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                return Err(StoreError::Random { source: errno.into() });
            }
        }
    }
    Ok(bytes)
}

/// The lowercase hex digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const HEX: [u8; 16] = *b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(HEX[usize::from(digit)])).collect()
}

fn random_digits() -> Result<[u8; DIGITS], StoreError> {
    let mut digits = [0; DIGITS];
    let text = hex(&random_bytes::<{ DIGITS / 2 }>()?);
    digits.copy_from_slice(text.as_bytes());
    Ok(digits)
}

fn read_digits(text: &str) -> Option<[u8; DIGITS]> {
    let digits = <[u8; DIGITS]>::try_from(text.as_bytes()).ok()?;
    digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(digits)
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; DIGITS]);

        impl $name {
            /// How it begins.
            pub const PREFIX: &'static str = $prefix;

            /// A new random one: 72 bits, so that nobody guesses a neighbour's.
            ///
            /// # Errors
            /// When the system gives no random bytes.
            pub fn random() -> Result<Self, StoreError> {
                random_digits().map(Self)
            }

            /// The one with zeros only, which no random one is: for what there is one of where
            /// nothing is shared, such as the account of an embedded engine.
            pub const ZERO: Self = Self([b'0'; DIGITS]);

            /// The 18 digits without the prefix.
            #[must_use]
            pub fn digits(&self) -> &str {
                std::str::from_utf8(&self.0).unwrap_or_default()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "{}{}", Self::PREFIX, self.digits())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, out)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                out.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

ids! {
    /// A sandbox. Host names carry its digits alone, so it is read with and without its prefix.
    SandboxId = "sbx_";
    /// An account: who owns and who pays.
    AccountId = "acc_";
    /// An API key (its name, not the key).
    KeyId = "key_";
    /// A line of the ledger.
    EntryId = "led_";
    /// An audit event.
    AuditId = "aud_";
    /// Something that webhooks tell.
    EventId = "evt_";
    /// A machine (more exactly: a data directory) that runs sandboxes.
    NodeId = "node_";
}

impl FromStr for SandboxId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let digits = text.strip_prefix(Self::PREFIX).unwrap_or(text);
        read_digits(digits).map(Self).ok_or(IdError { prefix: Self::PREFIX })
    }
}

macro_rules! read_with_prefix {
    ($($name:ident)*) => {$(
        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let digits = text.strip_prefix(Self::PREFIX).and_then(read_digits);
                digits.map(Self).ok_or(IdError { prefix: Self::PREFIX })
            }
        }
    )*};
}

read_with_prefix!(AccountId KeyId EntryId AuditId EventId NodeId);

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: FromStr + fmt::Display>(text: &str, want: Option<&str>) {
        let got = text.parse::<T>().ok().map(|id| id.to_string());
        assert_eq!(got.as_deref(), want, "{text:?}");
    }

    #[test]
    fn a_sandbox_is_read_with_and_without_its_prefix() {
        check::<SandboxId>("sbx_0123456789abcdef01", Some("sbx_0123456789abcdef01"));
        check::<SandboxId>("0123456789abcdef01", Some("sbx_0123456789abcdef01"));
        check::<SandboxId>("", None);
        check::<SandboxId>("sbx_", None);
        check::<SandboxId>("sbx_0123456789abcdef0", None);
        check::<SandboxId>("sbx_0123456789abcdef012", None);
        check::<SandboxId>("sbx_0123456789ABCDEF01", None);
        check::<SandboxId>("sbx_0123456789abcdefé", None);
        check::<SandboxId>("sbx_sbx_0123456789abcdef01", None);
        check::<SandboxId>("acc_0123456789abcdef01", None);
    }

    #[test]
    fn the_others_only_with_their_own() {
        check::<AccountId>("acc_0123456789abcdef01", Some("acc_0123456789abcdef01"));
        check::<AccountId>("0123456789abcdef01", None);
        check::<KeyId>("key_0123456789abcdef01", Some("key_0123456789abcdef01"));
        check::<KeyId>("acc_0123456789abcdef01", None);
        check::<NodeId>("node_0123456789abcdef01", Some("node_0123456789abcdef01"));
        let error = "x".parse::<KeyId>().unwrap_err().to_string();
        assert!(error.contains("key_0123456789abcdef01"), "{error}");
    }

    #[test]
    fn random_ids_differ_and_read_back() {
        let (a, b) = (AccountId::random().unwrap(), AccountId::random().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.to_string().parse::<AccountId>().unwrap(), a);
        let json = serde_json::to_string(&a).unwrap();
        assert_eq!(serde_json::from_str::<AccountId>(&json).unwrap(), a);
    }
}
