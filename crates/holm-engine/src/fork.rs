//! Forks: new sandboxes with the files of one that runs. Processes are not copied. What they stand on is a
//! snapshot under a name that no caller can give; it goes with the last of them.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinHandle;

use crate::base::Base;
use crate::sandbox::Sandbox;
use crate::{
    AccountId, CreateSandbox, Destroyed, EndReason, Engine, Error, ErrorKind, ForkSandbox,
    SandboxId, SandboxView, TemplateLibrary, network,
};

/// Most forks in one call.
pub const MAX_FORKS: u32 = 16;
/// How names of what forks stand on begin. No name of a template does.
const HIDDEN: &str = ".fork-";

/// Forks that nobody has yet: without all of them there is none, also where nobody waits any more.
struct Forks<'a> {
    engine: &'a Engine,
    views: Vec<SandboxView>,
}

impl Forks<'_> {
    fn take_back(&mut self) -> Vec<JoinHandle<Result<Destroyed, Error>>> {
        let views = std::mem::take(&mut self.views);
        let made = views.iter().filter_map(|view| self.engine.inner.registry.get(&view.id));
        made.map(|made| self.engine.end_in_background(made, EndReason::Destroyed)).collect()
    }
}

impl Drop for Forks<'_> {
    fn drop(&mut self) {
        drop(self.take_back());
    }
}

impl Engine {
    /// Makes new sandboxes with the files of one that runs, all of one moment. Processes are not copied, nor
    /// are variables of its create; size, network, secrets, labels and lifetime are as it has them, unless
    /// the request says otherwise. All of them, or none.
    ///
    /// # Errors
    /// As for [`Self::snapshot_create`] and [`Self::sandbox_create`].
    pub async fn sandbox_fork(
        &self,
        id: &SandboxId,
        request: ForkSandbox,
    ) -> Result<Vec<SandboxView>, Error> {
        let count = request.count;
        let result = self.fork(id, request).await;
        if !result.as_ref().is_err_and(|error| error.kind == ErrorKind::NotFound) {
            let made = result.iter().flatten().map(|view| view.id.to_string());
            let detail = json!({"count": count, "sandboxes": made.collect::<Vec<_>>()});
            self.audit_result("sandbox.fork", Some(id.to_string()), &result, detail);
        }
        result
    }

    async fn fork(&self, id: &SandboxId, request: ForkSandbox) -> Result<Vec<SandboxView>, Error> {
        if request.count == 0 || request.count > MAX_FORKS {
            return Err(Error::invalid(format!("count must be from 1 to {MAX_FORKS}")));
        }
        let sandbox = self.usable(id).await?;
        let turn = self.turn().await?;
        let hidden = format!("{HIDDEN}{}", SandboxId::random()?.digits());
        let disk = sandbox.live().record.given.disk_bytes();
        // What it has written its own disk has bounded already; what has holes there has them here.
        let most = disk.saturating_mul(2).saturating_add(1 << 30);
        // From here on whoever holds it last removes it.
        let held = self.copy(&sandbox, hidden.clone(), most, turn).await?;
        let forked = self.make_forks(&sandbox, request, &hidden).await;
        drop(held);
        self.forget_copy(self.caller.account, hidden);
        forked
    }

    async fn make_forks(
        &self,
        sandbox: &Arc<Sandbox>,
        request: ForkSandbox,
        hidden: &str,
    ) -> Result<Vec<SandboxView>, Error> {
        let record = sandbox.live().record;
        let wanted = CreateSandbox {
            size: Some(record.size.as_str().to_owned()),
            name: request.name.or(record.name),
            timeout: request.timeout.or(Some(record.lifetime)),
            env: request.env,
            metadata: record.metadata,
            network: Some(request.network.unwrap_or_else(|| network::recorded(&record.network))),
            secrets: record.secrets.into_keys().collect(),
            workdir: Some(sandbox.workdir.clone()),
            ..CreateSandbox::default()
        };
        let mut made = Forks { engine: self, views: Vec::new() };
        for _ in 0..request.count {
            let one = async {
                let held = self.hold_snapshot(hidden).await?;
                let held = held.ok_or_else(|| Error::internal("fork", &"a copy is gone"))?;
                let base = Base::fork(record.template.clone(), hidden.to_owned(), held);
                self.create_on(wanted.clone(), base).await
            };
            match one.await {
                Ok(view) => made.views.push(view),
                Err(error) => {
                    for end in made.take_back() {
                        // What it could not remove the sweep removes.
                        let _ = end.await;
                    }
                    return Err(error);
                }
            }
        }
        Ok(std::mem::take(&mut made.views))
    }

    /// Removes what forks stood on, unless others still do.
    pub(crate) fn forget_copy(&self, account: AccountId, name: String) {
        let engine = self.clone();
        self.inner.tasks.spawn(async move {
            let owner = account.to_string();
            let ask = move |library: &dyn TemplateLibrary| library.snapshot_remove(&owner, &name);
            match engine.library(ask).await {
                Ok(_) => {}
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) => {
                    let internal = error.internal.unwrap_or(error.public);
                    tracing::error!(internal, "what forks stood on is not removed");
                }
            }
        });
    }

    /// Nothing of the sandbox is left: what it stood on may go as well.
    pub(crate) fn let_go(&self, sandbox: &Sandbox) {
        sandbox.let_go();
        if let Some(name) = sandbox.standing().copy {
            self.forget_copy(sandbox.account, name);
        }
    }
}
