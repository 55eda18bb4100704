//! What pax records, and GNU's entries for long names, say of the next header.

use super::sparse::{Map, decimal};
use super::{Result, broken};

/// Most extended attributes of an entry.
const MAX_XATTRS: usize = 512;

/// Collected before a header.
#[derive(Debug, Default)]
pub(super) struct Extra {
    pub path: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub uid: Option<u64>,
    pub gid: Option<u64>,
    /// Seconds and nanoseconds.
    pub mtime: Option<(i64, u32)>,
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    sparse: Sparse,
}

/// `GNU.sparse.*`
#[derive(Debug, Default)]
struct Sparse {
    name: Option<Vec<u8>>,
    major: Option<u64>,
    length: Option<u64>,
    list: Option<Vec<u8>>,
    /// Form 0.0, where every piece is two records.
    pieces: Vec<u8>,
}

/// How a file's holes are told.
pub(super) enum Holes {
    None,
    Listed(Map),
    /// Before the content; the file's whole length.
    Before(u64),
}

impl Extra {
    /// The records of a pax header.
    pub(super) fn records(&mut self, mut rest: &[u8]) -> Result<()> {
        while !rest.is_empty() {
            let space = rest.iter().position(|byte| *byte == b' ');
            let length = space.and_then(|at| decimal(&rest[..at]));
            let (Some(space), Some(length)) = (space, length) else {
                return broken("a pax record has no length");
            };
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > rest.len() || length < space + 2 || rest[length - 1] != b'\n' {
                return broken("a pax record has a wrong length");
            }
            let record = &rest[space + 1..length - 1];
            let Some(equals) = record.iter().position(|byte| *byte == b'=') else {
                return broken("a pax record has no value");
            };
            self.record(&record[..equals], &record[equals + 1..])?;
            rest = &rest[length..];
        }
        Ok(())
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            if self.xattrs.len() >= MAX_XATTRS {
                return broken("an entry has too many extended attributes");
            }
            // As with all records, the last one counts.
            self.xattrs.retain(|(had, _)| had != name);
            self.xattrs.push((name.to_vec(), value.to_vec()));
            return Ok(());
        }
        let number = || match decimal(value) {
            Some(number) => Ok(Some(number)),
            None => broken(format!("{} in a pax record is not a number", key.escape_ascii())),
        };
        match key {
            // An empty value takes the record back.
            b"path" => self.path = Some(value.to_vec()).filter(|path| !path.is_empty()),
            b"linkpath" => self.link = Some(value.to_vec()).filter(|link| !link.is_empty()),
            b"size" => self.size = number()?,
            b"uid" => self.uid = number()?,
            b"gid" => self.gid = number()?,
            b"mtime" => self.mtime = time(value),
            b"GNU.sparse.name" => self.sparse.name = Some(value.to_vec()),
            b"GNU.sparse.major" => self.sparse.major = number()?,
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.sparse.length = number()?,
            b"GNU.sparse.map" => self.sparse.list = Some(value.to_vec()),
            b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => {
                if !self.sparse.pieces.is_empty() {
                    self.sparse.pieces.push(b',');
                }
                self.sparse.pieces.extend_from_slice(value);
            }
            _ => {}
        }
        Ok(())
    }

    /// The name that counts: of a sparse file the pax path is one that says how it was made.
    pub(super) fn name(&mut self) -> Option<Vec<u8>> {
        self.sparse.name.take().or_else(|| self.path.take())
    }

    pub(super) fn holes(&self) -> Result<Holes> {
        let sparse = &self.sparse;
        let Some(length) = sparse.length else { return Ok(Holes::None) };
        if sparse.major == Some(1) {
            return Ok(Holes::Before(length));
        }
        match &sparse.list {
            Some(list) => Ok(Holes::Listed(Map::list(list, length)?)),
            None if !sparse.pieces.is_empty() => {
                Ok(Holes::Listed(Map::list(&sparse.pieces, length)?))
            }
            None => Ok(Holes::None),
        }
    }
}

/// `-12.5`: seconds, with a fraction.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: i64 = seconds.parse().ok()?;
    let nanos: u32 = format!("{fraction:0<9.9}").parse().unwrap_or(0);
    if seconds.starts_with('-') && nanos > 0 {
        return Some((whole.checked_sub(1)?, 1_000_000_000 - nanos));
    }
    Some((whole, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_fractions() {
        for (text, want) in [
            ("0", Some((0, 0))),
            ("1700000000.5", Some((1_700_000_000, 500_000_000))),
            ("1.123456789123", Some((1, 123_456_789))),
            ("-1.25", Some((-2, 750_000_000))),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(time(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn records_are_as_long_as_they_say() {
        let check = |text: &str| Extra::default().records(text.as_bytes()).is_ok();
        assert!(check(""));
        assert!(check("9 path=a\n10 uid=12\n"));
        for text in [
            "9 path=a",
            "8 path=a\n",
            "99 path=a\n",
            "0 path=a\n",
            "x path=a\n",
            "6 path\n",
            "10 uid=1x\n",
            "1 \n",
        ] {
            assert!(!check(text), "{text:?}");
        }
    }
}
