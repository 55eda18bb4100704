//! `list_sandboxes`: which sandboxes there are.

use holm_engine::ListSandboxes;
use serde_json::{Value, json};

use super::view;
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

pub(super) fn tool() -> Tool {
    let sandbox = json!({
        "type": "object",
        "properties": view::properties().into_iter()
            .map(|(name, schema)| (name.to_owned(), schema))
            .collect::<serde_json::Map<String, Value>>(),
        "required": view::ALWAYS,
    });
    Tool {
        name: "list_sandboxes",
        hidden_names: &[],
        title: "List sandboxes",
        description: "Lists sandboxes, newest first. Useful to find ones that are no longer \
            needed; destroy those with destroy_sandbox.",
        hints: Hints::Reads,
        input: schema::input(
            &[
                ("limit", schema::with_default(schema::integer("How many at most.", 1, 1000), 100)),
                (
                    "include_deleted",
                    schema::with_default(
                        schema::boolean("Also those that have ended and are still remembered."),
                        false,
                    ),
                ),
            ],
            &[],
        ),
        output: schema::output(
            &[("sandboxes", json!({"type": "array", "items": sandbox}))],
            &[&["sandboxes"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(list(context))
}

async fn list(mut context: Context) -> Result<Output, ToolError> {
    let limit = context.args.integer("limit", 1..=1000)?.unwrap_or(100);
    let include_deleted = context.args.flag("include_deleted")?.unwrap_or(false);
    context.args.finish()?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found =
        context.session.engine().sandbox_list(ListSandboxes { limit, include_deleted }).await?;
    let sandboxes: Vec<Value> = found.iter().map(view::show).collect();
    Ok(Output::json(json!({"sandboxes": sandboxes})))
}
