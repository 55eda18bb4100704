//! Running code: a script in a private directory, an interpreter, and the script away again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holm_wire::client::{CallLimits, ClientError, GuestClient, Upload};
use holm_wire::connect::Code;
use holm_wire::paths;
use holm_wire::process::Empty;

use crate::command::{user, with_variable};
use crate::guest_error::About;
use crate::id::random_bytes;
use crate::language::{Runner, probe_line};
use crate::sandbox::Sandbox;
use crate::{CodeResult, Engine, Error, ErrorKind, Language, RunCode, RunCommand, SandboxId, env};

/// Most bytes of a program's text.
const MAX_CODE: usize = 16 << 20;
/// Time for finding out which interpreters there are.
const PROBE: Duration = Duration::from_secs(10);
/// Time for removing a script.
const CLEAN_UP: Duration = Duration::from_secs(5);

impl Engine {
    /// Runs a program's text with the language's interpreter. Stateless: each call is a fresh
    /// interpreter.
    ///
    /// # Errors
    /// As [`Self::exec_run`]; `language_unavailable` where the sandbox has no interpreter,
    /// `disk_full` where the script cannot be stored.
    pub async fn code_run(&self, id: &SandboxId, request: RunCode) -> Result<CodeResult, Error> {
        let sandbox = self.usable(id).await?;
        let owner = user(request.user.as_deref())?;
        env::check(&request.env)?;
        if request.code.len() > MAX_CODE {
            let text = format!("code has {} bytes; {MAX_CODE} are allowed", request.code.len());
            return Err(Error::new(ErrorKind::TooLarge, text));
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
        Ok(CodeResult { result: result?, language, stateful: false })
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

    /// Writes the script where only its user looks: in /tmp, or, where that is not possible, in
    /// the home directory.
    async fn store_script(
        &self,
        sandbox: &Arc<Sandbox>,
        owner: &'static str,
        name: &str,
        code: String,
    ) -> Result<Script, Error> {
        let token = u64::from_ne_bytes(random_bytes::<8>()?);
        let home = if owner == "root" { "/root" } else { "/home/sandbox" };
        let directories =
            [format!("/tmp/.holm-code-{token:016x}"), format!("{home}/.holm/code-{token:016x}")];
        let code = Bytes::from(code);
        let guest = sandbox.guest()?.clone();
        let mut last = None;
        for directory in directories {
            let path = format!("{directory}/{name}");
            // Made before the call, so that a caller who leaves in the middle leaves no script.
            let script = Script { guest: guest.clone(), owner, directory, path, kept: true };
            let write =
                guest.write_file(&script.path, owner, Some(0o600), Upload::Whole(code.clone()));
            let write = async {
                match tokio::time::timeout(self.inner.settings.file_deadline, write).await {
                    Ok(written) => written,
                    Err(_) => {
                        Err(ClientError::Deadline(self.inner.settings.file_deadline.as_millis()))
                    }
                }
            };
            let written = tokio::select! {
                biased;
                written = write => written,
                ended = sandbox.ended() => return Err(Error::gone(&sandbox.id, ended)),
            };
            match written {
                Ok(_) => return Ok(script),
                Err(error) => {
                    script.remove().await;
                    let full = error.code() == Some(Code::ResourceExhausted);
                    let error = self.call_failed(sandbox, &error, About::File).await;
                    if full || error.kind == ErrorKind::Unavailable {
                        return Err(error);
                    }
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| Error::internal("store script", &"no directory")))
    }
}

fn unavailable(language: Language, has: &[String]) -> Error {
    let there = |language: &Language| {
        language.runners().iter().any(|runner| has.iter().any(|name| name == runner.has))
    };
    let available: Vec<&str> =
        Language::ALL.iter().filter(|l| there(l)).map(|l| l.as_str()).collect();
    let wanted: Vec<&str> = language.runners().iter().map(|runner| runner.has).collect();
    let available = if available.is_empty() { "none".to_owned() } else { available.join(", ") };
    let text = format!(
        "this sandbox cannot run {language}: it has no {}; available languages: {available}",
        wanted.join(", ")
    );
    Error::new(ErrorKind::LanguageUnavailable, text)
}

/// A script inside a sandbox. Goes away with this value.
struct Script {
    guest: GuestClient,
    owner: &'static str,
    directory: String,
    path: String,
    kept: bool,
}

impl Script {
    /// Removes it before the caller goes on.
    async fn remove(mut self) {
        self.kept = false;
        remove(&self.guest, &self.directory, self.owner).await;
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if self.kept {
            let (guest, owner) = (self.guest.clone(), self.owner);
            let directory = std::mem::take(&mut self.directory);
            tokio::spawn(async move { remove(&guest, &directory, owner).await });
        }
    }
}

async fn remove(guest: &GuestClient, directory: &str, owner: &str) {
    let request = holm_wire::filesystem::PathRequest { path: directory.to_owned() };
    let limits = CallLimits { deadline: CLEAN_UP, ..CallLimits::default() };
    let removed: Result<Empty, _> =
        guest.unary(paths::filesystem::REMOVE, owner, &request, limits).await;
    // It may be gone already, or the sandbox with it; else it is only a small file too many.
    if let Err(error) = removed {
        tracing::debug!(directory, %error, "script not removed");
    }
}
