//! A program's text as a file inside a sandbox, for as long as it runs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holm_wire::client::{CallLimits, ClientError, GuestClient};
use holm_wire::connect::Code;
use holm_wire::filesystem::PathRequest;
use holm_wire::paths;
use holm_wire::process::Empty;
use tokio::time::timeout;

use crate::guest_error::About;
use crate::id::random_bytes;
use crate::sandbox::Sandbox;
use crate::{Engine, Error, ErrorKind};

/// Time for removing a script.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// A script inside a sandbox. Goes away with this value.
pub(crate) struct Script {
    guest: GuestClient,
    owner: &'static str,
    directory: String,
    /// Where it is.
    pub path: String,
    kept: bool,
}

impl Engine {
    /// Writes the script where only its user looks: in /tmp, or, where that is not possible, in
    /// the home directory or /var/tmp.
    pub(crate) async fn store_script(
        &self,
        sandbox: &Arc<Sandbox>,
        owner: &'static str,
        name: &str,
        code: String,
    ) -> Result<Script, Error> {
        let token = u64::from_ne_bytes(random_bytes::<8>()?);
        let home = if owner == "root" { "/root" } else { "/home/sandbox" };
        let directories = [
            format!("/tmp/.holm-code-{token:016x}"),
            format!("{home}/.holm/code-{token:016x}"),
            format!("/var/tmp/.holm-code-{token:016x}"),
        ];
        let code = Bytes::from(code);
        let mut last = None;
        for directory in directories {
            let path = format!("{directory}/{name}");
            let guest = sandbox.guest()?.clone();
            let script = Script { guest, owner, directory, path, kept: true };
            match self.write_script(sandbox, script, code.clone()).await {
                Ok(script) => return Ok(script),
                Err(error) => {
                    let full = error.code() == Some(Code::ResourceExhausted);
                    let error = self.call_failed(sandbox, &error, About::File).await;
                    let hopeless = [ErrorKind::Unavailable, ErrorKind::SandboxGone];
                    if full || hopeless.contains(&error.kind) {
                        return Err(error);
                    }
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| Error::internal("store script", &"no directory")))
    }

    /// Writes in a task of its own: when the caller goes away, the write still comes to its end
    /// and the script is removed after it. A removal that overtakes the write would leave it.
    async fn write_script(
        &self,
        sandbox: &Arc<Sandbox>,
        script: Script,
        code: Bytes,
    ) -> Result<Script, ClientError> {
        let deadline = self.inner.settings.file_deadline;
        let sandbox = Arc::clone(sandbox);
        let task = self.inner.tasks.spawn(async move {
            let write = script.guest.write_file(&script.path, script.owner, Some(0o600), code);
            let written = tokio::select! {
                biased;
                written = timeout(deadline, write) => {
                    written.unwrap_or(Err(ClientError::Deadline(deadline.as_millis())))
                }
                // Its guest may hold the call up; nobody waits for that.
                _ended = sandbox.ended() => Err(ClientError::Deadline(0)),
            };
            written.map(|_| script)
        });
        task.await.unwrap_or_else(|panic| Err(ClientError::Protocol(panic.to_string())))
    }
}

impl Script {
    /// Removes it before the caller goes on. Dropped on the way, it is removed all the same.
    pub async fn remove(mut self) {
        remove(&self.guest, &self.directory, self.owner).await;
        self.kept = false;
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // Outside a runtime everything ends, the sandbox too.
        if self.kept
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (guest, owner) = (self.guest.clone(), self.owner);
            let directory = std::mem::take(&mut self.directory);
            runtime.spawn(async move { remove(&guest, &directory, owner).await });
        }
    }
}

async fn remove(guest: &GuestClient, directory: &str, owner: &str) {
    let request = PathRequest { path: directory.to_owned() };
    let limits = CallLimits { deadline: CLEAN_UP, ..CallLimits::default() };
    let removed: Result<Empty, _> =
        guest.unary(paths::filesystem::REMOVE, owner, &request, limits).await;
    // It may be gone already, or the sandbox with it; else it is only a small file too many.
    if let Err(error) = removed {
        tracing::debug!(directory, %error, "script not removed");
    }
}
