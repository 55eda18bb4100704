//! How fast something may go on: a second's worth at once, then evenly.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// A rate that several may share.
#[derive(Debug)]
pub(crate) struct Pace {
    one: Duration,
    /// When all that was let through is paid for.
    paid: Mutex<Instant>,
}

impl Pace {
    /// At most so many in a second.
    pub(crate) fn new(in_a_second: u32) -> Self {
        let one = Duration::from_secs(1) / in_a_second.max(1);
        Self { one, paid: Mutex::new(Instant::now()) }
    }

    /// Takes the turn of the next one if it has come; false where it would have to wait.
    pub(crate) fn take(&self) -> bool {
        let now = Instant::now();
        let mut paid = self.paid.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let next = (*paid).max(now) + self.one;
        let has_come = next.duration_since(now) <= Duration::from_secs(1);
        if has_come {
            *paid = next;
        }
        has_come
    }

    /// Waits until the next one may go on.
    pub(crate) async fn wait(&self) {
        let ahead = {
            let now = Instant::now();
            let mut paid = self.paid.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *paid = (*paid).max(now) + self.one;
            paid.duration_since(now)
        };
        if let Some(wait) = ahead.checked_sub(Duration::from_secs(1)) {
            sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_does_not_wait_has_a_second_at_once_and_then_each_turn() {
        let pace = Pace::new(10);
        let taken = || std::iter::repeat_with(|| pace.take()).take(50).filter(|it| *it).count();
        assert_eq!(taken(), 10);
        tokio::time::advance(Duration::from_millis(300)).await;
        assert_eq!(taken(), 3);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(taken(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_is_free_and_the_rest_waits() {
        let pace = Pace::new(100);
        let begin = Instant::now();
        for _ in 0..100 {
            pace.wait().await;
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
        for _ in 0..100 {
            pace.wait().await;
        }
        assert!(begin.elapsed() >= Duration::from_millis(990), "{:?}", begin.elapsed());
    }
}
