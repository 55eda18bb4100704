//! `get_sandbox`: what a sandbox is, whether it lives, what it uses.

use holm_engine::NetworkView;
use serde_json::{Value, json};

use super::{target, view};
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};
use crate::show::time;

/// Refusals that are shown.
const DENIALS: usize = 20;
const HINT: &str = "What a rule of this sandbox's own policy refuses can be had by set_network with \
    another policy, which counts at once. What the account's limit or the service refuses, or what \
    is refused always (this host, private and special addresses), cannot: do without it, or ask \
    the user.";

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
    output.push(("network_ceiling", schema::network_shown("What its account may reach at most.")));
    output.push((
        "traffic",
        json!({
            "type": "object",
            "description": "What has gone through its network since it was made.",
            "properties": {
                "bytes_out": number, "bytes_in": number, "connections": number,
                "connections_open": number, "denied": number, "dns_queries": number,
            },
        }),
    ));
    output.push((
        "network_denied",
        json!({
            "type": "array", "items": {"type": "object"},
            "description": "What it was refused last, newest last, how many times in a row, and \
                by which rule.",
        }),
    ));
    output.push(("network_hint", schema::string("What to do about that.")));
    Tool {
        name: "get_sandbox",
        hidden_names: &[],
        title: "Get a sandbox",
        description: "Shows a sandbox: status, size, expiry, which isolation is enforced, what it \
            uses now, what it may reach, and why connections from it were refused. For some time after a sandbox has ended, ended_reason says why. Neither \
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
    if let Some(network) = &view.network_now {
        show_network(&mut shown, network);
    }
    Ok(Output::json(shown))
}

/// More than the policy: what came of it.
fn show_network(shown: &mut Value, network: &NetworkView) {
    let traffic = &network.traffic;
    let open = network.state.as_ref().map_or(0, |state| state.counters.connections_open);
    shown["traffic"] = json!({
        "bytes_out": traffic.bytes_out,
        "bytes_in": traffic.bytes_in,
        "connections": traffic.connections,
        "connections_open": open,
        "denied": traffic.denied,
        "dns_queries": traffic.dns_queries,
    });
    let Some(state) = &network.state else { return };
    if let Some(ceiling) = &state.ceiling {
        shown["network_ceiling"] = ceiling.to_json();
    }
    if state.denials.is_empty() {
        return;
    }
    let newest = state.denials.iter().skip(state.denials.len().saturating_sub(DENIALS));
    let denied = newest.map(|denial| {
        json!({
            "at": time(denial.at),
            "times": denial.times,
            "name": denial.name,
            "address": denial.address.map(|address| address.to_string()),
            "port": denial.port,
            "protocol": denial.protocol.as_str(),
            "rule": denial.rule,
        })
    });
    shown["network_denied"] = denied.collect::<Vec<Value>>().into();
    shown["network_hint"] = HINT.into();
}
