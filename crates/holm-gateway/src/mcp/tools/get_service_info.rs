//! `get_service_info`: what this service offers and enforces. Makes nothing.

use std::time::Duration;

use holm_engine::SizeName;
use serde_json::{Map, Value, json};

use crate::mcp::lines::MAX_LINE;
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};
use crate::show;

pub(super) fn tool() -> Tool {
    let object = |description: &str| json!({"type": "object", "description": description});
    Tool {
        name: "get_service_info",
        hidden_names: &[],
        title: "Get service info",
        description: "Shows version, limits, sizes, templates, languages, prices, and which layers \
            of isolation this host enforces. Makes no sandbox and costs nothing.",
        hints: Hints::Reads,
        input: schema::input(&[], &[]),
        output: schema::output(
            &[
                ("name", schema::string("Name of the service.")),
                ("version", schema::string("Its version.")),
                ("driver", schema::string("What makes the sandboxes.")),
                ("mode", schema::string("With which rights it runs.")),
                ("enforced", schema::words("Layers of isolation that this host gives.")),
                ("missing", schema::words("Layers that it does not give.")),
                ("layers", json!({"type": "array", "items": {"type": "object"}})),
                ("limits", object("Limits by name.")),
                ("sizes", object("What small, medium and large mean.")),
                ("templates", schema::words("What sandboxes can be made from.")),
                ("languages", schema::words("Languages of run_code.")),
                ("network", schema::string("What sandboxes may reach.")),
                (
                    "network_default",
                    schema::network_shown("What one may reach whose creator says nothing."),
                ),
                ("pause", object("Whether sandboxes can be paused here.")),
                ("prices", object("What sandboxes cost.")),
            ],
            &[&[
                "name",
                "version",
                "driver",
                "mode",
                "enforced",
                "missing",
                "limits",
                "sizes",
                "templates",
                "languages",
                "network",
                "network_default",
                "pause",
                "prices",
            ]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(info(context))
}

async fn info(mut context: Context) -> Result<Output, ToolError> {
    context.args.finish()?;
    let info = context.session.engine().service_info().await;
    let limits = &info.limits;
    let layers: Vec<Value> = info
        .layers
        .iter()
        .map(|row| {
            json!({
                "layer": row.layer, "enforced": row.enforced, "mandatory": row.mandatory,
                "by": row.by, "mend": row.mend,
            })
        })
        .collect();
    let sizes: Map<String, Value> = info
        .sizes
        .iter()
        .map(|(name, size)| {
            let numbers = json!({
                "vcpus": size.vcpus, "memory_mb": size.memory_mb, "disk_mb": size.disk_mb,
                "max_processes": size.max_processes,
            });
            (name.as_str().to_owned(), numbers)
        })
        .collect();
    let there = |name| info.sizes.iter().any(|(size, _)| *size == name);
    let mut per_second = info.prices.clone();
    per_second.retain(|(name, _)| there(*name));
    let mut per_paused_second = info.paused_prices.clone();
    per_paused_second.retain(|(name, _)| there(*name));
    let languages: Vec<&str> = info.languages.iter().map(|language| language.as_str()).collect();
    Ok(Output::json(json!({
        "name": info.name,
        "version": info.version,
        "driver": info.driver,
        "mode": info.mode,
        "enforced": info.enforced,
        "missing": info.missing,
        "layers": layers,
        "limits": {
            "max_sandboxes": limits.max_sandboxes,
            "default_template": context.session.default_template().unwrap_or(&info.default_template),
            "timeout_minutes_default": minutes(limits.lifetime_default),
            "timeout_seconds_min": limits.lifetime_min.as_secs(),
            "timeout_minutes_max": minutes(limits.lifetime_max),
            "run_command_timeout_ms_default": show::milliseconds(limits.exec_timeout),
            "run_code_timeout_ms_default": show::milliseconds(limits.code_timeout),
            "output_bytes_per_stream": limits.output_limit,
            "read_file_bytes": limits.max_read,
            "write_file_bytes": limits.max_write,
            "message_bytes": MAX_LINE,
            "env_value_bytes": limits.max_env_value,
            "env_total_bytes": limits.max_env_total,
        },
        "sizes": sizes,
        "templates": info.templates,
        "languages": languages,
        "network": info.network,
        "network_default": info.network_default.to_json(),
        "pause": {"possible": info.pause.possible, "by": info.pause.by, "mend": info.pause.mend},
        "prices": prices(&per_second, &per_paused_second, &info.currency),
    })))
}

/// What the sizes cost in an hour, from micro-units per second.
fn prices(running: &[(SizeName, i64)], paused: &[(SizeName, i64)], currency: &str) -> Value {
    let per_hour = |price: i64| match price {
        0 => Value::from(0),
        price => show::units(price.saturating_mul(3600)).into(),
    };
    let table = |prices: &[(SizeName, i64)]| -> Map<String, Value> {
        prices.iter().map(|(name, price)| (name.as_str().to_owned(), per_hour(*price))).collect()
    };
    if running.iter().chain(paused).all(|(_, price)| *price == 0) {
        return json!({"per_hour": table(running), "note": "Nothing is charged here."});
    }
    let note = "Charged per second, from ready to destroyed.";
    json!({
        "per_hour": table(running), "per_hour_paused": table(paused), "currency": currency,
        "note": note,
    })
}

fn minutes(time: Duration) -> u64 {
    time.as_secs() / 60
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_per_hour_and_zero_says_so() {
        let free = prices(&[(SizeName::Small, 0)], &[(SizeName::Small, 0)], "USD");
        assert_eq!(free["per_hour"]["small"], 0);
        assert_eq!(free["note"], "Nothing is charged here.");
        let large = |price| [(SizeName::Small, 0), (SizeName::Large, price)];
        let priced = prices(&large(14), &large(1), "EUR");
        assert_eq!(priced["per_hour_paused"], json!({"small": 0, "large": 0.0036}));
        assert_eq!(priced["per_hour"], json!({"small": 0, "large": 0.0504}));
        assert_eq!(priced["currency"], "EUR");
    }
}
