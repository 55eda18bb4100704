//! The steps of a create, each with its undo.
//!
//! An undo copes with a step that did not happen or was cut off in the middle.

use std::sync::Arc;

use holm_runtime::{BoxFuture, ExitReason};
use holm_store::{Reservation, Reserved};
use holm_wire::client::ClientError;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::create::Build;
use crate::event::Happened;
use crate::sandbox::Sandbox;
use crate::{
    EndReason, Engine, Error, ErrorKind, SandboxState, driver_error, guest_error, measure,
};

/// One step.
pub(crate) struct Step {
    /// Its name, in logs and for [`Faults`].
    pub name: &'static str,
    pub run: for<'a> fn(&'a mut Build) -> BoxFuture<'a, Result<(), Error>>,
    pub undo: for<'a> fn(&'a mut Build) -> BoxFuture<'a, Result<(), Error>>,
}

/// Everything that a create does, in order.
pub(crate) const STEPS: [Step; 6] = [
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
    // Before anything of the caller's can run in it.
    Step {
        name: "network",
        run: |build| Box::pin(build.network()),
        undo: |build| Box::pin(build.network_close()),
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

impl Build {
    async fn reserve(&mut self) -> Result<(), Error> {
        let inner = &self.engine.inner;
        let record = self.sandbox.live().record;
        let events = self.engine.events(&[Happened::Created], &record)?;
        let limit = |limit: usize| u32::try_from(limit).unwrap_or(u32::MAX);
        let reservation = Reservation {
            record,
            account_limit: limit(inner.settings.max_sandboxes),
            node_limit: limit(inner.settings.max_sandboxes_here),
            idempotency: self.idempotency.take(),
            events,
        };
        match inner.store.sandbox_reserve(reservation).await? {
            Reserved::New(record) => {
                self.sandbox.reserved(record);
                self.engine.events_recorded();
            }
            Reserved::Existing(record) => {
                self.existing = Some(record.id);
                return Ok(());
            }
        }
        inner.registry.add(&self.sandbox);
        // A shutdown that began before this line did not see it; from here on it does.
        self.engine.refuse_when_closing()
    }

    async fn release(&mut self) -> Result<(), Error> {
        let inner = &self.engine.inner;
        self.engine.let_go(&self.sandbox);
        let _decision = self.sandbox.decision.lock().await;
        let mut live = self.sandbox.live();
        if let Some(ended) = live.record.ended {
            // Somebody saw it and destroyed it: the history can say so.
            live.record.state = ended.reason.final_state();
            live.record = self.engine.record_save(live.record, &[]).await?;
            inner.registry.remove(&self.sandbox.id);
            self.sandbox.set(live);
            return Ok(());
        }
        self.engine.record_forget(&live.record).await?;
        inner.registry.remove(&self.sandbox.id);
        Ok(())
    }

    async fn make(&mut self) -> Result<(), Error> {
        let made = self.engine.inner.driver.create(self.spec.clone()).await;
        self.sandbox.attach(made.map_err(driver_error::from_driver)?)
    }

    async fn unmake(&mut self) -> Result<(), Error> {
        match self.sandbox.machine() {
            Some(machine) => machine.destroy().await.map_err(driver_error::from_driver),
            // Not made, or dropped on the way: then it may be on its way out.
            None => {
                let gone = self.engine.inner.driver.dropped(&self.spec.id).await;
                gone.map_err(driver_error::from_driver)
            }
        }
    }

    /// A call to the new guest, given up as soon as the sandbox dies.
    async fn ask<T>(&self, call: impl Future<Output = Result<T, ClientError>>) -> Result<T, Error> {
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
        if let Some(first) = self.first.take() {
            tokio::spawn(first(guest.clone()));
        }
        self.probe = self.ask(guest.configure(&self.configure)).await?.measured;
        Ok(())
    }

    async fn measure(&mut self) -> Result<(), Error> {
        let inner = &self.engine.inner;
        let measured = measure::measure(
            inner.driver.enforcement(),
            &self.probe,
            &inner.settings.host_namespaces,
            &self.spec,
            &measure::Counters {
                oom_kills: self.sandbox.oom_kills(),
                all: &|| self.sandbox.usage(),
            },
        );
        if let Some(row) = measured.fatal.first() {
            let name = row.layer;
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
        live.ceiling = Some(now + self.sandbox.max_life);
        live.ready = Some(now);
        live.record.state = SandboxState::Running;
        live.record.ready_at = Some(Timestamp::now());
        live.record.expires_at = Some(live.at(deadline));
        if inner.driver.outlived() {
            live.record.adoption = Some(self.adoption()?);
        }
        live.record = self.engine.record_save(live.record, &[Happened::Ready]).await?;
        self.sandbox.hand_over(true);
        self.sandbox.set(live);
        inner.timer.add(deadline, self.sandbox.id);
        self.engine.watch(&self.sandbox);
        self.engine.pause_when_idle(&self.sandbox);
        Ok(())
    }

    async fn withdraw(&mut self) -> Result<(), Error> {
        self.engine.decide_end(&self.sandbox, EndReason::Destroyed).await?;
        self.sandbox.hand_over(false);
        Ok(())
    }
}

impl Engine {
    /// Ends the sandbox when its PID 1 is gone although nobody wanted that.
    pub(crate) fn watch(&self, sandbox: &Arc<Sandbox>) {
        let engine = Arc::downgrade(&self.inner);
        let sandbox = Arc::clone(sandbox);
        tokio::spawn(async move {
            let Some(machine) = sandbox.machine() else { return };
            let exit = tokio::select! {
                biased;
                // Wanted: its PID 1 may be gone by now as well.
                _ended = sandbox.ended() => return,
                exit = machine.exited() => exit,
            };
            let Some(inner) = engine.upgrade() else { return };
            let reason = match exit {
                ExitReason::OutOfMemory => EndReason::OutOfMemory,
                ExitReason::Destroyed | ExitReason::Died => EndReason::Lost,
            };
            tracing::warn!(id = %sandbox.id, ?exit, "the sandbox's PID 1 is gone");
            drop(Engine::of_operator(inner).end_in_background(sandbox, reason));
        });
    }
}
