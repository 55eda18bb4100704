//! `sandbox_create`: runs the list of steps, or takes back what it began.
//!
//! The list runs in a task of its own, so that a caller who goes away never stops it half-way:
//! the task sees that nobody waits and undoes what was done.

use std::sync::Arc;

use holm_runtime::{BoxFuture, SandboxSpec};
use holm_store::{Account, Idempotency, KeyScope};
use holm_wire::client::GuestClient;
use holm_wire::guest::{Configure, Probe};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::base::Base;
use crate::faults::Moment;
use crate::network;
use crate::plan::Plan;
use crate::sandbox::Sandbox;
use crate::steps::STEPS;
use crate::text::shorten;
use crate::{CreateSandbox, EndReason, Engine, Error, ErrorKind, SandboxId, SandboxView};

/// A call to a new sandbox's guest that is sent together with its settings, see
/// [`Engine::sandbox_create_with`].
pub type FirstCall = Box<dyn FnOnce(GuestClient) -> BoxFuture<'static, ()> + Send + Sync>;

/// A create under way.
pub(crate) struct Build {
    pub engine: Engine,
    pub sandbox: Arc<Sandbox>,
    pub spec: SandboxSpec,
    pub configure: Configure,
    pub idempotency: Option<Idempotency>,
    pub first: Option<FirstCall>,
    /// Whether the caller asked for its network.
    pub network_asked: bool,
    /// What the same request has made before; then this one makes nothing.
    pub existing: Option<SandboxId>,
    /// What the guest has measured.
    pub probe: Probe,
}

/// What came of a create that did not fail.
enum Made {
    New(Box<SandboxView>),
    /// The same request made this one before.
    Before(SandboxId),
}

impl Engine {
    /// Makes a sandbox. Its lifetime counts from the moment that it is ready. Dropping the future
    /// undoes everything, unless the request has an idempotency key.
    ///
    /// # Errors
    /// `invalid_argument`, `forbidden`, `template_unknown`, `quota_exceeded`,
    /// `insufficient_balance`, `conflict`, `capacity`, `isolation_unavailable`, `unavailable`,
    /// `internal`. After an error nothing is left.
    pub async fn sandbox_create(&self, request: CreateSandbox) -> Result<SandboxView, Error> {
        self.create_counted(request, None).await
    }

    /// The same, with a call that the guest gets together with its settings and answers as soon as
    /// it has them, while the create goes on. Only a start of a process may be such a call: the
    /// guest holds it until then. What it gives out must be held back until the create succeeds;
    /// the steps that put the mandatory layers in place are over, but what is in force is not
    /// measured yet. When the create fails it ends with the sandbox.
    ///
    /// # Errors
    /// As for [`Self::sandbox_create`].
    pub async fn sandbox_create_with(
        &self,
        request: CreateSandbox,
        first: FirstCall,
    ) -> Result<SandboxView, Error> {
        self.create_counted(request, Some(first)).await
    }

    async fn create_counted(
        &self,
        request: CreateSandbox,
        first: Option<FirstCall>,
    ) -> Result<SandboxView, Error> {
        let since = Instant::now();
        let made = self.create(request, first).await;
        self.inner.counts.created(since, made.as_ref().err().map(|error| error.kind));
        made
    }

    async fn create(
        &self,
        request: CreateSandbox,
        mut first: Option<FirstCall>,
    ) -> Result<SandboxView, Error> {
        let account = self.account_for_create().await?;
        self.check_auto_pause(request.auto_pause)?;
        let mut request = Some(request);
        while let Some(wanted) = request.take() {
            // Where it was made before, that may turn out to fail.
            request = wanted.idempotency_key.is_some().then(|| wanted.clone());
            let base = self.base(wanted.template.as_deref()).await?;
            let plan = self.plan(&account, &base, wanted).await?;
            match self.make(plan, base, first.take()).await? {
                Made::New(view) => return Ok(*view),
                Made::Before(id) => {
                    if let Some(view) = self.made_before(id).await? {
                        return Ok(view);
                    }
                }
            }
        }
        Err(Error::internal("create", &"a request without a key was made before"))
    }

    /// Makes a sandbox on that base. The request has no key.
    pub(crate) async fn create_on(
        &self,
        request: CreateSandbox,
        base: Base,
    ) -> Result<SandboxView, Error> {
        let account = self.account_for_create().await?;
        let plan = self.plan(&account, &base, request).await?;
        match self.make(plan, base, None).await? {
            Made::New(view) => Ok(*view),
            Made::Before(_) => Err(Error::internal("create", &"it was made before")),
        }
    }

    async fn account_for_create(&self) -> Result<Account, Error> {
        self.caller.needs(KeyScope::Sandboxes)?;
        self.refuse_when_closing()?;
        self.start().await?;
        let account = self.inner.store.account_get(self.caller.account).await?;
        let account = account.ok_or_else(|| {
            let internal = format!("the account {} is not in the store", self.caller.account);
            Error::new(ErrorKind::Forbidden, "this account does not exist").with_internal(internal)
        })?;
        Ok(account)
    }

    async fn plan(
        &self,
        account: &Account,
        base: &Base,
        wanted: CreateSandbox,
    ) -> Result<Plan, Error> {
        let secrets = self.pick_secrets(&wanted.secrets).await?;
        let no_gate = self.inner.known_no_gate();
        let no_gate = no_gate.as_deref();
        Plan::new(&self.inner.settings, &self.caller, account, no_gate, &secrets, base, wanted)
    }

    async fn make(&self, plan: Plan, base: Base, first: Option<FirstCall>) -> Result<Made, Error> {
        let stays = plan.idempotency.is_some();
        let (answer, waiting) = oneshot::channel();
        let build = Build::new(self.clone(), plan, first);
        let sandbox = Arc::clone(&build.sandbox);
        let standing = base.standing();
        sandbox.stands_on(standing, base.held.map(|held| held.hold));
        let waiting = Waiting { engine: self.clone(), sandbox, answer: waiting, stays };
        self.inner.tasks.spawn(build.run(answer, stays));
        waiting.answer().await
    }
}

/// The caller's side of a create.
struct Waiting {
    engine: Engine,
    sandbox: Arc<Sandbox>,
    answer: oneshot::Receiver<Result<Made, Error>>,
    /// Whether what is made stays when the caller goes away.
    stays: bool,
}

impl Waiting {
    async fn answer(mut self) -> Result<Made, Error> {
        let answer = (&mut self.answer).await;
        answer.unwrap_or_else(|lost| Err(Error::internal("create", &lost)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        // The create may have answered just when the caller left: then nobody knows the id.
        self.answer.close();
        if let Ok(Ok(_)) = self.answer.try_recv() {
            let sandbox = Arc::clone(&self.sandbox);
            drop(self.engine.end_in_background(sandbox, EndReason::Destroyed));
        }
    }
}

impl Build {
    fn new(engine: Engine, plan: Plan, first: Option<FirstCall>) -> Self {
        let workdir = plan.configure.workdir.clone();
        Self {
            engine,
            sandbox: Arc::new(Sandbox::new(plan.record, workdir, plan.max_life, plan.ceiling)),
            spec: plan.spec,
            configure: plan.configure,
            idempotency: plan.idempotency,
            first,
            network_asked: plan.network_asked,
            existing: None,
            probe: Probe::default(),
        }
    }

    async fn run(mut self, mut answer: oneshot::Sender<Result<Made, Error>>, stays: bool) {
        let sandbox = Arc::clone(&self.sandbox);
        let mut started = 0;
        // Whether a place was taken must be known before anything else is decided.
        let mut result = self.steps(&mut started, 1).await;
        if let Some(id) = self.existing {
            // Where nobody waits any more there is nothing to undo either.
            let _ = answer.send(Ok(Made::Before(id)));
            return;
        }
        if result.is_ok() {
            let stopped = async {
                tokio::select! {
                    () = answer.closed(), if !stays => {
                        Error::new(ErrorKind::Unavailable, "nobody waits")
                    }
                    ended = sandbox.ended() => Error::gone(&sandbox.id, ended),
                }
            };
            result = tokio::select! {
                biased;
                result = self.steps(&mut started, STEPS.len()) => result,
                error = stopped => Err(error),
            };
        }
        let record = self.sandbox.live().record;
        let network = network::recorded(&record.network).to_string();
        let detail = json!({
            "size": record.size.as_str(),
            "network": shorten(&network, network::AUDITED),
            "secrets": record.secrets.len(),
        });
        self.engine.audit_result("sandbox.create", Some(sandbox.id.to_string()), &result, detail);
        match result {
            Ok(()) => {
                let made = Made::New(Box::new(self.sandbox.view()));
                if answer.send(Ok(made)).is_err() && !stays {
                    let end = self.engine.end_in_background(self.sandbox, EndReason::Destroyed);
                    // What it could not remove the sweep removes.
                    let _ = end.await;
                }
            }
            Err(error) => {
                self.undo(started).await;
                if let Some(internal) = &error.internal {
                    tracing::error!(id = %self.sandbox.id, internal, "create failed");
                }
                let _ = answer.send(Err(error));
            }
        }
    }

    /// Runs the steps from the one after the first `started` on, up to number `until`.
    async fn steps(&mut self, started: &mut usize, until: usize) -> Result<(), Error> {
        let faults = self.engine.inner.settings.faults.clone();
        for step in &STEPS[*started..until] {
            faults.check(step.name, Moment::Before)?;
            *started += 1;
            let begin = Instant::now();
            (step.run)(self).await?;
            tracing::debug!(id = %self.sandbox.id, step = step.name, took = ?begin.elapsed());
            faults.check(step.name, Moment::After)?;
        }
        Ok(())
    }

    /// Takes back the first `started` steps, the last one first. Where something cannot be
    /// removed now, the sandbox stays as `deleting` and the sweep goes on with it.
    async fn undo(&mut self, started: usize) {
        for step in STEPS.iter().take(started).rev() {
            if let Err(error) = (step.undo)(self).await {
                tracing::error!(
                    id = %self.sandbox.id, step = step.name, internal = error.internal,
                    "undo failed; the sweep tries again"
                );
                self.leave_to_the_sweep().await;
                return;
            }
        }
        self.sandbox.forgotten();
    }

    async fn leave_to_the_sweep(&self) {
        if let Err(error) = self.engine.decide_end(&self.sandbox, EndReason::Destroyed).await {
            tracing::error!(id = %self.sandbox.id, internal = error.internal, "cannot record");
        }
        self.sandbox.hand_over(true);
    }
}
