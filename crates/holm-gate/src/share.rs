//! Places that all sandboxes of a process share, divided so that nobody keeps others from theirs: a
//! further place is had by who has fewer than are free. One alone has half of them at most, two a
//! third each, and always as many are left for the next one as the greediest has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::places::{Place, Places};

/// Places of one kind that several share.
#[derive(Debug)]
pub(crate) struct Common {
    all: Places,
    limit: usize,
    /// Whether there may be somebody else.
    is_shared: bool,
}

/// One that is taken, of all and of one's own.
#[derive(Debug)]
pub(crate) struct Taken {
    _all: Place,
    _own: Place,
}

/// Why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// All are taken.
    All,
    /// What is free is for others.
    Own,
}

impl Common {
    /// Of a process in which all sandboxes are of one owner unless it `is_shared`: that one may have all.
    pub(crate) fn new(limit: usize, is_shared: bool) -> Self {
        Self { all: Places::default(), limit, is_shared }
    }

    /// Takes one for who has those of `own`.
    pub(crate) fn enter(&self, own: &Places) -> Result<Taken, Full> {
        let all = self.all.enter(self.limit).ok_or(Full::All)?;
        let free = match self.is_shared {
            true => self.limit.saturating_sub(self.all.taken()),
            false => self.limit,
        };
        // The one that is being taken was free, too.
        let own = own.enter(free + 1).ok_or(Full::Own)?;
        Ok(Taken { _all: all, _own: own })
    }
}

/// What one owner of sandboxes has taken.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// Of open connections.
    pub(crate) open: Places,
    /// Of questions to servers of names.
    pub(crate) asking: Places,
}

/// The shares of all owners that have sandboxes.
#[derive(Debug, Default)]
pub(crate) struct Shares(Mutex<HashMap<String, Weak<Share>>>);

impl Shares {
    /// What this owner has: the same for all sandboxes of theirs.
    pub(crate) fn of(&self, owner: &str) -> Arc<Share> {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(owner).and_then(Weak::upgrade) {
            return share;
        }
        // Who has no sandbox any more is forgotten.
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Share::default());
        shares.insert(owner.to_owned(), Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as many as can be had.
    fn all(common: &Common, own: &Places) -> (Vec<Taken>, Full) {
        let mut taken = Vec::new();
        loop {
            match common.enter(own) {
                Ok(place) => taken.push(place),
                Err(full) => return (taken, full),
            }
        }
    }

    #[test]
    fn however_much_one_takes_others_find_as_much() {
        let (common, own) = (Common::new(1000, true), [(); 4].map(|()| Places::default()));
        let first = all(&common, &own[0]);
        assert_eq!((first.0.len(), first.1), (500, Full::Own));
        let second = all(&common, &own[1]);
        assert_eq!((second.0.len(), second.1), (250, Full::Own));
        let third = all(&common, &own[2]);
        assert_eq!(third.0.len(), 125);
        assert!(common.enter(&own[0]).is_err(), "who has more than is free has no further one");
        assert_eq!(all(&common, &own[3]).0.len(), 63, "given back at once");
        drop(first);
        assert_eq!(all(&common, &own[1]).0.len(), 188, "what is free again is shared anew");
        drop((second, third));
        assert_eq!((common.all.taken(), own[0].taken()), (0, 0));
    }

    #[test]
    fn few_places_are_places() {
        let own = Places::default();
        for (limit, most) in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
            assert_eq!(all(&Common::new(limit, true), &own).0.len(), most, "{limit}");
        }
        let full = Common::new(1, true);
        let held = full.enter(&own).expect("free");
        assert_eq!(full.enter(&Places::default()).unwrap_err(), Full::All);
        drop(held);
        let alone = all(&Common::new(7, false), &own);
        assert_eq!((alone.0.len(), alone.1), (7, Full::All), "there is nobody else");
    }

    #[test]
    fn an_owner_has_one_share_as_long_as_there_is_a_sandbox() {
        let shares = Shares::default();
        let (one, other) = (shares.of("a"), shares.of("b"));
        assert!(Arc::ptr_eq(&one, &shares.of("a")) && !Arc::ptr_eq(&one, &other));
        drop((one, other));
        for owner in 0..100 {
            drop(shares.of(&owner.to_string()));
        }
        assert_eq!(shares.0.lock().expect("no panic").len(), 1);
    }
}
