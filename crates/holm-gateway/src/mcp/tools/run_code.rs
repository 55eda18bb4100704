//! `run_code`: a program in one of some languages.

use std::time::Duration;

use holm_engine::{Language, RunCode};

use super::run_command::MAX_TIMEOUT_MS;
use super::{report, target};
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

pub(super) fn tool() -> Tool {
    let languages = Language::ALL.map(Language::as_str);
    let mut output = report::properties();
    output.push(("language", schema::choice("The language.", &languages)));
    output.push(("stateful", schema::boolean("False: no variables are kept between calls.")));
    let mut always = report::ALWAYS.to_vec();
    always.extend(["language", "stateful"]);
    Tool {
        name: "run_code",
        hidden_names: &[],
        title: "Run code",
        description: "Runs a program and returns exit code, stdout and stderr. Each call is a \
            fresh interpreter: variables are not kept, files in /workspace are. Print what you \
            want to see; the last expression is not shown, and plots or other images are not \
            returned (save them and use read_file with encoding base64). Long programs are \
            fine. If the language is not installed in the sandbox, the answer says so \
            (language_unavailable).",
        hints: Hints::Changes,
        input: schema::input(
            &[
                ("code", schema::string("The program's text.")),
                (
                    "language",
                    schema::with_default(schema::choice("Its language.", &languages), "python"),
                ),
                (
                    "timeout_ms",
                    schema::with_default(
                        schema::integer(
                            "Time limit in milliseconds; never beyond the sandbox's own end.",
                            1,
                            MAX_TIMEOUT_MS,
                        ),
                        30_000,
                    ),
                ),
                ("env", schema::strings_by_name("Environment variables for this program.")),
                ("cwd", schema::string("Working directory; /workspace where left out.")),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &["code"],
        ),
        output: schema::output(&output, &[&always]),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(run_code(context))
}

async fn run_code(mut context: Context) -> Result<Output, ToolError> {
    let args = &mut context.args;
    let code = args.required_text("code")?;
    // The engine knows further spellings, such as shell.
    let language = args.word("language")?.map_or(Ok(Language::default()), |name| name.parse())?;
    let wanted = RunCode {
        code,
        language,
        timeout: args.span("timeout_ms", Duration::from_millis(1), 1..=MAX_TIMEOUT_MS)?,
        env: args.strings_by_name("env", &["envs"])?,
        cwd: args.word("cwd")?,
        user: None,
    };
    let named = args.word("sandbox_id")?;
    args.finish()?;
    let target = target::needed_or_fresh(&context, named).await?;
    match context.session.engine().code_run(&target.id, wanted).await {
        Ok(answer) => {
            let mut output = report::output(&target.id, &answer.result);
            output.structured["language"] = answer.language.as_str().into();
            output.structured["stateful"] = answer.stateful.into();
            Ok(output)
        }
        Err(mut error) => {
            let partial = error.partial.take();
            Err(report::add_partial(target.error(error), partial.as_deref()))
        }
    }
}
