//! The service as a whole: what it offers, and what was used of it.

use std::collections::BTreeMap;

use holm_engine::{KeyScope, SandboxId, SizeName};
use hyper::Method;
use schemars::JsonSchema;
use serde::Serialize;

use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::{Fixed, NoQuery, Nothing};
use super::output::Answer;
use super::policy::PolicyShown;
use super::sandboxes::view::{reason_schema, size_schema, state_schema};
use super::text::{sandbox_id_schema, time_schema};
use crate::show::{self, time, units};

/// What the service offers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ServiceInfo {
    /// `holm`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What makes the sandboxes.
    pub driver: String,
    /// With which rights it runs.
    pub mode: String,
    /// Layers of isolation that this host gives.
    pub enforced: Vec<String>,
    /// Layers that it does not give.
    pub missing: Vec<String>,
    /// What sandboxes can be made from.
    pub templates: Vec<String>,
    /// What they are made from where none is named.
    pub default_template: String,
    /// What the sizes mean, by name.
    pub sizes: BTreeMap<&'static str, Size>,
    /// Languages of run-code.
    pub languages: Vec<&'static str>,
    /// What sandboxes may reach, in a sentence.
    pub network: String,
    /// What one may reach whose creator says nothing.
    pub network_default: PolicyShown,
    /// Limits.
    pub limits: Limits,
    /// Whether sandboxes can be paused on this host.
    pub pause: Pausing,
    /// What sandboxes cost.
    pub prices: Prices,
}

/// Whether sandboxes can be paused.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Pausing {
    /// Whether they can.
    pub possible: bool,
    /// What does it, or why nothing does.
    pub by: String,
    /// How to mend it where it cannot be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

/// What a size means.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Size {
    /// Processors.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Disk in MiB.
    pub disk_mb: u64,
    /// Processes and threads at once.
    pub max_processes: u64,
}

/// Limits.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Limits {
    /// Sandboxes of one account at once.
    pub max_sandboxes: usize,
    /// Lifetime where none is named.
    pub timeout_minutes_default: u64,
    /// Shortest lifetime.
    pub timeout_seconds_min: u64,
    /// Longest lifetime, extensions included.
    pub timeout_minutes_max: u64,
    /// Time limit of a command where none is named.
    pub exec_timeout_ms_default: u64,
    /// The same of code.
    pub run_code_timeout_ms_default: u64,
    /// Bytes kept of each output stream.
    pub output_bytes_per_stream: u64,
    /// Bytes of one read as JSON.
    pub read_file_bytes: u64,
    /// Bytes of one write as JSON.
    pub write_file_bytes: u64,
    /// Bytes of one raw upload.
    pub upload_bytes: u64,
    /// Bytes of one variable.
    pub env_value_bytes: usize,
    /// Bytes of all variables.
    pub env_total_bytes: usize,
}

/// What sandboxes cost.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Prices {
    /// By size, for an hour; charged per second from ready to destroyed.
    pub per_hour: BTreeMap<&'static str, f64>,
    /// The same while a sandbox is paused.
    pub per_hour_paused: BTreeMap<&'static str, f64>,
    /// What money is counted in.
    pub currency: String,
}

/// What was used, and what is left.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Usage {
    /// Alive now.
    pub sandboxes_running: usize,
    /// Ever ready.
    pub sandboxes_total: u64,
    /// Seconds of all of them, running ones up to now.
    pub seconds_total: f64,
    /// What all of them cost, up to now.
    pub cost_total: f64,
    /// Credit left; null where nothing is charged.
    pub balance: Option<f64>,
    /// What the running ones cost in an hour.
    pub burn_per_hour: f64,
    /// What money is counted in.
    pub currency: String,
    /// Bytes that all of them have sent to the world.
    pub bytes_out: u64,
    /// Bytes that they were sent.
    pub bytes_in: u64,
    /// Connections that they made, refused ones too.
    pub connections: u64,
    /// The newest ones.
    pub recent: Vec<UsageRow>,
}

/// What one sandbox used.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UsageRow {
    /// Its id.
    #[schemars(schema_with = "sandbox_id_schema")]
    pub sandbox_id: SandboxId,
    /// Its name.
    pub name: Option<String>,
    /// Its size.
    #[schemars(schema_with = "size_schema")]
    pub size: &'static str,
    /// Where it is in its life.
    #[schemars(schema_with = "state_schema")]
    pub status: &'static str,
    /// When it was asked for.
    #[schemars(schema_with = "time_schema")]
    pub created_at: String,
    /// Seconds from ready to its end or to now.
    pub seconds: f64,
    /// What they cost.
    pub cost: f64,
    /// Bytes that it has sent to the world.
    pub bytes_out: u64,
    /// Bytes that it was sent.
    pub bytes_in: u64,
    /// Connections that it made, refused ones too.
    pub connections: u64,
    /// Why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "reason_schema")]
    pub ended_reason: Option<&'static str>,
}

/// The endpoints of the service.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let usage_about = About {
        id: "usage_get",
        tag: "service",
        summary: "Look at what was used",
        description: "Balance, current burn per hour, and the newest sandboxes with seconds and \
            cost, of the key's account.",
        scope: Some(KeyScope::Read),
        errors: &[],
        headers: &[],
    };
    let info_about = About {
        id: "service_info_get",
        summary: "Look at what the service offers",
        description: "Version, isolation in force, templates, sizes, limits, prices. Needs no key.",
        scope: None,
        ..usage_about
    };
    vec![
        Endpoint::new(Method::GET, "/v1/usage", usage_about, usage),
        Endpoint::new(Method::GET, "/v1/service-info", info_about, info),
    ]
}

async fn usage(call: Call<Fixed, NoQuery, Nothing>) -> Result<Answer<Usage>, Failure> {
    let report = call.engine.usage().await?;
    let recent = report.recent.into_iter().map(|row| UsageRow {
        sandbox_id: row.id,
        name: row.name,
        size: row.size.as_str(),
        status: row.state.as_str(),
        created_at: time(row.created_at),
        seconds: row.seconds,
        cost: units(row.cost),
        bytes_out: row.traffic.bytes_out,
        bytes_in: row.traffic.bytes_in,
        connections: row.traffic.connections,
        ended_reason: row.ended.map(|ended| ended.reason.as_str()),
    });
    Ok(Answer(Usage {
        sandboxes_running: report.sandboxes_running,
        sandboxes_total: report.sandboxes_total,
        seconds_total: report.seconds_total,
        cost_total: units(report.cost_total),
        balance: report.charges.then(|| units(report.balance)),
        burn_per_hour: units(report.burn_per_hour),
        currency: report.currency,
        bytes_out: report.traffic.bytes_out,
        bytes_in: report.traffic.bytes_in,
        connections: report.traffic.connections,
        recent: recent.collect(),
    }))
}

async fn info(call: Call<Fixed, NoQuery, Nothing>) -> Result<Answer<ServiceInfo>, Failure> {
    let info = call.engine.service_info().await;
    let limits = &info.limits;
    let per_hour = |price: i64| units(price.saturating_mul(3600));
    let there = |name| info.sizes.iter().any(|(size, _)| *size == name);
    let table = |prices: &[(SizeName, i64)]| {
        let offered = prices.iter().filter(|(name, _)| there(*name));
        offered.map(|(name, price)| (name.as_str(), per_hour(*price))).collect()
    };
    Ok(Answer(ServiceInfo {
        limits: Limits {
            max_sandboxes: limits.max_sandboxes,
            timeout_minutes_default: limits.lifetime_default.as_secs() / 60,
            timeout_seconds_min: limits.lifetime_min.as_secs(),
            timeout_minutes_max: limits.lifetime_max.as_secs() / 60,
            exec_timeout_ms_default: show::milliseconds(limits.exec_timeout),
            run_code_timeout_ms_default: show::milliseconds(limits.code_timeout),
            output_bytes_per_stream: limits.output_limit,
            read_file_bytes: limits.max_read,
            write_file_bytes: limits.max_write,
            upload_bytes: limits.max_upload,
            env_value_bytes: limits.max_env_value,
            env_total_bytes: limits.max_env_total,
        },
        prices: Prices {
            per_hour: table(&info.prices),
            per_hour_paused: table(&info.paused_prices),
            currency: info.currency,
        },
        pause: Pausing { possible: info.pause.possible, by: info.pause.by, mend: info.pause.mend },
        sizes: info
            .sizes
            .iter()
            .map(|(name, size)| {
                let size = Size {
                    vcpus: size.vcpus,
                    memory_mb: size.memory_mb,
                    disk_mb: size.disk_mb,
                    max_processes: size.max_processes,
                };
                (name.as_str(), size)
            })
            .collect(),
        languages: info.languages.iter().map(|language| language.as_str()).collect(),
        name: info.name,
        version: info.version,
        driver: info.driver,
        mode: info.mode,
        enforced: info.enforced,
        missing: info.missing,
        templates: info.templates,
        default_template: call
            .surroundings
            .default_template
            .as_deref()
            .map_or(info.default_template, str::to_owned),
        network: info.network,
        network_default: info.network_default.into(),
    }))
}
