//! `set_network`: what a sandbox may reach from now on.

use serde_json::json;

use super::target;
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

pub(super) fn tool() -> Tool {
    Tool {
        name: "set_network",
        hidden_names: &[],
        title: "Set what a sandbox may reach",
        description: "Replaces what a running sandbox may reach. It counts when the call returns: \
            open connections that the new policy refuses are closed, and files and processes stay. \
            What the account's limit (network_ceiling) or the service refuses stays refused.",
        hints: Hints::Settles,
        input: schema::input(
            &[
                (
                    "network",
                    schema::network(
                        "What it may reach from now on: none, open (public addresses), or only \
                         what is allowed.",
                    ),
                ),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &["network"],
        ),
        output: schema::output(
            &[
                ("sandbox_id", schema::string("Its id.")),
                ("network", schema::network_shown("What it may reach now.")),
                ("network_ceiling", schema::network_shown("What its account may reach at most.")),
            ],
            &[&["sandbox_id", "network"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(set(context))
}

async fn set(mut context: Context) -> Result<Output, ToolError> {
    let policy = context.args.required_network("network")?;
    let named = context.args.word("sandbox_id")?;
    context.args.finish()?;
    let target = target::existing(&context, named).await?;
    let view = context.session.engine().network_set(&target.id, policy).await;
    let view = view.map_err(|error| target.error(error))?;
    let mut shown = json!({"sandbox_id": target.id, "network": view.policy.to_json()});
    if let Some(ceiling) = view.state.and_then(|state| state.ceiling) {
        shown["network_ceiling"] = ceiling.to_json();
    }
    Ok(Output::json(shown))
}
