//! Which sandbox a call works in: the one it names, or the session's default.

use holm_engine::SandboxId;

use crate::mcp::outcome::ToolError;
use crate::mcp::session::Session;
use crate::mcp::tool::Context;

/// A sandbox to work in.
pub struct Target<'a> {
    session: &'a Session,
    /// Its id.
    pub id: SandboxId,
    /// True when the call did not name it.
    implied: bool,
}

/// The sandbox to work in, made where the session has no default yet. The default's lease is
/// renewed; a sandbox named by id keeps its own.
pub async fn needed(context: &Context, named: Option<String>) -> Result<Target<'_>, ToolError> {
    let session = &*context.session;
    match named {
        Some(text) => Ok(Target { session, id: text.parse()?, implied: false }),
        None => {
            let id = session.default_sandbox(&context.place).await?;
            Ok(Target { session, id, implied: true })
        }
    }
}

/// The sandbox to look at. None is made for that.
pub async fn existing(context: &Context, named: Option<String>) -> Result<Target<'_>, ToolError> {
    let session = &*context.session;
    match named {
        Some(text) => Ok(Target { session, id: text.parse()?, implied: false }),
        None => match session.existing_default(&context.place).await {
            Some(id) => Ok(Target { session, id, implied: true }),
            None => Err(ToolError::new("not_found", "this session has no default sandbox yet")
                .suggest(
                    "Give `sandbox_id`, or make one first: create_sandbox, run_command, run_code \
                     and the file tools do.",
                )),
        },
    }
}

impl Target<'_> {
    /// The error of an engine call in this sandbox, as the caller should see it.
    pub fn error(&self, error: holm_engine::Error) -> ToolError {
        let error = ToolError::from(error).with("sandbox_id", self.id.to_string());
        if self.implied { self.session.judge(&self.id, error) } else { error }
    }
}
