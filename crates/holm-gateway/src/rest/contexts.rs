//! Code contexts of a sandbox.

use holm_engine::{CodeContext, ContextState, CreateContext, ErrorKind, KeyScope, SandboxId};
use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code::Language;
use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::{Json, NoQuery, Nothing, Object};
use super::output::{Answer, Made};
use super::text::{User, Variables, time_schema};
use crate::show;

/// What the id of a context looks like.
pub const ID: &str = "^[A-Za-z0-9_.+#-]{1,64}$";
const PATH: &str = "/v1/sandboxes/{sandbox_id}/contexts";
const RESTART: &str = "/v1/sandboxes/{sandbox_id}/contexts/restart";

/// A context to make.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextCreate {
    /// Its language (default: python).
    pub language: Option<Language>,
    /// Where its kernel starts (default: /workspace, or the template's own directory).
    #[schemars(length(min = 1, max = 4095), extend("pattern" = "^[^\\u0000]*$"))]
    pub cwd: Option<String>,
    /// Environment variables of its kernel.
    pub env: Option<Variables>,
    /// Whose it is (default: sandbox, or whom the template's image names).
    pub user: Option<User>,
}

impl Object for ContextCreate {}

/// Names a context.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextName {
    /// Its id.
    #[schemars(extend("pattern" = ID))]
    pub context_id: String,
}

impl Object for ContextName {}

/// A code context.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ContextView {
    /// Its id, unique in its sandbox.
    pub context_id: String,
    /// Its language.
    pub language: String,
    /// The name of its kernel's specification; empty where it has had none.
    pub kernel: String,
    /// How it is: `empty` has no kernel, and the next code starts one.
    #[schemars(extend("enum" = ContextState::ALL.map(ContextState::as_str)))]
    pub state: String,
    /// True of what code runs in that names no context.
    pub default: bool,
    /// Whose kernel it is.
    pub user: String,
    /// Where its kernel starts.
    pub cwd: String,
    /// When it was made.
    #[schemars(schema_with = "time_schema")]
    pub created_at: String,
    /// Pieces of code that it has run.
    pub executions: u64,
}

/// The contexts of a sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ContextList {
    /// In the order in which they were made.
    pub contexts: Vec<ContextView>,
}

/// A context that is gone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ContextDeleted {
    /// Its id.
    pub context_id: String,
}

impl From<CodeContext> for ContextView {
    fn from(context: CodeContext) -> Self {
        Self {
            context_id: context.id,
            language: context.language,
            kernel: context.kernel,
            state: context.state.as_str().to_owned(),
            default: context.is_default,
            user: context.user,
            cwd: context.cwd,
            created_at: show::time(context.created_at),
            executions: context.executions,
        }
    }
}

/// The endpoints of code contexts.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let about = |id, summary, description| About {
        id,
        tag: "contexts",
        summary,
        description,
        scope: Some(KeyScope::Sandboxes),
        errors: &[ErrorKind::NotFound, ErrorKind::SandboxGone],
        headers: &[],
    };
    let create = About {
        errors: &[
            ErrorKind::NotFound,
            ErrorKind::SandboxGone,
            ErrorKind::PermissionDenied,
            ErrorKind::LanguageUnavailable,
            ErrorKind::Capacity,
            ErrorKind::Conflict,
        ],
        ..about(
            "context_create",
            "Create a code context",
            "Starts a kernel, which keeps variables from one piece of code to the next, apart from \
             those of other contexts. A sandbox has 16 at most.",
        )
    };
    let list = about(
        "context_list",
        "List code contexts",
        "The default ones of each language among them, once code has run there.",
    );
    let restart = about(
        "context_restart",
        "Restart a code context",
        "Ends its kernel, with what runs in it: variables are lost, and the next code has a new one.",
    );
    let delete = about("context_delete", "Delete a code context", "With what runs in it.");
    vec![
        Endpoint::new(Method::POST, PATH, create, context_create),
        Endpoint::new(Method::GET, PATH, list, context_list),
        Endpoint::new(Method::POST, RESTART, restart, context_restart),
        Endpoint::new(Method::DELETE, PATH, delete, context_delete),
    ]
}

async fn context_create(
    call: Call<SandboxId, NoQuery, Json<ContextCreate>>,
) -> Result<Made<ContextView>, Failure> {
    let asked = call.body.0;
    let wanted = CreateContext {
        language: asked.language.map(Into::into).unwrap_or_default(),
        cwd: asked.cwd,
        env: asked.env.unwrap_or_default().0,
        user: asked.user.map(|user| user.as_str().to_owned()),
    };
    Ok(Made(call.engine.context_create(&call.id, wanted).await?.into()))
}

async fn context_list(
    call: Call<SandboxId, NoQuery, Nothing>,
) -> Result<Answer<ContextList>, Failure> {
    let contexts = call.engine.context_list(&call.id).await?;
    Ok(Answer(ContextList { contexts: contexts.into_iter().map(Into::into).collect() }))
}

async fn context_restart(
    call: Call<SandboxId, NoQuery, Json<ContextName>>,
) -> Result<Answer<ContextView>, Failure> {
    let context = call.engine.context_restart(&call.id, &call.body.0.context_id).await?;
    Ok(Answer(context.into()))
}

async fn context_delete(
    call: Call<SandboxId, ContextName, Nothing>,
) -> Result<Answer<ContextDeleted>, Failure> {
    let context_id = call.query.context_id;
    call.engine.context_delete(&call.id, &context_id).await?;
    Ok(Answer(ContextDeleted { context_id }))
}
