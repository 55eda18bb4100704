//! `destroy_sandbox`: the end of a sandbox. Also answers to `kill_sandbox`.

use serde_json::json;

use super::target;
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

pub(super) fn tool() -> Tool {
    Tool {
        name: "destroy_sandbox",
        hidden_names: &["kill_sandbox"],
        title: "Destroy a sandbox",
        description: "Ends a sandbox with everything in it: processes and files are gone when this \
            returns. Read back what you need first. Destroying twice is fine.",
        hints: Hints::Settles,
        input: schema::input(&[("sandbox_id", schema::sandbox_id())], &[]),
        output: schema::output(
            &[
                ("sandbox_id", schema::string("Its id.")),
                ("status", schema::string("deleted")),
                ("success", schema::boolean("True: nothing of it is left.")),
            ],
            &[&["sandbox_id", "status", "success"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(destroy(context))
}

async fn destroy(mut context: Context) -> Result<Output, ToolError> {
    let named = context.args.word("sandbox_id")?;
    context.args.finish()?;
    let target = target::existing(&context, named).await?;
    let gone = context.session.engine().sandbox_destroy(&target.id).await;
    gone.map_err(|error| target.error(error))?;
    context.session.destroyed(&target.id);
    Ok(Output::json(json!({
        "sandbox_id": target.id, "status": "deleted", "success": true,
    })))
}
