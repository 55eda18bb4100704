//! Which links were used, until they end by themselves. Of each account so many and no more: a mark
//! that was pushed out would let its link open again, so where there is no place for one no link opens,
//! and no account can fill another's places.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holm_engine::AccountId;

use super::token::NONCE;

/// Marks of one account.
pub const EACH: usize = 1_000;
/// Marks of all: what bounds memory. It takes a hundred accounts to fill that.
const ALL: usize = 100 * EACH;

/// The end of a link in seconds, and what tells it from others.
pub type Mark = (i64, [u8; NONCE]);

/// The links that were used.
#[derive(Default)]
pub struct Used(Mutex<Table>);

#[derive(Default)]
struct Table {
    each: HashMap<AccountId, BTreeSet<Mark>>,
    count: usize,
}

impl Table {
    /// Forgets what has ended.
    fn sweep(&mut self, account: AccountId, now: i64) {
        let is_full = self.count >= ALL;
        let mut gone = 0;
        self.each.retain(|whose, marks| {
            if is_full || *whose == account {
                let before = marks.len();
                while marks.first().is_some_and(|(end, _)| *end <= now) {
                    marks.pop_first();
                }
                gone += before - marks.len();
            }
            !marks.is_empty()
        });
        self.count -= gone;
    }

    /// When there is a place for one more of this account; nothing where there is one.
    fn full_until(&self, account: AccountId) -> Option<i64> {
        let own = self.each.get(&account);
        if own.map_or(0, BTreeSet::len) >= EACH {
            return own.and_then(BTreeSet::first).map(|(end, _)| *end);
        }
        let firsts = || self.each.values().filter_map(BTreeSet::first).map(|(end, _)| *end);
        (self.count >= ALL).then(|| firsts().min()).flatten()
    }
}

impl Used {
    fn lock(&self) -> MutexGuard<'_, Table> {
        // Changes under the lock are calls of maps and a sum, none of which panics half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seconds until this account can use one more link; nothing where it can now.
    pub fn wait(&self, account: AccountId, now: i64) -> Option<NonZeroU32> {
        let mut table = self.lock();
        table.sweep(account, now);
        let seconds = table.full_until(account)?.saturating_sub(now);
        NonZeroU32::new(u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    /// Takes note that a link is used. False where it was before, and where there is no place for
    /// the note.
    pub fn mark(&self, account: AccountId, mark: Mark, now: i64) -> bool {
        let mut table = self.lock();
        table.sweep(account, now);
        if table.full_until(account).is_some() {
            return false;
        }
        let is_new = table.each.entry(account).or_default().insert(mark);
        table.count += usize::from(is_new);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(end: i64, number: usize) -> Mark {
        let mut nonce = [0; NONCE];
        nonce[..8].copy_from_slice(&number.to_be_bytes());
        (end, nonce)
    }

    fn account() -> AccountId {
        AccountId::random().expect("random bytes")
    }

    #[test]
    fn an_account_that_fills_its_places_forgets_nothing_and_is_in_no_others_way() {
        let (used, crowded, other) = (Used::default(), account(), account());
        assert!(used.mark(other, mark(500, 0), 0));
        for number in 0..EACH {
            assert!(used.mark(crowded, mark(100, number), 0), "{number}");
        }
        // One more finds no place, and nothing that was used opens again.
        assert!(!used.mark(crowded, mark(900, EACH), 0));
        assert_eq!(used.wait(crowded, 0), NonZeroU32::new(100));
        for number in [0, 1, EACH - 1] {
            assert!(!used.mark(crowded, mark(100, number), 50));
        }
        assert!(!used.mark(other, mark(500, 0), 50), "nor one of somebody else's");
        assert!(used.mark(other, mark(500, 1), 50));
        assert_eq!(used.wait(other, 50), None);
        // When the links have ended there is room again.
        assert_eq!(used.wait(crowded, 100), None);
        assert!(used.mark(crowded, mark(900, EACH), 100));
        assert_eq!(used.lock().count, 3);
    }

    #[test]
    fn marks_of_all_accounts_take_bounded_memory() {
        let used = Used::default();
        let accounts: Vec<_> = (0..ALL / EACH).map(|_| account()).collect();
        for (nth, account) in accounts.iter().enumerate() {
            for number in 0..EACH {
                assert!(used.mark(*account, mark(100 + i64::from(nth == 0), number), 0));
            }
        }
        let late = account();
        assert!(!used.mark(late, mark(100, 0), 0));
        assert_eq!(used.lock().count, ALL);
        assert_eq!(used.wait(late, 0), NonZeroU32::new(100));
        assert!(!used.mark(accounts[0], mark(101, 7), 100), "used is used");
        assert!(used.mark(late, mark(200, 0), 100));
        let table = used.lock();
        assert_eq!((table.count, table.each.len()), (EACH + 1, 2));
    }
}
