//! API keys: never shown.

use std::fmt;

use hyper::header::HeaderValue;

/// An API key, or a token.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(HeaderValue);

/// A text that cannot be a key: no header can carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key has no blanks, no line breaks and only ASCII characters")]
pub struct NoKey;

impl ApiKey {
    /// The key in `text`; blanks around it are not part of it.
    ///
    /// # Errors
    /// When it cannot be one.
    pub fn new(text: &str) -> Result<Self, NoKey> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(NoKey);
        }
        let mut value = HeaderValue::try_from(format!("Bearer {text}")).map_err(|_| NoKey)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    /// The value of `Authorization`.
    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ApiKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_never_shown() {
        let key = ApiKey::new(" x-marker-x\n").expect("a key");
        assert_eq!(key.header(), "Bearer x-marker-x");
        assert!(!format!("{key:?} {:?}", key.header()).contains("marker"));
        for text in ["", " ", "a b", "a\nb", "é"] {
            assert_eq!(ApiKey::new(text), Err(NoKey), "{text:?}");
        }
    }
}
