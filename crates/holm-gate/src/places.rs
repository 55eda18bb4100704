//! Numbers of things that may exist at one time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Places of one kind.
#[derive(Debug, Default)]
pub(crate) struct Places(Arc<AtomicUsize>);

/// One that is taken; its end gives it back.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicUsize>);

impl Places {
    /// Takes one, if fewer than `limit` are.
    pub(crate) fn enter(&self, limit: usize) -> Option<Place> {
        let place = Place(Arc::clone(&self.0));
        // Where there is none, the end of `place` takes back what was counted.
        (self.0.fetch_add(1, Ordering::Relaxed) < limit).then_some(place)
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_given_back() {
        let places = Places::default();
        let two = (places.enter(2), places.enter(2));
        assert!(two.0.is_some() && two.1.is_some() && places.enter(2).is_none());
        drop(two);
        assert_eq!(places.taken(), 0);
    }
}
