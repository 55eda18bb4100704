//! How often somebody may ask: token buckets.
//!
//! A bucket holds up to a burst of tokens and is filled at a rate; each request takes one. What
//! asks is whatever tells callers apart: a key here, an address in a face.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Buckets that are kept. Full ones are forgotten; when all are in use, newcomers wait.
const MAX_BUCKETS: usize = 10_000;

/// How often, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Requests in a second, on average; 0 for any number.
    pub per_second: f64,
    /// Requests at once, after a pause.
    pub burst: u32,
}

impl Rate {
    /// No bound.
    pub const UNLIMITED: Self = Self { per_second: 0.0, burst: 1 };
}

/// One bucket for each `K` that has asked lately.
#[derive(Debug)]
pub struct Buckets<K> {
    rate: Rate,
    filled: Mutex<HashMap<K, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl<K: Eq + Hash> Buckets<K> {
    /// All full.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Self { rate, filled: Mutex::default() }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// With the time until there is one.
    pub fn take(&self, key: K) -> Result<(), Duration> {
        self.take_at(key, Instant::now())
    }

    fn take_at(&self, key: K, now: Instant) -> Result<(), Duration> {
        let Rate { per_second, burst } = self.rate;
        if per_second <= 0.0 {
            return Ok(());
        }
        let burst = f64::from(burst.max(1));
        let filled_to = |bucket: &Bucket| {
            let since = now.saturating_duration_since(bucket.at).as_secs_f64();
            (bucket.tokens + since * per_second).min(burst)
        };
        let until_one = |tokens: f64| Duration::from_secs_f64((1.0 - tokens).max(0.0) / per_second);
        // Every change under the lock is whole even after a panic.
        let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        if filled.len() >= MAX_BUCKETS && !filled.contains_key(&key) {
            filled.retain(|_, bucket| filled_to(bucket) < burst);
            if filled.len() >= MAX_BUCKETS {
                return Err(until_one(0.0));
            }
        }
        let bucket = filled.entry(key).or_insert(Bucket { tokens: burst, at: now });
        *bucket = Bucket { tokens: filled_to(bucket), at: now };
        if bucket.tokens < 1.0 {
            return Err(until_one(bucket.tokens));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_a_rate_for_each_alone() {
        let (buckets, start) = (Buckets::new(Rate { per_second: 2.0, burst: 3 }), Instant::now());
        let taken = |key, at| (0..10).filter(|_| buckets.take_at(key, at).is_ok()).count();
        assert_eq!(taken("a", start), 3);
        assert_eq!(buckets.take_at("a", start), Err(Duration::from_millis(500)));
        assert_eq!(taken("b", start), 3);
        assert_eq!(taken("a", start + Duration::from_secs(1)), 2);
        assert_eq!(taken("a", start + Duration::from_secs(60)), 3);
    }

    #[test]
    fn without_a_rate_there_is_no_bound() {
        let buckets = Buckets::new(Rate::UNLIMITED);
        assert!((0..100).all(|_| buckets.take(()).is_ok()));
    }

    #[test]
    fn only_so_many_are_remembered() {
        let (buckets, start) = (Buckets::new(Rate { per_second: 1.0, burst: 1 }), Instant::now());
        for key in 0..MAX_BUCKETS {
            assert!(buckets.take_at(key, start).is_ok());
        }
        assert!(buckets.take_at(MAX_BUCKETS, start).is_err());
        let later = start + Duration::from_secs(2);
        assert!(buckets.take_at(MAX_BUCKETS, later).is_ok());
        assert_eq!(buckets.filled.lock().unwrap().len(), 1);
    }
}
