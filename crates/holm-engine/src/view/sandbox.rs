//! Sandboxes: what creating takes, what looking at one answers.

use std::collections::BTreeMap;
use std::time::Duration;

use holm_gate::{Counters, Denial, EgressPolicy};
use holm_runtime::MountRo;
use holm_store::{Port, Traffic};
use jiff::Timestamp;

use crate::{Ended, SandboxId, SandboxState, SizeName};

/// Request of `sandbox_create`. Everything has a default.
#[derive(Debug, Clone, Default)]
pub struct CreateSandbox {
    /// Template; the setting's default where absent.
    pub template: Option<String>,
    /// `small`, `medium` or `large`.
    pub size: Option<String>,
    /// Without a size: the smallest with this many processors …
    pub cpu: Option<u32>,
    /// … and this many MiB of memory.
    pub memory_mb: Option<u64>,
    /// The caller's name for it (1 to 64 characters); also the host name where it is one.
    pub name: Option<String>,
    /// Lifetime from the moment that it is ready.
    pub timeout: Option<Duration>,
    /// Variables of every command in it.
    pub env: BTreeMap<String, String>,
    /// Labels; kept, not interpreted.
    pub metadata: BTreeMap<String, String>,
    /// What it may reach; the setting's default where absent.
    pub network: Option<EgressPolicy>,
    /// Names of its account's secrets that it may use.
    pub secrets: Vec<String>,
    /// Where commands start; `/workspace` where absent.
    pub workdir: Option<String>,
    /// Host paths shown read-only. Only for callers who own the host.
    pub mounts: Vec<MountRo>,
    /// After so long without use it is paused by itself; never where absent.
    pub auto_pause: Option<Duration>,
    /// Whether use lets it go on when it is paused; so it is where absent.
    pub auto_resume: Option<bool>,
    /// Makes two equal requests with the same key one create, for a day. Then also a caller that
    /// goes away does not stop it, for it may come back and ask again.
    pub idempotency_key: Option<String>,
}

/// Request of `sandbox_list`.
#[derive(Debug, Clone, Copy)]
pub struct ListSandboxes {
    /// At most this many, newest first.
    pub limit: usize,
    /// Also those that are over and still remembered.
    pub include_deleted: bool,
}

impl Default for ListSandboxes {
    fn default() -> Self {
        Self { limit: 100, include_deleted: false }
    }
}

/// One sandbox as callers see it.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxView {
    /// Its id.
    pub id: SandboxId,
    /// The caller's name for it.
    pub name: Option<String>,
    /// Where it is in its life.
    pub state: SandboxState,
    /// Its template.
    pub template: String,
    /// Its size.
    pub size: SizeName,
    /// Processors given.
    pub vcpus: u32,
    /// Processors that the size asks for, where the host has fewer.
    pub vcpus_asked: Option<u32>,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Disk in MiB.
    pub disk_mb: u64,
    /// When the create was asked for.
    pub created_at: Timestamp,
    /// When it became usable.
    pub ready_at: Option<Timestamp>,
    /// When its lease ends.
    pub expires_at: Option<Timestamp>,
    /// What it may reach, as far as its account may.
    pub network: EgressPolicy,
    /// More about that; only in `sandbox_get`.
    pub network_now: Option<NetworkView>,
    /// Names of secrets that it may use.
    pub secrets: Vec<String>,
    /// Layers of isolation in force, as measured in it.
    pub enforced: Vec<String>,
    /// Layers that it goes without.
    pub missing: Vec<String>,
    /// The caller's labels.
    pub metadata: BTreeMap<String, String>,
    /// The session that made it.
    pub session: Option<String>,
    /// What a second of it costs, in micro-units.
    pub price_per_second: i64,
    /// What a second of it costs in which it is paused.
    pub paused_price_per_second: i64,
    /// Since when it is paused; nothing while it is not.
    pub paused_at: Option<Timestamp>,
    /// After so long without use it is paused by itself.
    pub auto_pause: Option<Duration>,
    /// Whether use lets it go on.
    pub auto_resume: bool,
    /// Its exposed ports; only in `sandbox_get` of a running one.
    pub ports: Vec<Port>,
    /// What it uses now; only in `sandbox_get` of a running one.
    pub usage: Option<UsageNow>,
    /// Why and when it ended; set from `deleting` on.
    pub ended: Option<Ended>,
}

/// What a sandbox uses at this moment; `None` where this host cannot tell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UsageNow {
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Seconds of processor time.
    pub cpu_seconds: Option<f64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// How often the kernel killed a process in it for memory, since it is ready.
    pub oom_kills: Option<u64>,
}

/// What a sandbox may reach, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkView {
    /// Its own policy.
    pub policy: EgressPolicy,
    /// What has gone through since it was made.
    pub traffic: Traffic,
    /// Only of one that runs.
    pub state: Option<NetworkState>,
}

/// The network of a sandbox that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkState {
    /// What its account permits at most.
    pub ceiling: Option<EgressPolicy>,
    /// Whether it has a gate; without one it reaches nothing.
    pub attached: bool,
    /// Whether it is not known which of two policies is recorded, after a change that failed; it
    /// reaches nothing until it is.
    pub unsure: bool,
    /// What was counted since this engine has it; what was counted since it was made is in
    /// [`NetworkView::traffic`].
    pub counters: Counters,
    /// What was refused since `denials_since`: the newest hundred, newest last.
    pub denials: Vec<Denial>,
    /// Since when refusals are noted. Those before an engine's start are counted, and not kept.
    pub denials_since: Option<Timestamp>,
}

/// Answer of `sandbox_destroy`. Only given when nothing of the sandbox is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destroyed {
    /// Its id.
    pub id: SandboxId,
    /// True when it was over, or on its way there, before this call: destroying is idempotent.
    pub already: bool,
    /// Why and when it ended.
    pub ended: Ended,
}
