//! Which sandbox a call works in: the one it names, or the session's default.

use holm_engine::{CreateSandbox, Engine, ErrorKind, SandboxId};

use crate::http::trace;
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
    /// Ends a sandbox that was made for this call alone.
    _one_shot: Option<OneShot>,
}

/// A sandbox for one call. It ends with the call, however that ends.
struct OneShot {
    engine: Engine,
    id: SandboxId,
}

impl Drop for OneShot {
    fn drop(&mut self) {
        let (engine, id) = (self.engine.clone(), self.id);
        tokio::spawn(async move {
            if let Err(error) = engine.sandbox_destroy(&id).await {
                tracing::debug!(%id, %error, "the sandbox of one call was not destroyed");
            }
        });
    }
}

/// The sandbox to work in, made where the session has no default yet. The default's lease is
/// renewed; a sandbox named by id keeps its own.
pub async fn needed(context: &Context, named: Option<String>) -> Result<Target<'_>, ToolError> {
    let session = &*context.session;
    match named {
        Some(text) => Ok(Target::new(session, text.parse()?, false)),
        None if session.is_stateless() => Err(sandbox_required()),
        None => {
            let id = session.default_sandbox(&context.place).await?;
            Ok(Target::new(session, id, true))
        }
    }
}

/// As [`needed`]; where there is no session to have a default, a sandbox for this call alone.
pub async fn needed_or_fresh(
    context: &Context,
    named: Option<String>,
) -> Result<Target<'_>, ToolError> {
    let session = &*context.session;
    if named.is_some() || !session.is_stateless() {
        return needed(context, named).await;
    }
    let id = session.create(CreateSandbox::default()).await?.id;
    let one_shot = OneShot { engine: session.engine().clone(), id };
    Ok(Target { session, id, implied: false, _one_shot: Some(one_shot) })
}

fn sandbox_required() -> ToolError {
    let kind = ErrorKind::SandboxRequired;
    let text = "requests of this protocol revision have no session, so `sandbox_id` is required";
    ToolError::new(kind.as_str(), text).suggest(kind.remedy())
}

/// The sandbox to look at. None is made for that.
pub async fn existing(context: &Context, named: Option<String>) -> Result<Target<'_>, ToolError> {
    let session = &*context.session;
    match named {
        Some(text) => Ok(Target::new(session, text.parse()?, false)),
        None if session.is_stateless() => Err(sandbox_required()),
        None => match session.existing_default(&context.place).await {
            Some(id) => Ok(Target::new(session, id, true)),
            None => Err(ToolError::new("not_found", "this session has no default sandbox")
                .suggest(
                    "Give `sandbox_id`, or make one first: create_sandbox, run_command, run_code \
                     and the file tools do.",
                )),
        },
    }
}

impl<'a> Target<'a> {
    fn new(session: &'a Session, id: SandboxId, implied: bool) -> Self {
        trace::sandbox(id);
        Self { session, id, implied, _one_shot: None }
    }

    /// The error of an engine call in this sandbox, as the caller should see it.
    pub fn error(&self, error: holm_engine::Error) -> ToolError {
        let error = ToolError::from(error).with("sandbox_id", self.id.to_string());
        if self.implied { self.session.judge(&self.id, error) } else { error }
    }
}
