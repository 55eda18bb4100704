//! `sandbox_create`: runs the list of steps, or takes back what it began.
//!
//! The list runs in a task of its own, so that a caller who goes away never stops it half-way:
//! the task sees that nobody waits and undoes what was done.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holm_runtime::SandboxSpec;
use holm_wire::guest::{Configure, Probe};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::faults::Moment;
use crate::plan::Plan;
use crate::sandbox::Sandbox;
use crate::steps::STEPS;
use crate::{CreateSandbox, EndReason, Engine, Error, ErrorKind, SandboxView};

/// A create under way.
pub(crate) struct Build {
    pub engine: Engine,
    pub sandbox: Arc<Sandbox>,
    pub spec: SandboxSpec,
    pub configure: Configure,
    /// What the guest has measured.
    pub probe: Probe,
}

impl Engine {
    /// Makes a sandbox. Its lifetime counts from the moment that it is ready. Dropping the future
    /// undoes everything.
    ///
    /// # Errors
    /// `invalid_argument`, `template_unknown`, `quota_exceeded`, `capacity`,
    /// `isolation_unavailable`, `unavailable`, `internal`. After an error nothing is left.
    pub async fn sandbox_create(&self, request: CreateSandbox) -> Result<SandboxView, Error> {
        self.refuse_when_closing()?;
        let plan = Plan::new(&self.inner.settings, request)?;
        crate::lease::start(self);
        let (answer, waiting) = oneshot::channel();
        let build = Build::new(self.clone(), plan);
        let waiting =
            Waiting { engine: self.clone(), sandbox: Arc::clone(&build.sandbox), answer: waiting };
        self.inner.tasks.spawn(build.run(answer));
        waiting.answer().await
    }
}

/// The caller's side of a create.
struct Waiting {
    engine: Engine,
    sandbox: Arc<Sandbox>,
    answer: oneshot::Receiver<Result<SandboxView, Error>>,
}

impl Waiting {
    async fn answer(mut self) -> Result<SandboxView, Error> {
        let answer = (&mut self.answer).await;
        answer.unwrap_or_else(|lost| Err(Error::internal("create", &lost)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // The create may have answered just when the caller left: then nobody knows the id.
        self.answer.close();
        if let Ok(Ok(_)) = self.answer.try_recv() {
            let sandbox = Arc::clone(&self.sandbox);
            drop(self.engine.end_in_background(sandbox, EndReason::Destroyed));
        }
    }
}

impl Build {
    fn new(engine: Engine, plan: Plan) -> Self {
        let sandbox = Arc::new(Sandbox::new(plan.record, plan.configure.workdir.clone()));
        let probe = Probe::default();
        Self { engine, sandbox, spec: plan.spec, configure: plan.configure, probe }
    }

    async fn run(mut self, mut answer: oneshot::Sender<Result<SandboxView, Error>>) {
        let sandbox = Arc::clone(&self.sandbox);
        let mut started = 0;
        let result = {
            let stopped = async {
                tokio::select! {
                    () = answer.closed() => Error::new(ErrorKind::Unavailable, "nobody waits"),
                    ended = sandbox.ended() => Error::gone(&sandbox.id, ended),
                }
            };
            tokio::select! {
                biased;
                result = self.steps(&mut started) => result,
                error = stopped => Err(error),
            }
        };
        match result {
            Ok(()) => {
                if answer.send(Ok(self.sandbox.view())).is_err() {
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

    async fn steps(&mut self, started: &mut usize) -> Result<(), Error> {
        let faults = self.engine.inner.settings.faults.clone();
        for step in &STEPS {
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
        self.sandbox.handed_over.store(true, Ordering::SeqCst);
    }
}
