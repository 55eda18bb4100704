//! What sandboxes can be made from.

use holm_engine::{ErrorKind, KeyScope, TemplateView};
use hyper::Method;
use schemars::{JsonSchema, json_schema};
use serde::Serialize;
use serde_json::Value;

use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::{Fixed, NoQuery, Nothing, Param};
use super::output::Answer;
use super::text::maybe_time_schema;
use crate::show::time;

const PATH: &str = "/v1/templates";
const ONE: &str = "/v1/templates/{template}";
pub(super) const NAME: &str = "^[a-z0-9][a-z0-9._-]{0,62}$";

/// The name of a template in a path.
#[derive(Debug)]
pub struct TemplateName(String);

impl Param for TemplateName {
    const NAME: Option<&'static str> = Some("template");

    fn schema() -> Value {
        json_schema!({"type": "string", "pattern": NAME}).to_value()
    }

    fn read(text: &str) -> Result<Self, Failure> {
        Ok(Self(text.to_owned()))
    }
}

/// What sandboxes can be made from.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Template")]
pub struct TemplateShown {
    /// Its name, for `template` of a create.
    pub name: String,
    /// Other names for it.
    pub aliases: Vec<String>,
    /// Where it comes from.
    pub source: String,
    /// Digests of its layers, the lowest one first; none of this host's own programs.
    pub layers: Vec<String>,
    /// Whether it is a snapshot of your account, which nobody else sees.
    pub snapshot: bool,
    /// Bytes of all layers, those included that other templates have as well.
    pub bytes: u64,
    /// When it was made; null for this host's own programs.
    #[schemars(schema_with = "maybe_time_schema")]
    pub created_at: Option<String>,
    /// What it says about the programs in it.
    pub config: TemplateConfig,
}

/// What a template says about the programs in it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TemplateConfig {
    /// Names of the variables that it sets. Their values are not shown.
    pub env: Vec<String>,
    /// Whose commands are meant where a caller names nobody.
    pub user: String,
    /// Where commands start.
    pub workdir: String,
    /// The image's own program. Nothing starts it by itself.
    pub entrypoint: Vec<String>,
    /// Its arguments.
    pub cmd: Vec<String>,
}

/// All templates.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TemplateList {
    /// This host's own programs first, then the others by name.
    pub templates: Vec<TemplateShown>,
}

impl From<TemplateView> for TemplateShown {
    fn from(view: TemplateView) -> Self {
        Self {
            name: view.name,
            aliases: view.aliases,
            source: view.source,
            layers: view.layers,
            snapshot: view.snapshot,
            bytes: view.bytes,
            created_at: view.created_at.map(time),
            config: TemplateConfig {
                env: view.env,
                user: view.user,
                workdir: view.workdir,
                entrypoint: view.entrypoint,
                cmd: view.cmd,
            },
        }
    }
}

/// The endpoints of templates.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let list_about = About {
        id: "template_list",
        tag: "templates",
        summary: "List templates",
        description: "What sandboxes can be made from. The operator of the service makes them; snapshots of the \
            key's account are among them.",
        scope: Some(KeyScope::Read),
        errors: &[],
        headers: &[],
    };
    let get_about = About {
        id: "template_get",
        summary: "Look at a template",
        description: "By its name or another name for it.",
        errors: &[ErrorKind::TemplateUnknown],
        ..list_about
    };
    vec![
        Endpoint::new(Method::GET, PATH, list_about, list),
        Endpoint::new(Method::GET, ONE, get_about, get),
    ]
}

async fn list(call: Call<Fixed, NoQuery, Nothing>) -> Result<Answer<TemplateList>, Failure> {
    let all = call.engine.template_list().await?;
    Ok(Answer(TemplateList { templates: all.into_iter().map(TemplateShown::from).collect() }))
}

async fn get(call: Call<TemplateName, NoQuery, Nothing>) -> Result<Answer<TemplateShown>, Failure> {
    Ok(Answer(call.engine.template_get(&call.id.0).await?.into()))
}
