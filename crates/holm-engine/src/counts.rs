//! What the engine has done since its start, in numbers: for whoever watches the service. Nothing
//! in it tells one account from another.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holm_gate::Counters;
use tokio::time::Instant;

use crate::engine::Inner;
use crate::network::Links;
use crate::{Engine, ErrorKind, SandboxState};

/// Upper bounds of a histogram's buckets, in milliseconds.
pub const BOUNDS_MS: [u64; 13] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 30_000, 300_000];

/// Durations, counted by their length.
#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BOUNDS_MS.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
}

/// Durations as they were counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many were at most as long as each of [`BOUNDS_MS`].
    pub at_most: [u64; BOUNDS_MS.len()],
    /// How many there were.
    pub count: u64,
    /// How long they were together.
    pub sum: Duration,
}

impl Histogram {
    fn add(&self, duration: Duration) {
        let wide = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        let micros = wide(duration.as_micros());
        for (bucket, bound) in self.buckets.iter().zip(BOUNDS_MS) {
            if micros <= bound * 1000 {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    fn read(&self) -> Durations {
        Durations {
            at_most: self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed)),
            count: self.count.load(Ordering::Relaxed),
            sum: Duration::from_micros(self.sum_us.load(Ordering::Relaxed)),
        }
    }
}

/// Counted by the engine as it goes.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    creates: Histogram,
    failures: Mutex<BTreeMap<&'static str, u64>>,
    commands: Histogram,
    charged: Mutex<Option<Instant>>,
    /// What networks that are gone have counted.
    pub links: Links,
}

impl Counts {
    /// A create came to its end.
    pub fn created(&self, since: Instant, failure: Option<ErrorKind>) {
        match failure {
            None => self.creates.add(since.elapsed()),
            Some(kind) => {
                let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
                *failures.entry(kind.as_str()).or_default() += 1;
            }
        }
    }

    /// Everything that runs was charged.
    pub fn charged(&self) {
        *self.charged.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

/// A running command.
pub(crate) struct Run {
    engine: Arc<Inner>,
    since: Instant,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.engine.counts.commands.add(self.since.elapsed());
    }
}

/// What the engine has done, and has.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Sandboxes that are not over, by state.
    pub sandboxes: Vec<(SandboxState, usize)>,
    /// Creates that succeeded.
    pub creates: Durations,
    /// Creates that failed, by error kind.
    pub create_failures: Vec<(&'static str, u64)>,
    /// Commands that ended; code counts as a command.
    pub commands: Durations,
    /// Since everything that runs was last charged; nothing before the first time.
    pub ledger_lag: Option<Duration>,
    /// What has gone through sandboxes' networks.
    pub network: Counters,
    /// Resident memory of this process, where the system tells.
    pub memory_bytes: Option<u64>,
}

impl Engine {
    /// A command begins; it is counted when this is dropped, however it ends.
    pub(crate) fn count_run(&self) -> Run {
        Run { engine: Arc::clone(&self.inner), since: Instant::now() }
    }

    /// What this engine has done since its start, and has now, on this node. For faces that show it
    /// to nobody but operators.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let counts = &self.inner.counts;
        let all = self.inner.registry.all();
        let states = [
            SandboxState::Provisioning,
            SandboxState::Running,
            SandboxState::Paused,
            SandboxState::Deleting,
        ];
        let sandboxes = states
            .map(|state| (state, all.iter().filter(|sandbox| sandbox.state() == state).count()));
        let failures = counts.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let charged = *counts.charged.lock().unwrap_or_else(PoisonError::into_inner);
        Metrics {
            sandboxes: sandboxes.to_vec(),
            creates: counts.creates.read(),
            create_failures: failures.iter().map(|(kind, count)| (*kind, *count)).collect(),
            commands: counts.commands.read(),
            ledger_lag: charged.map(|at| at.elapsed()),
            network: counts.links.sum(all.iter().map(|sandbox| &sandbox.link)),
            memory_bytes: resident(),
        }
    }
}

/// `VmRSS` of this process.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_in_every_bucket_that_holds_them() {
        let histogram = Histogram::default();
        for millis in [0, 1, 3, 700, 999_999] {
            histogram.add(Duration::from_millis(millis));
        }
        let read = histogram.read();
        assert_eq!(read.at_most, [2, 2, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4]);
        assert_eq!((read.count, read.sum), (5, Duration::from_millis(1_000_703)));
    }

    #[test]
    fn the_memory_of_this_process_is_known() {
        assert!(resident().is_some_and(|bytes| bytes > 1 << 16));
    }
}
