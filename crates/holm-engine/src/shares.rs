//! Places of which there are only so many, shared so that nobody alone has all of them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Places, and who has how many of them.
#[derive(Debug)]
pub struct Shares<K> {
    all: Arc<Semaphore>,
    share: u32,
    each: Mutex<HashMap<K, Weak<Semaphore>>>,
}

/// Places that somebody has until this is dropped.
#[derive(Debug)]
pub struct Places {
    own: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

impl<K: Eq + Hash> Shares<K> {
    /// `total` places, of which one `K` has at most `share` at a time.
    #[must_use]
    pub fn new(total: u32, share: u32) -> Self {
        let all = Arc::new(Semaphore::new(total as usize));
        Self { all, share: share.clamp(1, total.max(1)), each: Mutex::default() }
    }

    /// Takes `count` places, or a whole share where that is less; waits for them for at most
    /// `time`. Nothing where there are none until then.
    pub async fn take(&self, who: K, count: u32, time: Duration) -> Option<Places> {
        let count = count.min(self.share);
        let own = self.own(who);
        let taken = timeout(time, async {
            // First one's own: who waits for that is in nobody's way.
            let own = own.acquire_many_owned(count).await.ok()?;
            let all = Arc::clone(&self.all).acquire_many_owned(count).await.ok()?;
            Some(Places { own, all })
        });
        taken.await.ok().flatten()
    }

    fn own(&self, who: K) -> Arc<Semaphore> {
        // Every change under the lock is whole even after a panic.
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = each.get(&who).and_then(Weak::upgrade) {
            return own;
        }
        // Whoever has no place and waits for none is forgotten.
        each.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.share as usize));
        each.insert(who, Arc::downgrade(&own));
        own
    }
}

impl Places {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.all.num_permits()).unwrap_or(u32::MAX)
    }

    /// Gives all but `count` of them back.
    pub fn keep(&mut self, count: u32) {
        let over = self.count().saturating_sub(count) as usize;
        drop((self.own.split(over), self.all.split(over)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[tokio::test(start_paused = true)]
    async fn nobody_has_more_than_a_share() {
        let shares = Shares::new(3, 2);
        let first = shares.take("a", 1, NOW).await.expect("free");
        let mut second = shares.take("a", 1, NOW).await.expect("free");
        assert!(shares.take("a", 1, NOW).await.is_none(), "a share is two");
        let other = shares.take("b", 1, NOW).await.expect("one is left for others");
        assert!(shares.take("c", 1, NOW).await.is_none(), "none is left");
        drop(first);
        assert!(shares.take("c", 1, NOW).await.is_some());
        second.keep(0);
        assert_eq!((second.count(), other.count()), (0, 1));
        assert_eq!(shares.take("a", 9, NOW).await.map(|places| places.count()), Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_the_own_share_is_in_nobodys_way() {
        let shares = Arc::new(Shares::new(2, 1));
        let held = shares.take("a", 1, NOW).await.expect("free");
        let waiting = Arc::clone(&shares);
        let waiting =
            tokio::spawn(async move { waiting.take("a", 1, Duration::from_secs(9)).await });
        tokio::task::yield_now().await;
        assert!(shares.take("b", 1, NOW).await.is_some());
        drop(held);
        assert!(waiting.await.expect("no panic").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_nothing_is_forgotten() {
        let shares = Shares::new(1, 1);
        for who in 0..100 {
            drop(shares.take(who, 1, NOW).await.expect("free"));
        }
        assert_eq!(shares.each.lock().unwrap().len(), 1);
    }
}
