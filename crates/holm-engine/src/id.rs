//! The name of a sandbox.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Error;

const PREFIX: &str = "sbx_";
const DIGITS: usize = 18;

/// `sbx_` and 18 lowercase hex digits. Host names carry the digits alone, so both forms are read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SandboxId([u8; DIGITS]);

impl SandboxId {
    /// A new random id: 72 bits, so that nobody guesses a neighbour's.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn random() -> Result<Self, Error> {
        const HEX: [u8; 16] = *b"0123456789abcdef";
        let mut digits = [0; DIGITS];
        let bytes: [u8; DIGITS / 2] = random_bytes()?;
        for (index, byte) in bytes.iter().enumerate() {
            digits[2 * index] = HEX[usize::from(byte >> 4)];
            digits[2 * index + 1] = HEX[usize::from(byte & 15)];
        }
        Ok(Self(digits))
    }

    /// The 18 digits without the prefix, for host names.
    #[must_use]
    pub fn digits(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Random bytes from the kernel, good enough for secrets.
///
/// # Errors
/// When the system gives none.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::internal("getrandom", &errno)),
        }
    }
    Ok(bytes)
}

impl FromStr for SandboxId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let digits = text.strip_prefix(PREFIX).unwrap_or(text).as_bytes();
        let hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match <[u8; DIGITS]>::try_from(digits) {
            Ok(digits) if digits.iter().all(hex) => Ok(Self(digits)),
            _ => Err(Error::invalid(
                "sandbox_id must be `sbx_` and 18 lowercase hex digits, for example \
                 sbx_0123456789abcdef01",
            )
            .suggest("Use the sandbox_id that create_sandbox or list_sandboxes returned.")),
        }
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{PREFIX}{}", self.digits())
    }
}

impl fmt::Debug for SandboxId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Serialize for SandboxId {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SandboxId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Option<&str>) {
        let got = text.parse::<SandboxId>().ok().map(|id| id.to_string());
        assert_eq!(got.as_deref(), want, "{text:?}");
    }

    #[test]
    fn both_spellings_are_read_and_nothing_else() {
        check("sbx_0123456789abcdef01", Some("sbx_0123456789abcdef01"));
        check("0123456789abcdef01", Some("sbx_0123456789abcdef01"));
        check("", None);
        check("sbx_", None);
        check("sbx_0123456789abcdef0", None);
        check("sbx_0123456789abcdef012", None);
        check("sbx_0123456789ABCDEF01", None);
        check("sbx-0123456789abcdef01", None);
        check("sbx_0123456789abcdefé", None);
        check("sbx_sbx_0123456789abcdef01", None);
    }

    #[test]
    fn random_ids_differ_and_read_back() {
        let (a, b) = (SandboxId::random().unwrap(), SandboxId::random().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.to_string().parse::<SandboxId>().unwrap(), a);
        assert_eq!(a.digits().parse::<SandboxId>().unwrap(), a);
    }
}
