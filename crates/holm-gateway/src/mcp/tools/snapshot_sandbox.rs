//! `snapshot_sandbox`: the files of a sandbox, kept to make others from.

use serde_json::json;

use super::target;
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};
use crate::show::time;

pub(super) fn tool() -> Tool {
    Tool {
        name: "snapshot_sandbox",
        hidden_names: &[],
        title: "Keep a sandbox's files",
        description: "Keeps all files of a sandbox as they are now under a name, which create_sandbox \
            then takes as template: new sandboxes begin with these files, as often as wanted, also \
            after this one has ended. Processes are not kept. The sandbox pauses for the moment that \
            it takes and goes on.",
        hints: Hints::Adds,
        input: schema::input(
            &[
                (
                    "name",
                    schema::string(
                        "Its name, not taken yet: a-z, 0-9, `.`, `_` and `-`, beginning with a \
                         letter or a digit.",
                    ),
                ),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &["name"],
        ),
        output: schema::output(
            &[
                ("sandbox_id", schema::string("The sandbox, which goes on.")),
                ("name", schema::string("For template of create_sandbox.")),
                ("bytes", schema::count("Bytes that the sandbox had written.")),
                ("created_at", schema::string("When it was made (RFC 3339).")),
            ],
            &[&["sandbox_id", "name", "bytes"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(snapshot(context))
}

async fn snapshot(mut context: Context) -> Result<Output, ToolError> {
    let name = context.args.required_word("name")?;
    let named = context.args.word("sandbox_id")?;
    context.args.finish()?;
    let target = target::existing(&context, named).await?;
    let made = context.session.engine().snapshot_create(&target.id, &name).await;
    let made = made.map_err(|error| target.error(error))?;
    let mut shown = json!({"sandbox_id": target.id, "name": made.name, "bytes": made.bytes});
    if let Some(at) = made.created_at {
        shown["created_at"] = time(at).into();
    }
    Ok(Output::json(shown))
}
