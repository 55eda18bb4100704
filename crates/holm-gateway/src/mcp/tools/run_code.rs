//! `run_code`: a program in one of some languages.

use std::time::Duration;

use holm_engine::{Language, RunCode};

use super::run_command::MAX_TIMEOUT_MS;
use super::{code_result, report, target};
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

pub(super) fn tool() -> Tool {
    let languages = Language::ALL.map(Language::as_str);
    let mut always = report::ALWAYS.to_vec();
    always.extend(["language", "stateful"]);
    Tool {
        name: "run_code",
        hidden_names: &[],
        title: "Run code",
        description: "Runs a program. Where the sandbox has a Jupyter kernel of the language the \
            answer says stateful: true: variables are kept for the next call (code_contexts \
            makes further contexts), the last expression is shown, plots come as images. Else \
            (stateful: false), and with env or cwd, each call is a fresh interpreter: print what \
            you want to see; save plots and use read_file with encoding base64. Files in \
            /workspace are kept. Nothing can be typed in: input() fails. If the language is not \
            installed in the sandbox, the answer says so (language_unavailable).",
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
                (
                    "context",
                    schema::string(
                        "Context to run in, from code_contexts; the language's default one where \
                         left out.",
                    ),
                ),
                (
                    "save_to",
                    schema::string("Directory in which images and PDFs of results are stored too."),
                ),
                (
                    "env",
                    schema::strings_by_name(
                        "Environment variables for this program; it runs in a fresh interpreter.",
                    ),
                ),
                ("cwd", schema::string("Working directory; it runs in a fresh interpreter.")),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &["code"],
        ),
        output: schema::output(&code_result::properties(), &[&always]),
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
        context: args.word("context")?,
        save_to: args.word("save_to")?,
    };
    let named = args.word("sandbox_id")?;
    args.finish()?;
    let target = target::needed_or_fresh(&context, named).await?;
    match context.session.engine().code_run(&target.id, wanted).await {
        Ok(answer) => Ok(code_result::output(&target.id, &answer)),
        Err(mut error) => {
            let partial = error.partial.take();
            Err(report::add_partial(target.error(error), partial.as_deref()))
        }
    }
}
