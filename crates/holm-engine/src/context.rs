//! Code contexts. They are the guest's, as commands in the background are: nothing of them is kept here.

use holm_wire::kernel::{self as wire, CreateRequest, MOST_CONTEXTS, Named, State};
use jiff::Timestamp;

use crate::command::{check_cwd, user};
use crate::guest_error::About;
use crate::text::shorten;
use crate::{CodeContext, ContextState, CreateContext, Engine, Error, ErrorKind, SandboxId, env};

/// Longest id that a guest is believed to have given, and longest other text.
const MAX_ID: usize = 64;
const MAX_TEXT: usize = 200;

impl Engine {
    /// Makes a code context and starts its kernel.
    ///
    /// # Errors
    /// `language_unavailable` where the sandbox has no kernel of the language; `capacity` where it has
    /// too many contexts; `unavailable` where the kernel does not start; those of every call.
    pub async fn context_create(
        &self,
        id: &SandboxId,
        request: CreateContext,
    ) -> Result<CodeContext, Error> {
        env::check(&request.env)?;
        check_cwd(request.cwd.as_deref())?;
        let request = CreateRequest {
            language: request.language.as_str().to_owned(),
            user: user(request.user.as_deref())?.to_owned(),
            cwd: request.cwd,
            env: request.env,
        };
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        self.guest_call(&sandbox, About::Context, guest.create_context(&request)).await.map(view)
    }

    /// All code contexts of a sandbox, in the order in which they were made; the default ones among
    /// them, once code has run there.
    ///
    /// # Errors
    /// `not_found`, `sandbox_gone`, `unavailable`.
    pub async fn context_list(&self, id: &SandboxId) -> Result<Vec<CodeContext>, Error> {
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        let list = self.guest_call(&sandbox, About::Context, guest.list_contexts()).await?;
        // A hostile guest lists no more than an honest one.
        Ok(list.contexts.into_iter().take(MOST_CONTEXTS).map(view).collect())
    }

    /// Ends the kernel of a context, with what runs in it. Variables are lost; the next code has a new
    /// kernel.
    ///
    /// # Errors
    /// `not_found` (of the sandbox or the context), `sandbox_gone`, `unavailable`.
    pub async fn context_restart(
        &self,
        id: &SandboxId,
        context: &str,
    ) -> Result<CodeContext, Error> {
        let named = Named { id: context_id(context)? };
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        self.guest_call(&sandbox, About::Context, guest.restart_context(&named)).await.map(view)
    }

    /// Ends a context and its kernel, with what runs in it.
    ///
    /// # Errors
    /// As [`Self::context_restart`].
    pub async fn context_delete(&self, id: &SandboxId, context: &str) -> Result<(), Error> {
        let named = Named { id: context_id(context)? };
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        self.guest_call(&sandbox, About::Context, guest.delete_context(&named)).await
    }
}

/// Judges the id of a context.
pub(crate) fn context_id(id: &str) -> Result<String, Error> {
    let is_id = |c: char| c.is_ascii_alphanumeric() || "_-.+#".contains(c);
    if id.is_empty() || id.len() > MAX_ID || !id.chars().all(is_id) {
        return Err(Error::invalid("a context's id must be one that was answered here"));
    }
    Ok(id.to_owned())
}

/// What to do about a failed call.
pub(crate) fn suggest(error: Error) -> Error {
    match error.kind {
        ErrorKind::NotFound => error.suggest("Use code_contexts to see which there are."),
        ErrorKind::LanguageUnavailable => error.suggest(
            "Run the code without a context, or install a Jupyter kernel first (for Python: \
             ipykernel).",
        ),
        ErrorKind::Timeout => error.suggest(
            "Wait for what runs there, restart the context, or run this in another context.",
        ),
        _ => error,
    }
}

/// What a guest says, which may be hostile: bounded.
fn view(said: wire::Context) -> CodeContext {
    let created = i64::try_from(said.created_ms).ok();
    let created = created.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    CodeContext {
        id: shorten(&said.id, MAX_ID),
        language: shorten(&said.language, MAX_ID),
        kernel: shorten(&said.kernel, MAX_TEXT),
        state: match said.state {
            State::Empty => ContextState::Empty,
            State::Idle => ContextState::Idle,
            State::Busy => ContextState::Busy,
        },
        is_default: said.is_default,
        user: shorten(&said.user, MAX_ID),
        cwd: shorten(&said.cwd, MAX_TEXT),
        created_at: created.unwrap_or(Timestamp::UNIX_EPOCH),
        executions: said.executions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_words() {
        for good in ["python", "ctx_1", "python-root"] {
            assert_eq!(context_id(good).unwrap(), good);
        }
        for bad in ["", "a b", "a/b", "é", "a\n", &"x".repeat(65)] {
            assert!(context_id(bad).is_err(), "{bad:?}");
        }
    }
}
