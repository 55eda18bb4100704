//! Snapshots of an account, and forks of a sandbox.

use std::time::Duration;

use holm_engine::{ErrorKind, ForkSandbox, KeyScope, MAX_FORKS, SandboxId, SnapshotView};
use hyper::Method;
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::{Fixed, Json, NoQuery, Nothing, Object, Param};
use super::number::Whole;
use super::output::{Answer, Made};
use super::policy::Policy;
use super::sandboxes::view::Sandbox;
use super::templates::NAME;
use super::text::{Variables, maybe_time_schema};
use crate::show::time;

const OF_ONE: &str = "/v1/sandboxes/{sandbox_id}/snapshots";
const FORK: &str = "/v1/sandboxes/{sandbox_id}/fork";
const ALL: &str = "/v1/snapshots";
const ONE: &str = "/v1/snapshots/{snapshot}";
const MINUTE: u64 = 60;

/// The name of a snapshot in a path.
#[derive(Debug)]
pub struct SnapshotName(String);

impl Param for SnapshotName {
    const NAME: Option<&'static str> = Some("snapshot");

    fn schema() -> Value {
        json_schema!({"type": "string", "pattern": NAME}).to_value()
    }

    fn read(text: &str) -> Result<Self, Failure> {
        Ok(Self(text.to_owned()))
    }
}

/// What to keep.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotCreate {
    /// Its name, which no template and no snapshot of the account has yet.
    #[schemars(extend("pattern" = NAME))]
    pub name: String,
}

impl Object for SnapshotCreate {}

/// What to make of a sandbox's files. Everything has a default.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxFork {
    /// How many sandboxes (default: 1).
    pub count: Option<Whole<1, 16>>,
    /// The name of all of them (default: the first one's).
    #[schemars(length(min = 1, max = 64), extend("pattern" = super::text::NAME))]
    pub name: Option<String>,
    /// Lifetime from the moment that each is ready (default: the first one's).
    pub timeout_minutes: Option<Whole<1, 1440>>,
    /// Environment variables of all their commands; those of the first one's create are not copied.
    pub env: Option<Variables>,
    /// What they may reach (default: as the first one).
    pub network: Option<Policy>,
}

impl Object for SandboxFork {
    const OPTIONAL: bool = true;
}

/// A snapshot.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Snapshot {
    /// Its name, for `template` of a create.
    pub name: String,
    /// Whose files it has.
    pub source: String,
    /// Bytes that its sandbox had written, which count for the account.
    pub bytes: u64,
    /// The same with everything below, which others share.
    pub total_bytes: u64,
    /// When it was made.
    #[schemars(schema_with = "maybe_time_schema")]
    pub created_at: Option<String>,
}

/// The account's snapshots.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SnapshotList {
    /// By name.
    pub snapshots: Vec<Snapshot>,
}

/// A snapshot that is gone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SnapshotDeleted {
    /// Its name.
    pub name: String,
}

/// Sandboxes with another one's files.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SandboxForks {
    /// All of them.
    pub sandboxes: Vec<Sandbox>,
}

impl From<SnapshotView> for Snapshot {
    fn from(view: SnapshotView) -> Self {
        Self {
            name: view.name,
            source: view.source,
            bytes: view.bytes,
            total_bytes: view.total_bytes,
            created_at: view.created_at.map(time),
        }
    }
}

/// The endpoints of snapshots and forks.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let about = |id, summary, description, errors| About {
        id,
        tag: "snapshots",
        summary,
        description,
        scope: Some(KeyScope::Sandboxes),
        errors,
        headers: &[],
    };
    let create_about = about(
        "snapshot_create",
        "Keep a sandbox's files",
        "As they are now, as a template that this account alone has. The sandbox stands still while \
         its files are read, and goes on. Processes are not kept. A client that closes the connection \
         before leaves nothing.",
        &[
            ErrorKind::NotFound,
            ErrorKind::SandboxGone,
            ErrorKind::Conflict,
            ErrorKind::QuotaExceeded,
            ErrorKind::Capacity,
        ][..],
    );
    let list_about = About {
        scope: Some(KeyScope::Read),
        ..about("snapshot_list", "List snapshots", "Those of the key's account, by name.", &[])
    };
    let delete_about = about(
        "snapshot_delete",
        "Delete a snapshot",
        "Sandboxes that were made from it must have ended before.",
        &[ErrorKind::NotFound, ErrorKind::Conflict],
    );
    let fork_about = about(
        "sandbox_fork",
        "Fork a sandbox",
        "New sandboxes with all files of this one as they are now; processes are not copied. Size, \
         network, secrets, labels and lifetime are as this one has them. All are made, or none.",
        &[
            ErrorKind::NotFound,
            ErrorKind::SandboxGone,
            ErrorKind::InsufficientBalance,
            ErrorKind::QuotaExceeded,
            ErrorKind::Capacity,
            ErrorKind::IsolationUnavailable,
        ],
    );
    vec![
        Endpoint::new(Method::POST, OF_ONE, create_about, create),
        Endpoint::new(Method::GET, ALL, list_about, list),
        Endpoint::new(Method::DELETE, ONE, delete_about, delete),
        Endpoint::new(Method::POST, FORK, fork_about, fork),
    ]
}

async fn create(
    call: Call<SandboxId, NoQuery, Json<SnapshotCreate>>,
) -> Result<Made<Snapshot>, Failure> {
    Ok(Made(call.engine.snapshot_create(&call.id, &call.body.0.name).await?.into()))
}

async fn list(call: Call<Fixed, NoQuery, Nothing>) -> Result<Answer<SnapshotList>, Failure> {
    let all = call.engine.snapshot_list().await?;
    Ok(Answer(SnapshotList { snapshots: all.into_iter().map(Snapshot::from).collect() }))
}

async fn delete(
    call: Call<SnapshotName, NoQuery, Nothing>,
) -> Result<Answer<SnapshotDeleted>, Failure> {
    let name = call.id.0;
    call.engine.snapshot_delete(&name).await?;
    Ok(Answer(SnapshotDeleted { name }))
}

async fn fork(
    call: Call<SandboxId, NoQuery, Json<SandboxFork>>,
) -> Result<Made<SandboxForks>, Failure> {
    let asked = call.body.0;
    let count = asked.count.and_then(|count| u32::try_from(count.0).ok()).unwrap_or(1);
    let wanted = ForkSandbox {
        count: count.min(MAX_FORKS),
        name: asked.name,
        timeout: asked.timeout_minutes.map(|minutes| Duration::from_secs(minutes.0 * MINUTE)),
        env: asked.env.unwrap_or_default().0,
        network: asked.network.map(|policy| policy.0),
    };
    let made = call.engine.sandbox_fork(&call.id, wanted).await?;
    Ok(Made(SandboxForks { sandboxes: made.into_iter().map(Sandbox::from).collect() }))
}
