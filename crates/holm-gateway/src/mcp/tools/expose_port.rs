//! `expose_port`: an address under which people see what a server in a sandbox serves.

use holm_engine::PortOptions;
use serde_json::json;

use super::target;
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};
use crate::show::time;

pub(super) fn tool() -> Tool {
    Tool {
        name: "expose_port",
        hidden_names: &[],
        title: "Expose a port",
        description: "Gives a server that listens in the sandbox a URL that a person can open, also \
            before it listens. It is private unless public is true: give people link, which opens \
            it once in their browser (call again for another one); programs send token in the \
            header x-holm-preview-token. The url of a port stays the same.",
        hints: Hints::Settles,
        input: schema::input(
            &[
                ("port", schema::integer("Port that the server listens on.", 1, 65535)),
                (
                    "public",
                    schema::with_default(
                        schema::boolean("Let everybody who has the URL look, without a token."),
                        false,
                    ),
                ),
                (
                    "extend_lease",
                    schema::with_default(
                        schema::boolean("Let visitors keep the sandbox alive, up to its limit."),
                        false,
                    ),
                ),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &["port"],
        ),
        output: schema::output(
            &[
                ("sandbox_id", schema::string("Its id.")),
                ("port", schema::count("The port.")),
                ("url", schema::string("Its address, which stays.")),
                ("public", schema::boolean("Whether everybody may look.")),
                ("link", schema::string("For a person: opens it once in a browser.")),
                ("link_expires_at", schema::string("Until when (RFC 3339).")),
                ("token", schema::string("For programs: value of x-holm-preview-token.")),
                ("token_expires_at", schema::string("Until when (RFC 3339).")),
            ],
            &[&["sandbox_id", "port", "url", "public"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(expose(context))
}

/// The port that a call is about.
pub(super) fn number(context: &mut Context) -> Result<u16, ToolError> {
    let number = context.args.integer("port", 1..=65535)?;
    let number = number.and_then(|number| u16::try_from(number).ok());
    number.ok_or_else(|| ToolError::invalid("`port` is required"))
}

async fn expose(mut context: Context) -> Result<Output, ToolError> {
    let number = number(&mut context)?;
    let public = context.args.flag("public")?.unwrap_or(false);
    let extend_lease = context.args.flag("extend_lease")?.unwrap_or(false);
    let named = context.args.word("sandbox_id")?;
    context.args.finish()?;
    let Some(previews) = context.previews.clone() else {
        return Err(ToolError::new("unavailable", "there are no previews here"));
    };
    let target = target::existing(&context, named).await?;
    let options = PortOptions { public, extend_lease };
    let engine = context.session.engine();
    let port = engine.port_expose(&target.id, number, options).await;
    let port = port.map_err(|error| target.error(error))?;
    let shown = previews.show(&port, engine.caller().account).await?;
    let mut result = json!({
        "sandbox_id": target.id, "port": number, "url": shown.url, "public": public,
    });
    if let Some(link) = shown.link {
        result["link"] = link.url.into();
        result["link_expires_at"] = time(link.expires_at).into();
    }
    if let Some(token) = shown.token {
        result["token"] = token.text.into();
        result["token_expires_at"] = time(token.expires_at).into();
    }
    Ok(Output::json(result))
}
