//! Snapshots and forks, as callers ask for them and see them.

use std::collections::BTreeMap;
use std::time::Duration;

use holm_gate::EgressPolicy;
use jiff::Timestamp;

/// A snapshot of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotView {
    /// Its name, for `template` of a create.
    pub name: String,
    /// Which sandbox's files it has.
    pub source: String,
    /// Bytes of what that sandbox had written, which count for its account.
    pub bytes: u64,
    /// The same with everything below, which others share.
    pub total_bytes: u64,
    /// When it was made.
    pub created_at: Option<Timestamp>,
}

/// Request of `sandbox_fork`.
#[derive(Debug, Clone)]
pub struct ForkSandbox {
    /// How many.
    pub count: u32,
    /// The name of all of them; that of the first one where absent.
    pub name: Option<String>,
    /// Lifetime from the moment that each is ready; as the first one's where absent.
    pub timeout: Option<Duration>,
    /// Variables of every command in them.
    pub env: BTreeMap<String, String>,
    /// What they may reach; as the first one where absent.
    pub network: Option<EgressPolicy>,
}

impl Default for ForkSandbox {
    fn default() -> Self {
        Self { count: 1, name: None, timeout: None, env: BTreeMap::new(), network: None }
    }
}
