//! How a sandbox is shown.

use std::collections::BTreeMap;

use holm_engine::{EndReason, SandboxId, SandboxState, SandboxView, SizeName};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::rest::policy::PolicyShown;
use crate::rest::text::{maybe_time_schema, sandbox_id_schema, time_schema};
use crate::show::{time, units};

/// A sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Sandbox {
    /// Its id.
    #[schemars(schema_with = "sandbox_id_schema")]
    pub id: SandboxId,
    /// The name it was given.
    pub name: Option<String>,
    /// Where it is in its life.
    #[schemars(schema_with = "state_schema")]
    pub status: &'static str,
    /// What it was made from.
    pub template: String,
    /// Its size.
    #[schemars(schema_with = "size_schema")]
    pub size: &'static str,
    /// Processors.
    pub vcpus: u32,
    /// Processors of the size, where the host has fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus_asked: Option<u32>,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Disk in MiB.
    pub disk_mb: u64,
    /// When it was asked for.
    #[schemars(schema_with = "time_schema")]
    pub created_at: String,
    /// When it became usable.
    #[schemars(schema_with = "maybe_time_schema")]
    pub ready_at: Option<String>,
    /// When it ends by itself.
    #[schemars(schema_with = "maybe_time_schema")]
    pub expires_at: Option<String>,
    /// Since when it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time_schema")]
    pub paused_at: Option<String>,
    /// It is paused after so long without use. Only where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_pause_seconds: Option<u64>,
    /// Whether use lets it go on when it is paused.
    pub auto_resume: bool,
    /// What it may reach, as far as its account may.
    pub network: PolicyShown,
    /// What its account may reach at most. Only for a single one that runs, and where there is a
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_ceiling: Option<PolicyShown>,
    /// Names of the account's secrets that it may use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Layers of isolation in force, as measured inside.
    pub enforced: Vec<String>,
    /// Layers that this host does not give.
    pub missing: Vec<String>,
    /// Its labels.
    pub metadata: BTreeMap<String, String>,
    /// What an hour of it costs.
    pub price_per_hour: f64,
    /// What an hour of it costs while it is paused.
    pub paused_price_per_hour: f64,
    /// Its exposed ports. Only for a single one that runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortBrief>,
    /// What it uses at this moment, as far as the host can tell. Only for a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageNow>,
    /// Why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "reason_schema")]
    pub ended_reason: Option<&'static str>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time_schema")]
    pub ended_at: Option<String>,
}

/// An exposed port.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PortBrief {
    /// Its number.
    pub port: u16,
    /// Its address.
    pub url: String,
    /// Whether everybody may look.
    pub public: bool,
}

/// What a sandbox uses at this moment.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UsageNow {
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Seconds of processor time since it is ready.
    pub cpu_seconds: Option<f64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// How often a process in it was killed for its memory limit, since it is ready.
    pub oom_kills: Option<u64>,
}

/// A page of sandboxes, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SandboxList {
    /// The sandboxes.
    pub sandboxes: Vec<Sandbox>,
    /// For the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// A sandbox that is gone: nothing of it is left.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SandboxDestroyed {
    /// Its id.
    #[schemars(schema_with = "sandbox_id_schema")]
    pub id: SandboxId,
    /// True when it was over, or on its way there, before this request.
    pub already_destroyed: bool,
    /// Why it ended.
    #[schemars(schema_with = "reason_schema")]
    pub ended_reason: &'static str,
    /// When it ended.
    #[schemars(schema_with = "time_schema")]
    pub ended_at: String,
}

/// Where a sandbox is in its life.
#[must_use]
pub fn state_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": SandboxState::ALL.map(SandboxState::as_str)})
}

/// The names of sizes.
#[must_use]
pub fn size_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": SizeName::ALL.map(SizeName::as_str)})
}

/// Why a sandbox ended.
#[must_use]
pub fn reason_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": EndReason::ALL.map(EndReason::as_str)})
}

impl From<SandboxView> for Sandbox {
    fn from(view: SandboxView) -> Self {
        Self {
            id: view.id,
            name: view.name,
            status: view.state.as_str(),
            template: view.template,
            size: view.size.as_str(),
            vcpus: view.vcpus,
            vcpus_asked: view.vcpus_asked.filter(|asked| *asked != view.vcpus),
            memory_mb: view.memory_mb,
            disk_mb: view.disk_mb,
            created_at: time(view.created_at),
            ready_at: view.ready_at.map(time),
            expires_at: view.expires_at.map(time),
            paused_at: view.paused_at.map(time),
            auto_pause_seconds: view.auto_pause.map(|after| after.as_secs()),
            auto_resume: view.auto_resume,
            network: view.network.into(),
            network_ceiling: view
                .network_now
                .and_then(|network| network.state?.ceiling)
                .map(PolicyShown::from),
            secrets: view.secrets,
            enforced: view.enforced,
            missing: view.missing,
            metadata: view.metadata,
            price_per_hour: units(view.price_per_second.saturating_mul(3600)),
            paused_price_per_hour: units(view.paused_price_per_second.saturating_mul(3600)),
            ports: Vec::new(),
            usage: view.usage.map(|usage| UsageNow {
                memory_bytes: usage.memory_bytes,
                cpu_seconds: usage.cpu_seconds,
                processes: usage.processes,
                oom_kills: usage.oom_kills,
            }),
            ended_reason: view.ended.map(|ended| ended.reason.as_str()),
            ended_at: view.ended.map(|ended| time(ended.at)),
        }
    }
}
