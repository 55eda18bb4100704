//! `resume_sandbox`: a paused one goes on.

use super::{target, view};
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

pub(super) fn tool() -> Tool {
    Tool {
        name: "resume_sandbox",
        hidden_names: &[],
        title: "Resume a sandbox",
        description: "Lets a paused sandbox go on where it stood. Commands that ran when it was paused go on.",
        hints: Hints::Adds,
        input: schema::input(&[("sandbox_id", schema::sandbox_id())], &[]),
        output: view::changed_schema(),
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
    let changed = context.session.engine().sandbox_resume(&target.id).await;
    let changed = changed.map_err(|error| target.error(error))?;
    Ok(Output::json(view::changed(&changed)))
}
