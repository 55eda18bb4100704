//! Pages of what is in memory.

use std::fmt::Display;

use jiff::Timestamp;

use crate::{Cursor, Owner, Page, PageQuery};

/// Whether something of that time and id comes after the query's place, newest first.
pub(super) fn is_after(query: &PageQuery, moment: Timestamp, id: &dyn Display) -> bool {
    let Some(cursor) = &query.after else { return true };
    let place = moment.as_microsecond();
    place < cursor.place || (place == cursor.place && id.to_string() < cursor.id)
}

/// A page of items that come newest first and after the query's place.
pub(super) fn page<'a, T: Clone + 'a>(
    items: impl Iterator<Item = &'a T>,
    query: &PageQuery,
    cursor: impl Fn(&T) -> Cursor,
) -> Page<T> {
    let limit = query.limit();
    let one_more = usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1);
    Page::cut(items.take(one_more).cloned().collect(), limit, cursor)
}

impl Owner {
    /// Whether something of `account` may be seen.
    pub(super) fn sees(self, account: crate::AccountId) -> bool {
        self == Self::Any || self == Self::Account(account)
    }
}
