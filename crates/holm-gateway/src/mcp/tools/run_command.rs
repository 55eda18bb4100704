//! `run_command`: a shell command, to its end or into the background.

use std::time::Duration;

use holm_engine::{Command, RunCommand};
use serde_json::json;

use super::{report, target};
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

/// 24 hours, the longest that a sandbox lives.
pub(super) const MAX_TIMEOUT_MS: u64 = 86_400_000;

pub(super) fn tool() -> Tool {
    let mut output = report::properties();
    output.push(("command_id", schema::string("Id of a command in the background.")));
    output.push(("pid", schema::count("Its process id inside.")));
    output.push(("background", schema::boolean("True for a command in the background.")));
    Tool {
        name: "run_command",
        hidden_names: &[],
        title: "Run a command",
        description: "Runs a command with `sh -c` in /workspace as user sandbox and returns exit \
            code, stdout and stderr. Standard input is empty. Of each stream 1 MiB is kept, \
            beginning and end. At timeout_ms the command and all that it started are killed; \
            processes left behind with & go on after a normal end. A non-zero exit code is \
            reported as an error together with the whole output. For \
            anything with quotes or many lines use write_file and run the file.",
        hints: Hints::Changes,
        input: schema::input(
            &[
                ("command", schema::string("The command line for sh.")),
                (
                    "cwd",
                    schema::string(
                        "Working directory; where left out /workspace, or the template's own.",
                    ),
                ),
                ("env", schema::strings_by_name("Environment variables for this command.")),
                (
                    "timeout_ms",
                    schema::with_default(
                        schema::integer(
                            "Time limit in milliseconds; never beyond the sandbox's own end.",
                            1,
                            MAX_TIMEOUT_MS,
                        ),
                        60_000,
                    ),
                ),
                (
                    "user",
                    schema::choice(
                        "Who runs it. Where left out: sandbox, or with a template from an image \
                         the user that the image names.",
                        &["sandbox", "root"],
                    ),
                ),
                (
                    "background",
                    schema::with_default(
                        schema::boolean(
                            "Start it and return at once with a command_id for get_command, \
                             send_input and kill_command. It has no time limit then, unless \
                             timeout_ms is given.",
                        ),
                        false,
                    ),
                ),
                (
                    "keep_stdin",
                    schema::with_default(
                        schema::boolean("In the background: keep its input open for send_input."),
                        false,
                    ),
                ),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &["command"],
        ),
        output: schema::output(
            &output,
            &[report::ALWAYS, &["sandbox_id", "command_id", "pid", "background"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(run_command(context))
}

async fn run_command(mut context: Context) -> Result<Output, ToolError> {
    let args = &mut context.args;
    let wanted = RunCommand {
        command: Command::Shell(args.required_word("command")?),
        cwd: args.word("cwd")?,
        env: args.strings_by_name("env", &["envs"])?,
        timeout: args.span("timeout_ms", Duration::from_millis(1), 1..=MAX_TIMEOUT_MS)?,
        user: args.choice("user", &["sandbox", "root"], &[])?.map(str::to_owned),
        keep_stdin: args.flag("keep_stdin")?.unwrap_or(false),
        ..RunCommand::default()
    };
    let background = args.flag("background")?.unwrap_or(false);
    let named = args.word("sandbox_id")?;
    args.finish()?;
    let target = target::needed(&context, named).await?;
    let engine = context.session.engine();
    if background {
        let started = engine.exec_background(&target.id, wanted).await;
        let started = started.map_err(|error| target.error(error))?;
        return Ok(Output {
            text: format!(
                "Started in the background as {}. get_command tells what it writes and how it \
                 ends.",
                started.id
            ),
            structured: json!({
                "sandbox_id": target.id, "command_id": started.id, "pid": started.pid,
                "background": true,
            }),
            failed: false,
            images: Vec::new(),
        });
    }
    match engine.exec_run(&target.id, wanted).await {
        Ok(result) => Ok(report::output(&target.id, &result)),
        Err(mut error) => {
            let partial = error.partial.take();
            Err(report::add_partial(target.error(error), partial.as_deref()))
        }
    }
}
