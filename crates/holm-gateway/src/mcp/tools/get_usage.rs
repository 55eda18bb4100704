//! `get_usage`: what was used.

use serde_json::{Value, json};

use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};
use crate::show;

pub(super) fn tool() -> Tool {
    Tool {
        name: "get_usage",
        hidden_names: &[],
        title: "Get usage",
        description: "Reports how many sandboxes run, how many there were, for how long, what \
            that cost, and the credit that is left. balance is null where nothing is charged.",
        hints: Hints::Reads,
        input: schema::input(&[], &[]),
        output: schema::output(
            &[
                ("sandboxes_running", schema::count("Alive now.")),
                ("sandboxes_total", schema::count("Ever ready.")),
                (
                    "seconds_total",
                    json!({
                        "type": "number", "minimum": 0,
                        "description": "Seconds of all of them, running ones up to now.",
                    }),
                ),
                ("balance", json!({"type": ["number", "null"], "description": "Credit left."})),
                ("currency", json!({"type": "string", "description": "What money is counted in."})),
                ("burn_per_hour", money("What the running ones cost in an hour.")),
                ("cost_total", money("What all of them cost, up to now.")),
                ("bytes_out", schema::count("Bytes that they have sent to the world.")),
                ("bytes_in", schema::count("Bytes that they were sent.")),
                ("connections", schema::count("Connections that they made, refused ones too.")),
                ("recent", json!({"type": "array", "items": {"type": "object"}})),
            ],
            &[&["sandboxes_running", "sandboxes_total", "seconds_total", "balance", "recent"]],
        ),
        makes_default: false,
        run,
    }
}

fn money(description: &str) -> Value {
    json!({"type": "number", "minimum": 0, "description": description})
}

fn run(context: Context) -> Work {
    Box::pin(usage(context))
}

async fn usage(mut context: Context) -> Result<Output, ToolError> {
    context.args.finish()?;
    let report = context.session.engine().usage().await?;
    let recent: Vec<Value> = report
        .recent
        .iter()
        .map(|row| {
            json!({
                "sandbox_id": row.id,
                "name": row.name,
                "size": row.size.as_str(),
                "status": row.state.as_str(),
                "created_at": show::time(row.created_at),
                "seconds": row.seconds,
                "cost": show::units(row.cost),
                "bytes_out": row.traffic.bytes_out,
                "bytes_in": row.traffic.bytes_in,
                "connections": row.traffic.connections,
                "ended_reason": row.ended.map(|ended| ended.reason.as_str()),
            })
        })
        .collect();
    Ok(Output::json(json!({
        "sandboxes_running": report.sandboxes_running,
        "sandboxes_total": report.sandboxes_total,
        "seconds_total": report.seconds_total,
        "balance": report.charges.then(|| show::units(report.balance)),
        "currency": report.currency,
        "burn_per_hour": show::units(report.burn_per_hour),
        "cost_total": show::units(report.cost_total),
        "bytes_out": report.traffic.bytes_out,
        "bytes_in": report.traffic.bytes_in,
        "connections": report.traffic.connections,
        "recent": recent,
    })))
}
