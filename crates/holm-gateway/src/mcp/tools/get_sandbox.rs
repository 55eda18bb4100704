//! `get_sandbox`: what a sandbox is, whether it lives, what it uses.

use serde_json::json;

use super::{target, view};
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

pub(super) fn tool() -> Tool {
    let number = json!({"type": ["number", "null"]});
    let mut output = view::properties();
    output.push(("state", schema::string("The same as status.")));
    output.push((
        "usage",
        json!({
            "type": "object",
            "description": "What it uses now; null where this host cannot tell. oom_kills counts \
                the processes that were killed for its memory limit, background ones too.",
            "properties": {
                "memory_bytes": number, "cpu_seconds": number, "processes": number,
                "oom_kills": number,
            },
        }),
    ));
    output.push((
        "ports",
        json!({
            "type": "array",
            "description": "Ports that expose_port has exposed, with their addresses.",
            "items": {
                "type": "object",
                "properties": {
                    "port": {"type": "integer"}, "url": {"type": "string"},
                    "public": {"type": "boolean"},
                },
                "required": ["port", "url", "public"],
            },
        }),
    ));
    Tool {
        name: "get_sandbox",
        hidden_names: &[],
        title: "Get a sandbox",
        description: "Shows a sandbox: status, size, expiry, which isolation is enforced, what it \
            uses now. For some time after a sandbox has ended, ended_reason says why. Neither \
            makes a sandbox nor renews its time.",
        hints: Hints::Reads,
        input: schema::input(&[("sandbox_id", schema::sandbox_id())], &[]),
        output: schema::output(&output, &[view::ALWAYS]),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(get(context))
}

async fn get(mut context: Context) -> Result<Output, ToolError> {
    let named = context.args.word("sandbox_id")?;
    context.args.finish()?;
    let target = target::existing(&context, named).await?;
    let view = context.session.engine().sandbox_get(&target.id).await;
    let view = view.map_err(|error| target.error(error))?;
    let mut shown = view::show(&view);
    shown["state"] = view.state.as_str().into();
    if let Some(usage) = &view.usage {
        shown["usage"] = json!({
            "memory_bytes": usage.memory_bytes,
            "cpu_seconds": usage.cpu_seconds,
            "processes": usage.processes,
            "oom_kills": usage.oom_kills,
        });
    }
    if let Some(previews) = &context.previews {
        let mut ports = Vec::new();
        for port in &view.ports {
            let url = previews.url(port).await?;
            ports.push(json!({"port": port.port, "url": url, "public": port.public}));
        }
        shown["ports"] = ports.into();
    }
    Ok(Output::json(shown))
}
