//! `extend_sandbox`: more time for a sandbox.

use std::time::Duration;

use serde_json::json;

use super::target;
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};
use crate::show;

pub(super) fn tool() -> Tool {
    Tool {
        name: "extend_sandbox",
        hidden_names: &[],
        title: "Extend a sandbox",
        description: "Moves a sandbox's expiry later by additional_minutes, at most to 24 hours \
            after it became ready. The answer has the expiry that counts.",
        hints: Hints::Adds,
        input: schema::input(
            &[
                (
                    "additional_minutes",
                    schema::with_default(schema::integer("Minutes to add.", 1, 1440), 15),
                ),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &[],
        ),
        output: schema::output(
            &[
                ("sandbox_id", schema::string("Its id.")),
                ("expires_at", schema::string("When it ends by itself now (RFC 3339).")),
            ],
            &[&["sandbox_id", "expires_at"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(extend(context))
}

async fn extend(mut context: Context) -> Result<Output, ToolError> {
    let minutes = context.args.integer("additional_minutes", 1..=1440)?.unwrap_or(15);
    let named = context.args.word("sandbox_id")?;
    context.args.finish()?;
    let target = target::existing(&context, named).await?;
    let engine = context.session.engine();
    let view = engine.sandbox_extend(&target.id, Duration::from_secs(minutes * 60)).await;
    let view = view.map_err(|error| target.error(error))?;
    Ok(Output::json(json!({
        "sandbox_id": target.id,
        "expires_at": view.expires_at.map(show::time),
    })))
}
