//! What is known about one sandbox, and what a reservation asks for.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::id::hex;
use crate::{AccountId, Ended, Event, KeyId, NodeId, SandboxId, SandboxState, Size, SizeName};

/// How long a create's idempotency key is remembered.
pub const IDEMPOTENCY_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// What is known about one sandbox. Plain data; times are kept to the microsecond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its id.
    pub id: SandboxId,
    /// Whose it is.
    pub account_id: AccountId,
    /// Where it runs.
    pub node_id: NodeId,
    /// The key that made it.
    pub key_id: Option<KeyId>,
    /// The session that made it.
    pub session: Option<String>,
    /// The caller's name for it.
    pub name: Option<String>,
    /// Its template.
    pub template: String,
    /// Its size.
    pub size: SizeName,
    /// The size's numbers as given.
    pub given: Size,
    /// Processors before they were clamped to the host's.
    pub vcpus_asked: u32,
    /// The caller's labels.
    pub metadata: BTreeMap<String, String>,
    /// The lifetime that it was created with.
    pub lifetime: Duration,
    /// What a second of it costs, in micro-units, as it was when it was created.
    pub price_per_second: i64,
    /// What it is about its pauses.
    pub pause: Pause,
    /// Where it is in its life.
    pub state: SandboxState,
    /// When the create was asked for.
    pub created_at: Timestamp,
    /// When it became usable; from here it is metered.
    pub ready_at: Option<Timestamp>,
    /// When its lease ends.
    pub expires_at: Option<Timestamp>,
    /// Why and when it ended; set from `deleting` on.
    pub ended: Option<Ended>,
    /// Up to when it has been charged, and was last known to live. Moved by charging only.
    pub metered_until: Option<Timestamp>,
    /// What it may reach. Opaque.
    pub network: serde_json::Value,
    /// Its account's secrets that it may use: the name of each, and the text that stands for it.
    pub secrets: BTreeMap<String, String>,
    /// What has gone through its network, as far as it was written down. Moved by
    /// `sandbox_traffic` only.
    pub traffic: Traffic,
    /// What the driver needs to find it again after a restart. Opaque.
    pub adoption: Option<serde_json::Value>,
    /// Counts the saves. A save of an older one is refused.
    pub version: i64,
}

impl Record {
    /// Seconds from ready to its end, or to `now` while it lives.
    #[must_use]
    pub fn seconds(&self, now: Timestamp) -> f64 {
        let Some(ready) = self.ready_at else { return 0.0 };
        let end = self.ended.map_or(now, |ended| ended.at);
        end.duration_since(ready).as_secs_f64().max(0.0)
    }

    /// Whole seconds that have been charged.
    #[must_use]
    pub fn charged_seconds(&self) -> i64 {
        match (self.ready_at, self.metered_until) {
            (Some(from), Some(to)) => to.duration_since(from).as_secs().max(0),
            _ => 0,
        }
    }

    /// What it has cost so far, in micro-units: what the ledger holds for it, as its prices never
    /// change.
    #[must_use]
    pub fn cost(&self) -> i64 {
        let paused = self.pause.charged_seconds;
        let running = self.charged_seconds().saturating_sub(paused);
        let cost = running.saturating_mul(self.price_per_second);
        cost.saturating_add(paused.saturating_mul(self.pause.price_per_second))
    }

    /// The same as if it were charged up to `now` as well.
    #[must_use]
    pub fn cost_at(&self, now: Timestamp) -> i64 {
        let dues = crate::rules::dues(self, now).unwrap_or_default();
        dues.iter().fold(self.cost(), |cost, due| cost.saturating_add(due.amount))
    }
}

/// What is known about the pauses of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// What a second costs in which it was paused all the time, in micro-units, as it was when the
    /// sandbox was created.
    pub price_per_second: i64,
    /// After so long without use it is paused by itself.
    pub after: Option<Duration>,
    /// Whether use lets it go on.
    pub auto_resume: bool,
    /// When it was paused, or went on, last.
    pub turned_at: Option<Timestamp>,
    /// Whole seconds that were charged at the price of a pause. Moved by charging only.
    pub charged_seconds: i64,
}

impl Default for Pause {
    fn default() -> Self {
        Self {
            price_per_second: 0,
            after: None,
            auto_resume: true,
            turned_at: None,
            charged_seconds: 0,
        }
    }
}

/// What has gone through sandboxes' networks, and what was asked of them. Each only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// To the world.
    pub bytes_out: u64,
    /// From the world.
    pub bytes_in: u64,
    /// Connections that were made, refused ones too.
    pub connections: u64,
    /// Connections and names that were refused.
    pub denied: u64,
    /// Questions to DNS.
    pub dns_queries: u64,
}

impl Traffic {
    /// Both together, each up to the end of its numbers.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// What is more in this one than in `other`.
    #[must_use]
    pub fn beyond(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    /// The larger of each.
    #[must_use]
    pub fn at_least(self, other: Self) -> Self {
        self.with(other, u64::max)
    }

    fn with(self, other: Self, join: fn(u64, u64) -> u64) -> Self {
        Self {
            bytes_out: join(self.bytes_out, other.bytes_out),
            bytes_in: join(self.bytes_in, other.bytes_in),
            connections: join(self.connections, other.connections),
            denied: join(self.denied, other.denied),
            dns_queries: join(self.dns_queries, other.dns_queries),
        }
    }
}

/// A create that wants a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The sandbox, `provisioning`. Its `created_at` is the moment of the reservation; its version
    /// is set by the store.
    pub record: Record,
    /// Sandboxes of its account at once, where the account has no limit of its own.
    pub account_limit: u32,
    /// Sandboxes on its node at once.
    pub node_limit: u32,
    /// The caller's idempotency key.
    pub idempotency: Option<Idempotency>,
    /// What webhooks shall tell if it succeeds; recorded with it.
    pub events: Vec<Event>,
}

/// An idempotency key of one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The key.
    pub key: String,
    /// A digest of the request: the same key with another request is refused.
    pub fingerprint: String,
}

impl Idempotency {
    /// Of `key` and the request that came with it. Only a hash of the request is kept, for it may
    /// hold what nobody else should read.
    #[must_use]
    pub fn new(key: impl Into<String>, request: &[u8]) -> Self {
        Self { key: key.into(), fingerprint: hex(&Sha256::digest(request)) }
    }
}

/// What became of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "short-lived, and nearly always the large one")]
pub enum Reserved {
    /// The place is taken; the record as stored.
    New(Record),
    /// This idempotency key has made this one before.
    Existing(Record),
}

/// Sums over everything that a store has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// Sandboxes that became ready.
    pub sandboxes: u64,
    /// Seconds of those that ended.
    pub ended_seconds: f64,
    /// What all of them were charged so far, in micro-units.
    pub cost: i64,
    /// What has gone through their networks, as far as it was written down.
    pub traffic: Traffic,
}
