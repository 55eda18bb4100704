//! Sandboxes: making, looking at, extending, pausing, ending them.

use std::collections::BTreeMap;
use std::time::Duration;

use holm_engine::{CreateSandbox, Cursor, ErrorKind, KeyScope, ListSandboxes, SandboxId};
use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::{Fixed, Json, NoQuery, Nothing, Object};
use super::number::Whole;
use super::output::{Answer, Made};
use super::policy::Policy;
use super::text::{CURSOR, NAME, Variables};
use crate::http::trace;
use crate::show::time;

pub mod view;

use view::{PortBrief, Sandbox, SandboxDestroyed, SandboxList};

/// The header that makes two equal creates one.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const MINUTE: u64 = 60;

pub(super) const PATH: &str = "/v1/sandboxes/{sandbox_id}";

/// A size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SizeName {
    Small,
    Medium,
    Large,
}

impl SizeName {
    fn as_str(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }
}

/// What to make. Everything has a default.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("not" = {
    "properties": {
        "timeout_minutes": {"type": "integer"}, "timeout_seconds": {"type": "integer"},
    },
    "required": ["timeout_minutes", "timeout_seconds"],
}))]
pub struct SandboxCreate {
    /// What it is made from; `GET /v1/templates` lists the templates.
    pub template: Option<String>,
    /// How much processor, memory and disk (default: `small`, or what `cpu` and `memory_mb` fit).
    pub size: Option<SizeName>,
    /// Without `size`: the smallest size with this many processors …
    pub cpu: Option<Whole<1, 1024>>,
    /// … and this many MiB of memory.
    pub memory_mb: Option<Whole<1, { 1 << 30 }>>,
    /// A name to recognise it by.
    #[schemars(length(min = 1, max = 64), extend("pattern" = NAME))]
    pub name: Option<String>,
    /// Lifetime from the moment that it is ready (default: 15 minutes).
    pub timeout_minutes: Option<Whole<1, 1440>>,
    /// The same in seconds. One of the two at most.
    pub timeout_seconds: Option<Whole<60, 86_400>>,
    /// Environment variables of all its commands.
    pub env: Option<Variables>,
    /// What it may reach (default: the service's, see `network` of `GET /v1/service-info`). Not
    /// more than its account may.
    pub network: Option<Policy>,
    /// Names of the account's secrets that it may use: each is a variable in it, whose text the
    /// egress gate replaces where the secret is bound to.
    #[schemars(length(max = 64))]
    pub secrets: Option<Vec<String>>,
    /// Pause it after so many seconds without use: no call on it, no visitor's request, nothing
    /// through its gate (default: never).
    pub auto_pause_seconds: Option<Whole<1, 86_400>>,
    /// Whether a call or a visitor lets it go on when it is paused (default: true).
    pub auto_resume: Option<bool>,
    /// Labels of your own; not interpreted. 64 at most.
    #[schemars(extend("maxProperties" = 64))]
    pub metadata: Option<BTreeMap<String, String>>,
}

impl Object for SandboxCreate {
    const OPTIONAL: bool = true;
}

/// By how much to extend.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxExtend {
    /// Added to its expiry (default: 15), up to 24 hours from its start.
    pub additional_minutes: Option<Whole<1, 1440>>,
}

impl Object for SandboxExtend {
    const OPTIONAL: bool = true;
}

/// Which part of the list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxListQuery {
    /// How many at most (default: 100).
    pub limit: Option<Whole<1, 1000>>,
    /// `next_cursor` of the page before.
    #[schemars(extend("pattern" = CURSOR))]
    pub cursor: Option<String>,
    /// Also those that have ended and are still remembered.
    pub include_deleted: Option<bool>,
}

/// The endpoints of sandboxes.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let about = |id, summary, description, errors| About {
        id,
        tag: "sandboxes",
        summary,
        description,
        scope: Some(KeyScope::Sandboxes),
        errors,
        headers: &[],
    };
    let create_about = About {
        headers: &[(
            IDEMPOTENCY_KEY,
            "Any text of your own: for a day, the same request with the same one gives the same \
             sandbox, also when the answer got lost. Another request with it is a `conflict`.",
            "^[\\u0021-\\u007e]{1,255}$",
        )],
        ..about(
            "sandbox_create",
            "Create a sandbox",
            "Returns when it is usable. Its lifetime counts from then. A client that closes the \
             connection before leaves no sandbox behind, unless it sent an Idempotency-Key.",
            &[
                ErrorKind::InsufficientBalance,
                ErrorKind::TemplateUnknown,
                ErrorKind::QuotaExceeded,
                ErrorKind::Conflict,
                ErrorKind::Capacity,
                ErrorKind::IsolationUnavailable,
                ErrorKind::Unsupported,
            ][..],
        )
    };
    let list_about = About {
        scope: Some(KeyScope::Read),
        ..about("sandbox_list", "List sandboxes", "Those of the key's account, newest first.", &[])
    };
    let get_about = About {
        scope: Some(KeyScope::Read),
        ..about(
            "sandbox_get",
            "Look at a sandbox",
            "Also at one that has ended, while it is remembered: it says when and why.",
            &[ErrorKind::NotFound],
        )
    };
    let extend_about = about(
        "sandbox_extend",
        "Extend a sandbox",
        "Moves its expiry; the answer says where to. At most 24 hours from its start.",
        &[ErrorKind::NotFound, ErrorKind::SandboxGone],
    );
    let pause_about = about(
        "sandbox_pause",
        "Pause a sandbox",
        "Stops everything in it and keeps it as it is: processes, memory, files, connections. \
         Its expiry stays, and time limits of its commands go on. Idempotent.",
        &[ErrorKind::NotFound, ErrorKind::SandboxGone, ErrorKind::Unsupported],
    );
    let resume_about = about(
        "sandbox_resume",
        "Resume a sandbox",
        "Lets a paused one go on where it stood. Idempotent.",
        &[ErrorKind::NotFound, ErrorKind::SandboxGone],
    );
    let destroy_about = about(
        "sandbox_destroy",
        "Destroy a sandbox",
        "Returns when nothing of it is left. Calls that run in it end and say so. Destroying one \
         that is gone already succeeds and says so.",
        &[ErrorKind::NotFound],
    );
    vec![
        Endpoint::new(Method::POST, "/v1/sandboxes", create_about, create),
        Endpoint::new(Method::GET, "/v1/sandboxes", list_about, list),
        Endpoint::new(Method::GET, PATH, get_about, get),
        Endpoint::new(Method::DELETE, PATH, destroy_about, destroy),
        Endpoint::new(Method::POST, "/v1/sandboxes/{sandbox_id}/extend", extend_about, extend),
        Endpoint::new(Method::POST, "/v1/sandboxes/{sandbox_id}/pause", pause_about, pause),
        Endpoint::new(Method::POST, "/v1/sandboxes/{sandbox_id}/resume", resume_about, resume),
    ]
}

async fn create(call: Call<Fixed, NoQuery, Json<SandboxCreate>>) -> Result<Made<Sandbox>, Failure> {
    let asked = call.body.0;
    let minutes = asked.timeout_minutes.map(|minutes| Duration::from_secs(minutes.0 * MINUTE));
    let seconds = asked.timeout_seconds.map(|seconds| Duration::from_secs(seconds.0));
    if minutes.is_some() && seconds.is_some() {
        let text = "`timeout_minutes` and `timeout_seconds` are the same thing; give one of them";
        return Err(Failure::invalid(text));
    }
    let wanted = CreateSandbox {
        template: asked
            .template
            .or_else(|| call.surroundings.default_template.as_deref().map(str::to_owned)),
        size: asked.size.map(|size| size.as_str().to_owned()),
        cpu: asked.cpu.and_then(|cpu| u32::try_from(cpu.0).ok()),
        memory_mb: asked.memory_mb.map(|memory| memory.0),
        name: asked.name,
        timeout: minutes.or(seconds),
        env: asked.env.unwrap_or_default().0,
        secrets: asked.secrets.unwrap_or_default(),
        metadata: asked.metadata.unwrap_or_default(),
        network: asked.network.map(|policy| policy.0),
        auto_pause: asked.auto_pause_seconds.map(|seconds| Duration::from_secs(seconds.0)),
        auto_resume: asked.auto_resume,
        idempotency_key: idempotency_key(&call.headers)?,
        ..CreateSandbox::default()
    };
    let made = call.engine.sandbox_create(wanted).await?;
    trace::sandbox(made.id);
    Ok(Made(made.into()))
}

fn idempotency_key(headers: &hyper::HeaderMap) -> Result<Option<String>, Failure> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(first) = values.next() else { return Ok(None) };
    match (first.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text.to_owned())),
        _ => Err(Failure::invalid("Idempotency-Key must be one text of visible ASCII characters")),
    }
}

async fn list(
    call: Call<Fixed, SandboxListQuery, Nothing>,
) -> Result<Answer<SandboxList>, Failure> {
    let SandboxListQuery { limit, cursor, include_deleted } = call.query;
    let request = ListSandboxes {
        limit: limit.and_then(|limit| usize::try_from(limit.0).ok()).unwrap_or(100),
        include_deleted: include_deleted.unwrap_or(false),
    };
    let page = call.engine.sandbox_page(request, after(cursor)?).await?;
    Ok(Answer(SandboxList {
        sandboxes: page.items.into_iter().map(Sandbox::from).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
    }))
}

/// A cursor as a list has returned it.
pub(super) fn after(cursor: Option<String>) -> Result<Option<Cursor>, Failure> {
    let read =
        |text: String| text.parse().map_err(|error| Failure::invalid(format!("`cursor` {error}")));
    cursor.map(read).transpose()
}

async fn get(call: Call<SandboxId, NoQuery, Nothing>) -> Result<Answer<Sandbox>, Failure> {
    let mut view = call.engine.sandbox_get(&call.id).await?;
    let mut ports = Vec::new();
    for port in std::mem::take(&mut view.ports) {
        let url = call.surroundings.previews.url(&port).await?;
        ports.push(PortBrief { port: port.port, url, public: port.public });
    }
    Ok(Answer(Sandbox { ports, ..view.into() }))
}

async fn extend(
    call: Call<SandboxId, NoQuery, Json<SandboxExtend>>,
) -> Result<Answer<Sandbox>, Failure> {
    let minutes = call.body.0.additional_minutes.map_or(15, |minutes| minutes.0);
    let additional = Duration::from_secs(minutes * MINUTE);
    Ok(Answer(call.engine.sandbox_extend(&call.id, additional).await?.into()))
}

async fn pause(call: Call<SandboxId, NoQuery, Nothing>) -> Result<Answer<Sandbox>, Failure> {
    Ok(Answer(call.engine.sandbox_pause(&call.id).await?.into()))
}

async fn resume(call: Call<SandboxId, NoQuery, Nothing>) -> Result<Answer<Sandbox>, Failure> {
    Ok(Answer(call.engine.sandbox_resume(&call.id).await?.into()))
}

async fn destroy(
    call: Call<SandboxId, NoQuery, Nothing>,
) -> Result<Answer<SandboxDestroyed>, Failure> {
    let gone = call.engine.sandbox_destroy(&call.id).await?;
    Ok(Answer(SandboxDestroyed {
        id: gone.id,
        already_destroyed: gone.already,
        ended_reason: gone.ended.reason.as_str(),
        ended_at: time(gone.ended.at),
    }))
}
