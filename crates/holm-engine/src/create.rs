//! `sandbox_create`: a list of steps, each with its undo.
//!
//! The list runs in a task of its own, so that a caller who goes away never stops it half-way:
//! the task sees that nobody waits and undoes what was done. An undo copes with a step that did
//! not happen or was cut off in the middle.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use holm_runtime::{BoxFuture, SandboxSpec};
use holm_wire::guest::Configure;
use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::lease::{store_failed, wall_clock};
use crate::plan::Plan;
use crate::sandbox::Sandbox;
use crate::store::StoreError;
use crate::{
    CreateSandbox, EndReason, Engine, Error, ErrorKind, SandboxState, SandboxView, guest_error,
    measure,
};

/// One step.
pub(crate) struct Step {
    /// Its name, in logs and for [`Faults`].
    pub name: &'static str,
    run: for<'a> fn(&'a mut Build) -> BoxFuture<'a, Result<(), Error>>,
    undo: for<'a> fn(&'a mut Build) -> BoxFuture<'a, Result<(), Error>>,
}

/// Everything that a create does, in order.
pub(crate) const STEPS: [Step; 5] = [
    Step {
        name: "reserve",
        run: |build| Box::pin(build.reserve()),
        undo: |build| Box::pin(build.release()),
    },
    Step {
        name: "make",
        run: |build| Box::pin(build.make()),
        undo: |build| Box::pin(build.unmake()),
    },
    Step {
        name: "configure",
        run: |build| Box::pin(build.configure()),
        undo: |_| Box::pin(nothing()),
    },
    Step { name: "measure", run: |build| Box::pin(build.measure()), undo: |_| Box::pin(nothing()) },
    Step {
        name: "publish",
        run: |build| Box::pin(build.publish()),
        undo: |build| Box::pin(build.withdraw()),
    },
];

/// The undo of a step whose effect is inside the sandbox and goes with it.
async fn nothing() -> Result<(), Error> {
    Ok(())
}

/// Names of the steps of a create, in order, for tests that fail each of them.
#[doc(hidden)]
#[must_use]
pub fn create_steps() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

/// When an injected fault strikes.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Instead of the step.
    Before,
    /// After the step has worked.
    After,
}

type FaultFn = dyn Fn(&str, Moment) -> bool + Send + Sync;

/// Decides which steps fail, for tests.
#[doc(hidden)]
#[derive(Clone, Default)]
pub struct Faults(Option<Arc<FaultFn>>);

impl Faults {
    /// Fails a step where `wanted(name, moment)`.
    pub fn when(wanted: impl Fn(&str, Moment) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(wanted)))
    }

    fn check(&self, step: &'static str, moment: Moment) -> Result<(), Error> {
        match &self.0 {
            Some(wanted) if wanted(step, moment) => {
                Err(Error::internal(step, &format!("injected {moment:?}")))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_some() { "Faults(some)" } else { "Faults(none)" })
    }
}

/// A create under way.
pub(crate) struct Build {
    engine: Engine,
    sandbox: Arc<Sandbox>,
    spec: SandboxSpec,
    configure: Configure,
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
        Self { engine, sandbox, spec: plan.spec, configure: plan.configure }
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

    async fn reserve(&mut self) -> Result<(), Error> {
        let inner = &self.engine.inner;
        let limit = inner.settings.max_sandboxes;
        inner.store.reserve(self.sandbox.live().record, limit).await.map_err(
            |error| match error {
                StoreError::Full { limit } => Error::new(
                    ErrorKind::QuotaExceeded,
                    format!("the limit of {limit} sandboxes at once is reached"),
                ),
                other => store_failed(&other),
            },
        )?;
        inner.registry.add(&self.sandbox);
        // A shutdown that began before this line did not see it; from here on it does.
        self.engine.refuse_when_closing()
    }

    async fn release(&mut self) -> Result<(), Error> {
        let inner = &self.engine.inner;
        let _decision = self.sandbox.decision.lock().await;
        let mut live = self.sandbox.live();
        if let Some(ended) = live.record.ended {
            // Somebody saw it and destroyed it: the history can say so.
            live.record.state = ended.reason.final_state();
            let saved = inner.store.save(live.record.clone()).await;
            inner.registry.remove(&self.sandbox.id);
            self.sandbox.set(live);
            return match saved {
                Ok(()) | Err(StoreError::Unknown(_)) => Ok(()),
                Err(error) => Err(store_failed(&error)),
            };
        }
        inner.store.forget(self.sandbox.id).await;
        inner.registry.remove(&self.sandbox.id);
        Ok(())
    }

    async fn make(&mut self) -> Result<(), Error> {
        let made = self.engine.inner.driver.create(self.spec.clone()).await;
        self.sandbox.attach(made.map_err(crate::driver_error::from_driver)?)
    }

    async fn unmake(&mut self) -> Result<(), Error> {
        match self.sandbox.machine() {
            Some(machine) => machine.destroy().await.map_err(crate::driver_error::from_driver),
            // Not made, or dropped on the way, which leaves nothing.
            None => Ok(()),
        }
    }

    /// A call to the new guest, given up as soon as the sandbox dies.
    async fn ask<T>(
        &self,
        call: impl Future<Output = Result<T, holm_wire::client::ClientError>>,
    ) -> Result<T, Error> {
        let machine = self.sandbox.machine().ok_or_else(|| self.sandbox.not_ready())?;
        tokio::select! {
            answer = call => answer.map_err(|error| guest_error::at_start(&error)),
            reason = machine.exited() => {
                let text = "the new sandbox died while it was started";
                Err(Error::new(ErrorKind::Unavailable, text)
                    .with_internal(format!("PID 1 is gone: {reason:?}")))
            }
        }
    }

    async fn configure(&mut self) -> Result<(), Error> {
        let guest = self.sandbox.guest()?;
        self.ask(guest.configure(&self.configure)).await
    }

    async fn measure(&mut self) -> Result<(), Error> {
        let guest = self.sandbox.guest()?;
        let probe = self.ask(guest.probe()).await?;
        let inner = &self.engine.inner;
        let measured = measure::measure(
            inner.driver.enforcement(),
            &probe,
            &inner.settings.host_namespaces,
            &self.spec,
            &self.sandbox.usage(),
        );
        if let Some(row) = measured.fatal.first() {
            let name = measure::layer_name(row.layer);
            let text = format!("the new sandbox lacks {name}, without which nothing may run in it");
            let error = Error::new(ErrorKind::IsolationUnavailable, text)
                .with_internal(format!("measured missing: {:?}", measured.missing));
            return Err(match &row.mend {
                Some(mend) => error.suggest(mend.clone()),
                None => error,
            });
        }
        self.sandbox.set_measured(measured);
        Ok(())
    }

    async fn publish(&mut self) -> Result<(), Error> {
        let inner = &self.engine.inner;
        let _decision = self.sandbox.decision.lock().await;
        let mut live = self.sandbox.live();
        if let Some(ended) = live.record.ended {
            return Err(Error::gone(&self.sandbox.id, ended));
        }
        let now = Instant::now();
        let deadline = now + live.record.lifetime;
        live.deadline = Some(deadline);
        live.ceiling = Some(now + inner.settings.lifetime.max);
        live.record.state = SandboxState::Running;
        live.record.ready_at = Some(Timestamp::now());
        live.record.expires_at = Some(wall_clock(deadline, now));
        inner.store.save(live.record.clone()).await.map_err(|error| store_failed(&error))?;
        self.sandbox.handed_over.store(true, Ordering::SeqCst);
        self.sandbox.set(live);
        inner.timer.add(deadline, self.sandbox.id);
        self.engine.watch(&self.sandbox);
        Ok(())
    }

    async fn withdraw(&mut self) -> Result<(), Error> {
        self.engine.decide_end(&self.sandbox, EndReason::Destroyed).await?;
        self.sandbox.handed_over.store(false, Ordering::SeqCst);
        Ok(())
    }
}

impl Engine {
    /// Ends the sandbox when its PID 1 is gone although nobody wanted that.
    fn watch(&self, sandbox: &Arc<Sandbox>) {
        let engine = Arc::downgrade(&self.inner);
        let sandbox = Arc::clone(sandbox);
        tokio::spawn(async move {
            let Some(machine) = sandbox.machine() else { return };
            let exit = tokio::select! {
                exit = machine.exited() => exit,
                _ended = sandbox.ended() => return,
            };
            let Some(inner) = engine.upgrade() else { return };
            let reason = match exit {
                holm_runtime::ExitReason::OutOfMemory => EndReason::OutOfMemory,
                holm_runtime::ExitReason::Destroyed | holm_runtime::ExitReason::Died => {
                    EndReason::Lost
                }
            };
            tracing::warn!(id = %sandbox.id, ?exit, "the sandbox's PID 1 is gone");
            drop(Engine { inner }.end_in_background(sandbox, reason));
        });
    }
}
