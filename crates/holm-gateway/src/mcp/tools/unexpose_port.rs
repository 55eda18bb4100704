//! `unexpose_port`: nobody outside sees that port any more.

use serde_json::json;

use super::{expose_port, target};
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

pub(super) fn tool() -> Tool {
    Tool {
        name: "unexpose_port",
        hidden_names: &[],
        title: "Unexpose a port",
        description: "Ends what expose_port began: what is open through the port's URL is closed, \
            and no link or token for it works any more, also not after it is exposed again. The \
            server in the sandbox goes on. Unexposing twice is fine.",
        hints: Hints::Settles,
        input: schema::input(
            &[
                ("port", schema::integer("Port that was exposed.", 1, 65535)),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &["port"],
        ),
        output: schema::output(
            &[
                ("sandbox_id", schema::string("Its id.")),
                ("port", schema::count("The port.")),
                ("already_unexposed", schema::boolean("True where it was not exposed before.")),
            ],
            &[&["sandbox_id", "port", "already_unexposed"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(unexpose(context))
}

async fn unexpose(mut context: Context) -> Result<Output, ToolError> {
    let number = expose_port::number(&mut context)?;
    let named = context.args.word("sandbox_id")?;
    context.args.finish()?;
    let target = target::existing(&context, named).await?;
    let was = context.session.engine().port_unexpose(&target.id, number).await;
    let was = was.map_err(|error| target.error(error))?;
    Ok(Output::json(json!({
        "sandbox_id": target.id, "port": number, "already_unexposed": !was,
    })))
}
