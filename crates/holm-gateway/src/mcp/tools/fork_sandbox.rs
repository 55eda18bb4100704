//! `fork_sandbox`: further sandboxes with the files of one.

use std::time::Duration;

use holm_engine::{ForkSandbox, MAX_FORKS};
use serde_json::json;

use super::target;
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn tool() -> Tool {
    Tool {
        name: "fork_sandbox",
        hidden_names: &[],
        title: "Fork a sandbox",
        description: "Makes new sandboxes with all files of a sandbox as they are now, to try several \
            things from the same state. Processes, and variables that it was created with, are not \
            copied: start what you need in each. The sandbox itself goes on and stays the default; \
            use the new ones by their ids. All are made, or none.",
        hints: Hints::Adds,
        input: schema::input(
            &[
                (
                    "count",
                    schema::with_default(schema::integer("How many.", 1, u64::from(MAX_FORKS)), 1),
                ),
                ("sandbox_id", schema::sandbox_id()),
                (
                    "timeout_minutes",
                    schema::integer(
                        "Lifetime in minutes. Leave out for the sandbox's own.",
                        1,
                        1440,
                    ),
                ),
                ("env", schema::strings_by_name("Environment variables of all their commands.")),
            ],
            &[],
        ),
        output: schema::output(
            &[
                ("sandbox_id", schema::string("The sandbox that was forked.")),
                ("sandbox_ids", schema::words("The new ones.")),
            ],
            &[&["sandbox_id", "sandbox_ids"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(fork(context))
}

async fn fork(mut context: Context) -> Result<Output, ToolError> {
    let count = context.args.integer("count", 1..=u64::from(MAX_FORKS))?.unwrap_or(1);
    let wanted = ForkSandbox {
        count: u32::try_from(count).unwrap_or(MAX_FORKS),
        timeout: context.args.span("timeout_minutes", MINUTE, 1..=1440)?,
        env: context.args.strings_by_name("env", &["envs"])?,
        ..ForkSandbox::default()
    };
    let named = context.args.word("sandbox_id")?;
    context.args.finish()?;
    let target = target::existing(&context, named).await?;
    let made = context.session.fork(&target.id, wanted).await;
    let made = made.map_err(|error| target.error(error))?;
    let ids: Vec<_> = made.iter().map(|one| one.id).collect();
    Ok(Output::json(json!({"sandbox_id": target.id, "sandbox_ids": ids})))
}
