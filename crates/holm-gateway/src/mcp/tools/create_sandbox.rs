//! `create_sandbox`: a new sandbox, which becomes the session's default.

use std::time::Duration;

use holm_engine::CreateSandbox;
use serde_json::json;

use super::view;
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn tool() -> Tool {
    let mut output = view::properties();
    output.push(("ignored", schema::words("Arguments that have no meaning here.")));
    Tool {
        name: "create_sandbox",
        hidden_names: &[],
        title: "Create a sandbox",
        description: "Creates an isolated Linux sandbox and makes it this session's default, so \
            that later calls without sandbox_id use it. Returns when it is usable. Its \
            files are lost when it ends, and it ends by itself after \
            timeout_minutes; calls that use it as the default renew that time. Not needed for a \
            first try: the other tools make a default sandbox by themselves. If the answer is \
            quota_exceeded, destroy one with destroy_sandbox first.",
        hints: Hints::Adds,
        input: schema::input(
            &[
                (
                    "template",
                    schema::string(
                        "What it is made from; get_service_info lists the templates. Leave out for \
                         the default.",
                    ),
                ),
                (
                    "size",
                    schema::with_default(
                        schema::choice(
                            "How much processor, memory and disk; get_service_info has the numbers.",
                            &["small", "medium", "large"],
                        ),
                        "small",
                    ),
                ),
                ("name", schema::string("A name to recognise it by.")),
                (
                    "timeout_minutes",
                    schema::with_default(schema::integer("Lifetime in minutes.", 1, 1440), 15),
                ),
                ("env", schema::strings_by_name("Environment variables of all its commands.")),
                (
                    "network",
                    schema::network(
                        "What it may reach: none, open (public addresses), or only what is \
                         allowed. Leave out for the default, which get_service_info tells.",
                    ),
                ),
                (
                    "secrets",
                    schema::words(
                        "Names of the account's secrets that it may use. Each is a variable in it, \
                         whose text becomes the value in requests to the secret's hosts.",
                    ),
                ),
                (
                    "auto_pause_seconds",
                    schema::integer(
                        "Pause it after so many seconds without a call or a visitor. Leave out for \
                         never.",
                        1,
                        86_400,
                    ),
                ),
                (
                    "auto_resume",
                    schema::with_default(
                        schema::boolean(
                            "Whether a call or a visitor lets it go on when it is paused.",
                        ),
                        true,
                    ),
                ),
                ("metadata", schema::strings_by_name("Labels of your own; not interpreted.")),
            ],
            &[],
        ),
        output: schema::output(&output, &[view::ALWAYS]),
        makes_default: true,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(create(context))
}

async fn create(context: Context) -> Result<Output, ToolError> {
    let Context { session, mut args, place, .. } = context;
    let mut wanted = CreateSandbox {
        template: args.word("template")?,
        size: args.choice("size", &["small", "medium", "large"], &[])?.map(str::to_owned),
        name: args.word("name")?,
        timeout: args.span("timeout_minutes", MINUTE, 1..=1440)?,
        env: args.strings_by_name("env", &["envs"])?,
        network: args.network("network")?,
        secrets: args.words("secrets")?,
        auto_pause: args.integer("auto_pause_seconds", 1..=86_400)?.map(Duration::from_secs),
        auto_resume: args.flag("auto_resume")?,
        metadata: args.strings_by_name("metadata", &[])?,
        ..CreateSandbox::default()
    };
    wanted.cpu = args.hidden_integer("cpu", 1..=1024)?.and_then(|cpu| u32::try_from(cpu).ok());
    wanted.memory_mb = args.hidden_integer("memory", 1..=1 << 30)?;
    let ignored: Vec<&str> =
        ["region", "provider"].into_iter().filter(|name| args.ignored(name)).collect();
    args.finish()?;
    let made = session.create_default(wanted, place).await?;
    let mut shown = view::show(&made);
    if !ignored.is_empty() {
        shown["ignored"] = json!(ignored);
    }
    Ok(Output::json(shown))
}
