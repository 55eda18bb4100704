//! `get_command`: how a command in the background is, and what it wrote.

use std::time::Duration;

use holm_engine::GetCommand;
use serde_json::json;

use super::{shown_command, target};
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

const MAX_PLACE: u64 = GetCommand::MAX_PLACE;
const MAX_BYTES: u64 = GetCommand::MAX_BYTES;
const MAX_WAIT_MS: u64 = GetCommand::MAX_WAIT_MS;

pub(super) fn tool() -> Tool {
    let mut parts = Vec::new();
    for (name, next, missed) in
        [("stdout", "stdout_next", "stdout_missed"), ("stderr", "stderr_next", "stderr_missed")]
    {
        parts.push((name, schema::string("What it wrote from the place that was asked for on.")));
        parts.push((next, schema::count("Place for the next call.")));
        parts.push((missed, schema::count("Bytes asked for that are not kept any more.")));
    }
    let always = ["stdout", "stdout_next", "stderr", "stderr_next"];
    Tool {
        name: "get_command",
        hidden_names: &[],
        title: "Look at a background command",
        description: "Tells how a command that run_command started in the background is, and what \
            it wrote. Give stdout_from and stderr_from (stdout_next and stderr_next of the answer \
            before) to read on from there; the newest MiB of each stream is kept. With wait_ms it \
            answers as soon as there is something new or the command has ended.",
        hints: Hints::Reads,
        input: schema::input(
            &[
                ("command_id", schema::string("What run_command answered.")),
                (
                    "stdout_from",
                    schema::with_default(schema::integer("Place to read from.", 0, MAX_PLACE), 0),
                ),
                (
                    "stderr_from",
                    schema::with_default(schema::integer("The same.", 0, MAX_PLACE), 0),
                ),
                (
                    "max_bytes",
                    schema::with_default(
                        schema::integer("Most bytes of each stream.", 1, MAX_BYTES),
                        65_536,
                    ),
                ),
                (
                    "wait_ms",
                    schema::with_default(
                        schema::integer("Longest wait for news, in milliseconds.", 0, MAX_WAIT_MS),
                        0,
                    ),
                ),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &["command_id"],
        ),
        output: shown_command::output("Where it runs.", &parts, &always),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(get_command(context))
}

async fn get_command(mut context: Context) -> Result<Output, ToolError> {
    let args = &mut context.args;
    let id = args.required_word("command_id")?;
    let asked = GetCommand {
        stdout_from: args.integer("stdout_from", 0..=MAX_PLACE)?.unwrap_or(0),
        stderr_from: args.integer("stderr_from", 0..=MAX_PLACE)?.unwrap_or(0),
        max_bytes: args.integer("max_bytes", 1..=MAX_BYTES)?,
        wait: Duration::from_millis(args.integer("wait_ms", 0..=MAX_WAIT_MS)?.unwrap_or(0)),
    };
    let named = args.word("sandbox_id")?;
    args.finish()?;
    let target = target::existing(&context, named).await?;
    let found = context.session.engine().command_get(&target.id, &id, &asked).await;
    let command = found.map_err(|error| target.error(error))?;
    let mut answer = shown_command::answer(&target.id, &command);
    for (name, part) in [("stdout", &command.stdout), ("stderr", &command.stderr)] {
        shown_command::part(&mut answer.text, name, part);
        answer.structured[name] = part.text.as_str().into();
        answer.structured[format!("{name}_next")] = json!(part.next);
        if part.missed > 0 {
            answer.structured[format!("{name}_missed")] = json!(part.missed);
        }
    }
    Ok(answer)
}
