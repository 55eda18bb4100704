//! The streams of one HTTP/2 connection. There a client that does not read an answer holds up that
//! stream alone, which no write shows: so each answer says when it has given a part and when it was
//! asked for the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// The streams of a connection.
#[derive(Debug, Clone)]
pub struct Streams {
    table: Arc<Mutex<Table>>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// Since when each waits for its client.
    waiting: HashMap<u64, Option<Instant>>,
}

/// One of them, until this is dropped.
#[derive(Debug)]
pub struct Open {
    id: u64,
    streams: Streams,
}

impl Default for Streams {
    fn default() -> Self {
        Self { table: Arc::default(), count: watch::Sender::new(0) }
    }
}

impl Streams {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change under the lock is one call of the map: it is whole even after a panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more.
    #[must_use]
    pub fn open(&self) -> Open {
        let mut table = self.table();
        let id = table.next;
        table.next += 1;
        table.waiting.insert(id, None);
        drop(table);
        self.count.send_modify(|count| *count += 1);
        Open { id, streams: self.clone() }
    }

    /// Resolves when there was none for so long.
    pub async fn idle(&self, time: Duration) {
        let mut count = self.count.subscribe();
        loop {
            // The sender is in `self`.
            let _ = count.wait_for(|count| *count == 0).await;
            if timeout(time, count.wait_for(|count| *count > 0)).await.is_err() {
                return;
            }
        }
    }

    /// Resolves when one waits for its client for so long.
    pub async fn stalled(&self, time: Duration) {
        loop {
            sleep(time / 4).await;
            let is_over = |since: &Option<Instant>| since.is_some_and(|at| at.elapsed() >= time);
            if self.table().waiting.values().any(is_over) {
                return;
            }
        }
    }
}

impl Open {
    /// The client has a part to read.
    pub fn given(&self) {
        self.streams.table().waiting.insert(self.id, Some(Instant::now()));
    }

    /// The client wants the next.
    pub fn asked(&self) {
        self.streams.table().waiting.insert(self.id, None);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.streams.table().waiting.remove(&self.id);
        self.streams.count.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_found_and_who_waits_for_us_is_not() {
        let streams = Streams::default();
        let (slow, silent) = (streams.open(), streams.open());
        // A server that has nothing to say for long is no client's fault.
        assert!(timeout(10 * MINUTE, streams.stalled(MINUTE)).await.is_err());
        slow.given();
        assert!(timeout(2 * MINUTE, streams.stalled(MINUTE)).await.is_ok());
        slow.asked();
        assert!(timeout(10 * MINUTE, streams.stalled(MINUTE)).await.is_err());
        silent.given();
        drop(silent);
        assert!(timeout(10 * MINUTE, streams.stalled(MINUTE)).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_streams_idles() {
        let streams = Streams::default();
        let one = streams.open();
        assert!(timeout(10 * MINUTE, streams.idle(MINUTE)).await.is_err());
        drop(one);
        assert!(timeout(2 * MINUTE, streams.idle(MINUTE)).await.is_ok());
    }
}
