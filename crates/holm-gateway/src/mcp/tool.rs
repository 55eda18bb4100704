//! What a tool is: its description for clients and the function that does its work.

use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::Args;
use super::outcome::{Output, ToolError};
use super::session::{Place, Session};
use crate::preview::Previews;

/// A tool's work.
pub type Work = Pin<Box<dyn Future<Output = Result<Output, ToolError>> + Send>>;

/// One tool.
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Further names that it answers to without showing them.
    pub hidden_names: &'static [&'static str],
    /// A short title for people.
    pub title: &'static str,
    /// What it does, for the model.
    pub description: &'static str,
    /// How it behaves, as hints.
    pub hints: Hints,
    /// Its arguments.
    pub input: Value,
    /// Its structured result.
    pub output: Value,
    /// True for the tool whose sandbox becomes the session's default.
    pub makes_default: bool,
    /// Does it.
    pub run: fn(Context) -> Work,
}

/// How a tool behaves. No tool reaches beyond the sandboxes of this service.
#[derive(Debug, Clone, Copy)]
pub enum Hints {
    /// Changes nothing.
    Reads,
    /// Adds something.
    Adds,
    /// May overwrite or remove something.
    Changes,
    /// May overwrite or remove something; twice is as good as once.
    Settles,
}

impl Tool {
    /// True when a call of `name` means this tool.
    #[must_use]
    pub fn answers_to(&self, name: &str) -> bool {
        self.name == name || self.hidden_names.contains(&name)
    }

    /// The tool as `tools/list` shows it.
    #[must_use]
    pub fn describe(&self) -> Value {
        let annotations = match self.hints {
            Hints::Reads => json!({"readOnlyHint": true, "openWorldHint": false}),
            Hints::Adds => json!({
                "readOnlyHint": false, "destructiveHint": false, "idempotentHint": false,
                "openWorldHint": false,
            }),
            Hints::Changes => json!({
                "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false,
                "openWorldHint": false,
            }),
            Hints::Settles => json!({
                "readOnlyHint": false, "destructiveHint": true, "idempotentHint": true,
                "openWorldHint": false,
            }),
        };
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input,
            "outputSchema": self.output,
            "annotations": annotations,
        })
    }
}

/// What a tool works with.
pub struct Context {
    /// Whose call it is.
    pub session: Arc<Session>,
    /// Its arguments.
    pub args: Args,
    /// Which default sandbox counts for it: fixed when the call arrived, so that calls sent
    /// behind a `create_sandbox` use its sandbox although they run at the same time.
    pub place: Place,
    /// Where ports are shown to people outside.
    pub previews: Option<Arc<Previews>>,
}

impl Context {
    /// The context of a call that has just arrived.
    #[must_use]
    pub fn new(session: &Arc<Session>, args: Args, makes_default: bool) -> Self {
        let place = if makes_default { session.reserve() } else { session.place() };
        Self { session: Arc::clone(session), args, place, previews: None }
    }

    /// With a place where ports are shown.
    #[must_use]
    pub fn with_previews(self, previews: Option<&Arc<Previews>>) -> Self {
        Self { previews: previews.cloned(), ..self }
    }
}
