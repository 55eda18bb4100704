//! Running code: in a kernel (see [`crate::kernel`]), or as a script in a private directory with an
//! interpreter, and the script away again.

use std::sync::Arc;
use std::time::Duration;

use crate::command::{user, with_variable};
use crate::language::{Runner, probe_line};
use crate::sandbox::Sandbox;
use crate::{
    CodeResult, Engine, Error, ErrorKind, Language, RunCode, RunCommand, SandboxId, env, files,
};

/// Most bytes of a program's text.
const MAX_CODE: usize = 16 << 20;
/// Time for finding out which interpreters there are.
const PROBE: Duration = Duration::from_secs(10);

impl Engine {
    /// Runs a program's text: in a context, whose kernel keeps variables, or, where there is no kernel
    /// of the language or the call has variables or a directory of its own, in a fresh interpreter.
    ///
    /// # Errors
    /// As [`Self::exec_run`]; `language_unavailable` where the sandbox has no interpreter,
    /// `disk_full` where the script cannot be stored. `not_found` for a context that is not there,
    /// `timeout` where it does not get its turn, `unavailable` where its kernel does not start.
    pub async fn code_run(&self, id: &SandboxId, request: RunCode) -> Result<CodeResult, Error> {
        let sandbox = self.in_use(id).await?;
        let owner = user(request.user.as_deref())?;
        env::check(&request.env)?;
        if request.code.len() > MAX_CODE {
            let text = format!("code has {} bytes; {MAX_CODE} are allowed", request.code.len());
            return Err(Error::new(ErrorKind::TooLarge, text));
        }
        let own_place = !request.env.is_empty() || request.cwd.is_some();
        if request.context.is_some() && (own_place || request.user.is_some()) {
            let text = "a context has its own directory, variables and user";
            return Err(Error::invalid(text).suggest(
                "Leave cwd, env and user out, or create a context with them and name that.",
            ));
        }
        if let Some(directory) = &request.save_to {
            files::check_path("save_to", directory)?;
        }
        if !own_place && let Some(result) = self.code_in_kernel(&sandbox, &request).await? {
            return Ok(result);
        }
        let language = request.language;
        let runner = self.runner(&sandbox, language).await?;
        let name = language.file_name(&request.code);
        let script = self.store_script(&sandbox, owner, name, request.code).await?;
        let cwd = request.cwd.clone().unwrap_or_else(|| sandbox.workdir.clone());
        let command = RunCommand {
            cwd: request.cwd,
            env: with_variable(request.env, language.module_path(&cwd)),
            user: request.user,
            timeout: request.timeout,
            ..RunCommand::argv(runner.argv(&script.path))
        };
        let result = self.run_in(&sandbox, command, self.inner.settings.code_timeout).await;
        // A sandbox that ends takes the script along; nobody waits for its guest then.
        tokio::select! {
            () = script.remove() => {}
            _ended = sandbox.ended() => {}
        }
        Ok(CodeResult { result: result?, language, stateful: false, kernel: None })
    }

    /// The best way that this sandbox has to run `language`. What was found once is kept; what
    /// was missing is looked for again, since a user may have installed it meanwhile.
    async fn runner(
        &self,
        sandbox: &Arc<Sandbox>,
        language: Language,
    ) -> Result<&'static Runner, Error> {
        let pick = |has: &[String]| {
            language.runners().iter().find(|runner| has.iter().any(|name| name == runner.has))
        };
        let mut known = sandbox.interpreters.lock().await;
        if let Some(runner) = known.as_deref().and_then(pick) {
            return Ok(runner);
        }
        let probe = RunCommand { timeout: Some(PROBE), ..RunCommand::shell(probe_line(language)) };
        let has = self.run_in(sandbox, probe, PROBE).await?;
        if has.timed_out {
            let text = "the sandbox is too busy to say which interpreters it has";
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        let has: Vec<String> = has.stdout.text.lines().map(str::to_owned).collect();
        let found = pick(&has);
        let missing = || unavailable(language, &has);
        let result = found.ok_or_else(missing);
        *known = Some(has.into());
        result
    }
}

fn unavailable(language: Language, has: &[String]) -> Error {
    let there = |language: &Language| {
        language.runners().iter().any(|runner| has.iter().any(|name| name == runner.has))
    };
    let available: Vec<&str> =
        Language::ALL.iter().filter(|l| there(l)).map(|l| l.as_str()).collect();
    let wanted: Vec<&str> = language.runners().iter().map(Runner::text).collect();
    let available = if available.is_empty() { "none".to_owned() } else { available.join(", ") };
    let text = format!(
        "this sandbox cannot run {language}: it has no {}; available languages: {available}",
        wanted.join(", ")
    );
    Error::new(ErrorKind::LanguageUnavailable, text)
}
