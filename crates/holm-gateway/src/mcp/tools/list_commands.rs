//! `list_commands`: what runs in the background, and what has run there.

use serde_json::{Value, json};

use super::{shown_command, target};
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

pub(super) fn tool() -> Tool {
    let item = schema::input(&shown_command::properties(), shown_command::ALWAYS);
    let list = json!({
        "type": "array",
        "description": "In the order in which they began.",
        "items": item,
    });
    Tool {
        name: "list_commands",
        hidden_names: &[],
        title: "List background commands",
        description: "Lists the commands that run_command started in the background of a sandbox: \
            those that run, and the last 64 that have ended. get_command shows what one wrote.",
        hints: Hints::Reads,
        input: schema::input(&[("sandbox_id", schema::sandbox_id())], &[]),
        output: schema::output(
            &[("sandbox_id", schema::string("Where.")), ("commands", list)],
            &[&["sandbox_id", "commands"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(list_commands(context))
}

async fn list_commands(mut context: Context) -> Result<Output, ToolError> {
    let named = context.args.word("sandbox_id")?;
    context.args.finish()?;
    let target = target::existing(&context, named).await?;
    let found = context.session.engine().command_list(&target.id).await;
    let found = found.map_err(|error| target.error(error))?;
    let commands: Vec<Value> = found.iter().map(shown_command::head).collect();
    Ok(Output::json(json!({"sandbox_id": target.id, "commands": commands})))
}
