//! `pause_sandbox`: everything in it stands still.

use super::{target, view};
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

pub(super) fn tool() -> Tool {
    Tool {
        name: "pause_sandbox",
        hidden_names: &[],
        title: "Pause a sandbox",
        description: "Stops everything in a sandbox and keeps it as it is: processes, memory, files, connections. \
            While it is paused it costs less or nothing; its expiry stays. Any call that needs it \
            lets it go on, unless it was made with auto_resume false.",
        hints: Hints::Adds,
        input: schema::input(&[("sandbox_id", schema::sandbox_id())], &[]),
        output: view::changed_schema(),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(pause(context))
}

async fn pause(mut context: Context) -> Result<Output, ToolError> {
    let named = context.args.word("sandbox_id")?;
    context.args.finish()?;
    let target = target::existing(&context, named).await?;
    let changed = context.session.engine().sandbox_pause(&target.id).await;
    let changed = changed.map_err(|error| target.error(error))?;
    Ok(Output::json(view::changed(&changed)))
}
