//! `delete_snapshot`: the end of a snapshot.

use serde_json::json;

use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

pub(super) fn tool() -> Tool {
    Tool {
        name: "delete_snapshot",
        hidden_names: &[],
        title: "Delete a snapshot",
        description: "Removes what snapshot_sandbox has kept under a name. Sandboxes that were made \
            from it must have ended before.",
        hints: Hints::Changes,
        input: schema::input(
            &[("name", schema::string("Its name; get_service_info lists them."))],
            &["name"],
        ),
        output: schema::output(
            &[
                ("name", schema::string("Its name.")),
                ("success", schema::boolean("True: it is gone.")),
            ],
            &[&["name", "success"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(delete(context))
}

async fn delete(mut context: Context) -> Result<Output, ToolError> {
    let name = context.args.required_word("name")?;
    context.args.finish()?;
    context.session.engine().snapshot_delete(&name).await?;
    Ok(Output::json(json!({"name": name, "success": true})))
}
