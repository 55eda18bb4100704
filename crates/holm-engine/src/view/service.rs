//! The service as a whole: usage, limits, what it offers.

use std::time::Duration;

use holm_gate::EgressPolicy;
use holm_runtime::{LayerState, Pausing};
use holm_store::Traffic;
use jiff::Timestamp;

use crate::{Ended, Language, SandboxId, SandboxState, Size, SizeName};

/// Answer of `usage`.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageReport {
    /// Alive now.
    pub sandboxes_running: usize,
    /// Ever ready.
    pub sandboxes_total: u64,
    /// Seconds of all of them, from ready to their end or to now.
    pub seconds_total: f64,
    /// What they cost, in micro-units, up to now.
    pub cost_total: i64,
    /// Whether anything costs anything here.
    pub charges: bool,
    /// What the account has, in micro-units, as far as it was charged.
    pub balance: i64,
    /// What the running ones cost in an hour, in micro-units.
    pub burn_per_hour: i64,
    /// What money is counted in; a micro-unit is a millionth of it.
    pub currency: String,
    /// What has gone through their networks.
    pub traffic: Traffic,
    /// The newest ones.
    pub recent: Vec<UsageRow>,
}

/// One sandbox in a usage report.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageRow {
    /// Its id.
    pub id: SandboxId,
    /// Its name.
    pub name: Option<String>,
    /// Its size.
    pub size: SizeName,
    /// Where it is in its life.
    pub state: SandboxState,
    /// When the create was asked for.
    pub created_at: Timestamp,
    /// Seconds from ready to its end or to now.
    pub seconds: f64,
    /// What they cost, in micro-units.
    pub cost: i64,
    /// Why and when it ended.
    pub ended: Option<Ended>,
    /// What has gone through its network.
    pub traffic: Traffic,
}

/// Answer of `service_info`.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceInfo {
    /// `holm`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Which driver makes sandboxes.
    pub driver: String,
    /// `root` or `rootless` …
    pub mode: String,
    /// Layers that this host gives, as found at start-up.
    pub enforced: Vec<String>,
    /// Layers that it does not.
    pub missing: Vec<String>,
    /// All of them with what does it and how to mend it.
    pub layers: Vec<LayerState>,
    /// Limits.
    pub limits: Limits,
    /// Sizes: name and numbers, processors as this host gives them.
    pub sizes: Vec<(SizeName, Size)>,
    /// What a second of a size costs, in micro-units.
    pub prices: Vec<(SizeName, i64)>,
    /// What one costs of a sandbox that is paused.
    pub paused_prices: Vec<(SizeName, i64)>,
    /// Whether sandboxes can be paused here.
    pub pause: Pausing,
    /// What money is counted in.
    pub currency: String,
    /// Templates that may be asked for, aliases included.
    pub templates: Vec<String>,
    /// The one that a create without a template gets.
    pub default_template: String,
    /// Languages of `code_run`; whether a sandbox has the interpreter depends on its template.
    pub languages: Vec<Language>,
    /// Text about the network.
    pub network: String,
    /// What a sandbox may reach whose creator says nothing.
    pub network_default: EgressPolicy,
}

/// Limits in service info.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it; see EngineSettings")]
pub struct Limits {
    pub max_sandboxes: usize,
    pub lifetime_default: Duration,
    pub lifetime_min: Duration,
    pub lifetime_max: Duration,
    pub exec_timeout: Duration,
    pub code_timeout: Duration,
    pub output_limit: u64,
    pub max_read: u64,
    pub max_write: u64,
    pub max_upload: u64,
    pub max_env_value: usize,
    pub max_env_total: usize,
}
