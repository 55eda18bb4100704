//! `kill_command`: the end of a command in the background.

use super::{shown_command, target};
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

/// Signals that somebody may want to send.
const SIGNALS: [&str; 7] =
    ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGKILL"];

pub(super) fn tool() -> Tool {
    Tool {
        name: "kill_command",
        hidden_names: &[],
        title: "End a background command",
        description: "Kills a command that run_command started in the background, with all that it \
            started, and answers how it is then. With signal it sends that to the command's process \
            group instead (SIGINT as Ctrl-C does). One that has ended stays as it was.",
        hints: Hints::Settles,
        input: schema::input(
            &[
                ("command_id", schema::string("What run_command answered.")),
                (
                    "signal",
                    schema::with_default(schema::choice("What to send.", &SIGNALS), "SIGKILL"),
                ),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &["command_id"],
        ),
        output: shown_command::output("Where it ran.", &[], &[]),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(kill_command(context))
}

async fn kill_command(mut context: Context) -> Result<Output, ToolError> {
    let args = &mut context.args;
    let id = args.required_word("command_id")?;
    let signal = args.choice("signal", &SIGNALS, &[])?;
    let named = args.word("sandbox_id")?;
    args.finish()?;
    let target = target::existing(&context, named).await?;
    let killed = context.session.engine().command_kill(&target.id, &id, signal).await;
    Ok(shown_command::answer(&target.id, &killed.map_err(|error| target.error(error))?))
}
