//! What a gate counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// What has gone through a gate since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that the sandbox sent, its questions to DNS among them.
    pub bytes_out: u64,
    /// Bytes that it was sent, answers of DNS among them.
    pub bytes_in: u64,
    /// Connections that it made, refused ones too.
    pub connections_total: u64,
    /// Connections that are open.
    pub connections_open: u64,
    /// Connections and names that were refused.
    pub denied_total: u64,
    /// Those of them that came too fast to be in the log.
    pub denied_unlogged: u64,
    /// Questions to DNS.
    pub dns_queries: u64,
}

/// The same, while it is counted.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) bytes_out: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) connections_total: AtomicU64,
    pub(crate) connections_open: AtomicU64,
    pub(crate) denied_total: AtomicU64,
    pub(crate) denied_unlogged: AtomicU64,
    pub(crate) dns_queries: AtomicU64,
}

/// One more of something.
pub(crate) fn count(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Tally {
    pub(crate) fn read(&self) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            bytes_out: get(&self.bytes_out),
            bytes_in: get(&self.bytes_in),
            connections_total: get(&self.connections_total),
            connections_open: get(&self.connections_open),
            denied_total: get(&self.denied_total),
            denied_unlogged: get(&self.denied_unlogged),
            dns_queries: get(&self.dns_queries),
        }
    }
}
