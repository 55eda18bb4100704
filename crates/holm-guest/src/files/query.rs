//! The part of a request after `?`.

use crate::errors::{Result, invalid};

/// Decoded names and values. Values are bytes: names of files need not be UTF-8.
#[derive(Debug, Default)]
pub struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    /// Reads a query.
    pub fn parse(text: Option<&str>) -> Self {
        let pairs = text.unwrap_or("").split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (String::from_utf8_lossy(&decode(name)).into_owned(), decode(value))
                })
                .collect(),
        )
    }

    /// A value as bytes.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
    }

    /// A value as text; empty where it is missing.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub fn text(&self, name: &str) -> Result<&str> {
        std::str::from_utf8(self.bytes(name).unwrap_or(b""))
            .map_err(|_| invalid(format!("`{name}` is not UTF-8")))
    }

    /// A value as a number; 0 where it is missing or empty.
    ///
    /// # Errors
    /// When it is none.
    pub fn number(&self, name: &str, radix: u32) -> Result<u64> {
        let text = self.text(name)?;
        if text.is_empty() {
            return Ok(0);
        }
        u64::from_str_radix(text, radix)
            .map_err(|_| invalid(format!("`{name}` is {text:?}, which is not a number")))
    }
}

/// `%XX` and `+`; a broken escape stands for itself.
fn decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digit = |index: usize| {
            bytes
                .get(index)
                .and_then(|b| char::from(*b).to_digit(16))
                .and_then(|d| u8::try_from(d).ok())
        };
        match bytes[at] {
            b'%' => match (digit(at + 1), digit(at + 2)) {
                (Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    at += 2;
                }
                _ => out.push(b'%'),
            },
            b'+' => out.push(b' '),
            byte => out.push(byte),
        }
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let query = Query::parse(Some("path=%2Fa%20b+c%2B&user=root&x&bad=%zz%4&mode=644&raw=%ff"));
        assert_eq!(query.text("path").unwrap(), "/a b c+");
        assert_eq!(query.text("user").unwrap(), "root");
        assert_eq!(query.text("missing").unwrap(), "");
        assert_eq!(query.text("bad").unwrap(), "%zz%4");
        assert_eq!(query.number("mode", 8).unwrap(), 0o644);
        assert_eq!(query.bytes("raw").unwrap(), [0xff]);
        assert!(query.text("raw").is_err() && query.number("path", 10).is_err());
    }
}
