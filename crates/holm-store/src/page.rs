//! Lists in pages, newest first, and whose things a call may see.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

use crate::AccountId;

/// Most items of one page.
pub const PAGE_MAX: u32 = 1000;

/// Whose things a call reaches. What belongs to somebody else looks like what does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Only this account's.
    Account(AccountId),
    /// Everybody's: for the node's own work and for operators, never for a tenant's call.
    Any,
}

/// Which part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageQuery {
    /// At most so many; 1 to [`PAGE_MAX`], other values are brought there.
    pub limit: u32,
    /// Go on after the page that this cursor came with.
    pub after: Option<Cursor>,
}

impl PageQuery {
    /// The newest `limit`.
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self { limit, after: None }
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit.clamp(1, PAGE_MAX)
    }
}

/// A place in a list: the last item that was seen. Opaque to callers, who send back its text. It
/// holds nothing that its reader has not seen, and reaches nothing beyond the list's [`Owner`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Microseconds of its time; in the ledger its number.
    pub(crate) place: i64,
    pub(crate) id: String,
}

impl Cursor {
    pub(crate) fn at(moment: Timestamp, id: &dyn fmt::Display) -> Self {
        Self { place: moment.as_microsecond(), id: id.to_string() }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.place, self.id)
    }
}

/// A text that is no cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a cursor that a list has returned")]
pub struct CursorError;

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let (place, id) = text.split_once('.').ok_or(CursorError)?;
        let place = place.parse().map_err(|_| CursorError)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if id.is_empty() || id.len() > 64 || !id.bytes().all(plain) {
            return Err(CursorError);
        }
        Ok(Self { place, id: id.to_owned() })
    }
}

/// One page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Newest first.
    pub items: Vec<T>,
    /// Where the next page begins; nothing when this is the last.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// From up to `limit + 1` items: the one too many only says that there is a next page.
    pub(crate) fn cut(mut items: Vec<T>, limit: u32, place: impl Fn(&T) -> Cursor) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        let next = if more { items.last().map(place) } else { None };
        Self { items, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_read_back_and_nonsense_is_refused() {
        let cursor = Cursor { place: -5, id: "sbx_0123456789abcdef01".to_owned() };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", ".", "1", "1.", "x.sbx_1", "1.a b", "1.'", "99999999999999999999.a"] {
            assert_eq!(text.parse::<Cursor>(), Err(CursorError), "{text:?}");
        }
    }
}
