//! `resume_sandbox`: a paused one goes on.

use serde_json::json;

use super::target;
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};
use crate::show;

pub(super) fn tool() -> Tool {
    Tool {
        name: "resume_sandbox",
        hidden_names: &[],
        title: "Resume a sandbox",
        description: "Lets a paused sandbox go on where it stood. Commands that ran when it was paused go on.",
        hints: Hints::Adds,
        input: schema::input(&[("sandbox_id", schema::sandbox_id())], &[]),
        output: schema::output(
            &[
                ("sandbox_id", schema::string("Its id.")),
                ("status", schema::string("What it is now.")),
                ("expires_at", schema::string("When it ends by itself (RFC 3339).")),
            ],
            &[&["sandbox_id", "status", "expires_at"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(resume(context))
}

async fn resume(mut context: Context) -> Result<Output, ToolError> {
    let named = context.args.word("sandbox_id")?;
    context.args.finish()?;
    let target = target::existing(&context, named).await?;
    let view = context.session.engine().sandbox_resume(&target.id).await;
    let view = view.map_err(|error| target.error(error))?;
    Ok(Output::json(json!({
        "sandbox_id": target.id,
        "status": view.state.as_str(),
        "expires_at": view.expires_at.map(show::time),
    })))
}
