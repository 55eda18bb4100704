//! `send_input`: text for the standard input of a command in the background.

use super::{shown_command, target};
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

pub(super) fn tool() -> Tool {
    Tool {
        name: "send_input",
        hidden_names: &[],
        title: "Send input to a background command",
        description: "Writes text to the standard input of a command that run_command started in \
            the background with keep_stdin. End lines with a newline. close ends its input after \
            the text, as Ctrl-D does. What it answers is read with get_command.",
        hints: Hints::Changes,
        input: schema::input(
            &[
                ("command_id", schema::string("What run_command answered.")),
                ("text", schema::string("What to write, up to 1 MiB.")),
                (
                    "close",
                    schema::with_default(schema::boolean("End its input after the text."), false),
                ),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &["command_id"],
        ),
        output: shown_command::output("Where it runs.", &[], &[]),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(send_input(context))
}

async fn send_input(mut context: Context) -> Result<Output, ToolError> {
    let args = &mut context.args;
    let id = args.required_word("command_id")?;
    let text = args.text("text")?.unwrap_or_default();
    let close = args.flag("close")?.unwrap_or(false);
    let named = args.word("sandbox_id")?;
    args.finish()?;
    let target = target::existing(&context, named).await?;
    let engine = context.session.engine();
    let sent = engine.command_input(&target.id, &id, text.as_bytes(), close).await;
    Ok(shown_command::answer(&target.id, &sent.map_err(|error| target.error(error))?))
}
