//! Digests, and the ids of layers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// `sha256:` and 64 hexadecimal digits, of some bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// The digest of a layer's uncompressed archive: what it contains, however it was packed.
pub type LayerId = Digest;

const PREFIX: &str = "sha256:";

impl Digest {
    /// The 64 digits, which are safe as a file's name.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.0[PREFIX.len()..]
    }

    /// Of a hash that was computed.
    pub(crate) fn of(hash: Sha256) -> Self {
        let mut text = PREFIX.to_owned();
        for byte in hash.finalize() {
            text.push_str(&format!("{byte:02x}"));
        }
        Self(text)
    }

    /// Of some bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(bytes);
        Self::of(hash)
    }
}

/// A text that is not `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a SHA-256 digest")]
pub struct NotADigest(String);

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match text.strip_prefix(PREFIX) {
            Some(digits) if digits.len() == 64 && digits.bytes().all(hex) => Ok(Self(text.into())),
            _ => Err(NotADigest(text.chars().take(80).collect())),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = NotADigest;

    fn try_from(text: String) -> Result<Self, NotADigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digests_are_digests() {
        let digest = Digest::of_bytes(b"");
        assert_eq!(
            digest.to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(digest.to_string().parse(), Ok(digest.clone()));
        for text in [
            String::new(),
            "sha256:".into(),
            digest.hex().into(),
            digest.to_string().to_uppercase(),
            format!("sha256:../../{}", &digest.hex()[6..]),
            format!("sha512:{}", digest.hex()),
            format!("{digest}0"),
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
