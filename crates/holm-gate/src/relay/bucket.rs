//! The bandwidth of a sandbox. Bytes are paid for after they have moved: who has moved more than
//! there was waits until it is made up for.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Bytes that may move without waiting, in parts of a second.
const BURST: u64 = 4;
/// Smallest piece that is moved in one go.
const SMALLEST: u64 = 4 * 1024;

/// The bandwidth of a sandbox.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Bytes per second; 0 for no limit.
    rate: u64,
    /// Until when bytes that have moved are paid.
    paid: Mutex<Option<Instant>>,
}

impl Bucket {
    pub(crate) fn new(rate: u64) -> Self {
        Self { rate, paid: Mutex::new(None) }
    }

    /// Takes bytes that have moved; how long to wait before more may.
    pub(crate) fn take(&self, bytes: u64) -> Option<Duration> {
        if self.rate == 0 {
            return None;
        }
        self.take_at(Instant::now(), bytes)
    }

    /// How long to wait until all that has moved is paid for.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.take(0)
    }

    fn take_at(&self, now: Instant, bytes: u64) -> Option<Duration> {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.max(1));
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let burst = Duration::from_secs(1) / u32::try_from(BURST).unwrap_or(1);
        // Time in which nothing moved is good for one burst, no more.
        let from = paid.unwrap_or(now).max(now.checked_sub(burst).unwrap_or(now));
        let until = from + cost;
        *paid = Some(until);
        Some(until.saturating_duration_since(now)).filter(|pause| !pause.is_zero())
    }

    /// Most bytes to move in one go, so that one piece does not use up seconds.
    pub(crate) fn chunk(&self, most: usize) -> usize {
        if self.rate == 0 {
            return most;
        }
        let piece = (self.rate / BURST).max(SMALLEST);
        usize::try_from(piece).unwrap_or(most).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_paid_with_time() {
        let (bucket, start) = (Bucket::new(1_000), Instant::now());
        let after = |millis: u64| start + Duration::from_millis(millis);
        let pause = |millis: u64| Some(Duration::from_millis(millis));
        assert_eq!(bucket.take_at(start, 100), pause(100));
        assert_eq!(bucket.take_at(start, 100), pause(200), "all connections share it");
        assert_eq!(bucket.take_at(after(200), 100), pause(100));
        // A long rest saves up a quarter of a second.
        assert_eq!(bucket.take_at(after(60_000), 250), None);
        assert_eq!(bucket.take_at(after(60_000), 100), pause(100));
    }

    #[test]
    fn no_limit_is_no_wait() {
        let bucket = Bucket::new(0);
        assert_eq!(bucket.take(u64::MAX), None);
        assert_eq!(bucket.chunk(7), 7);
    }

    #[test]
    fn pieces_suit_the_rate() {
        let check = |rate: u64, expected: usize| {
            assert_eq!(Bucket::new(rate).chunk(512 * 1024), expected, "{rate}");
        };
        check(1, 4 * 1024);
        check(100_000, 25_000);
        check(u64::MAX, 512 * 1024);
    }
}
