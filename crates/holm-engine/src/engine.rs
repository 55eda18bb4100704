//! The engine: what faces call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use holm_runtime::Driver;
use holm_wire::client::GuestClient;
use tokio::time::Instant;

use crate::lease::Timer;
use crate::measure::Measured;
use crate::sandbox::{Registry, Sandbox, view};
use crate::store::{MemoryStore, Store};
use crate::tasks::Tasks;
use crate::{
    EndReason, EngineSettings, Error, ErrorKind, ListSandboxes, SandboxId, SandboxState,
    SandboxView, UsageNow,
};

/// Makes, uses and ends sandboxes. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub driver: Arc<dyn Driver>,
    pub settings: EngineSettings,
    pub store: Arc<dyn Store>,
    pub registry: Registry,
    pub tasks: Tasks,
    pub timer: Arc<Timer>,
    pub timer_started: OnceLock<()>,
    pub closing: AtomicBool,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Lets the timer's task see that there is nothing left to time.
        self.timer.wake();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Engine").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine that keeps its records in memory. Needs a tokio runtime from its first create on.
    #[must_use]
    pub fn new(driver: Arc<dyn Driver>, settings: EngineSettings) -> Self {
        let store = Arc::new(MemoryStore::new(settings.history));
        Self::with_store(driver, settings, store)
    }

    /// An engine that keeps its records in `store`.
    #[must_use]
    pub fn with_store(
        driver: Arc<dyn Driver>,
        settings: EngineSettings,
        store: Arc<dyn Store>,
    ) -> Self {
        let inner = Inner {
            driver,
            settings,
            store,
            registry: Registry::default(),
            tasks: Tasks::new(),
            timer: Arc::new(Timer::default()),
            timer_started: OnceLock::new(),
            closing: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> &EngineSettings {
        &self.inner.settings
    }

    /// One sandbox; also one that is over, while it is remembered.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn sandbox_get(&self, id: &SandboxId) -> Result<SandboxView, Error> {
        if let Some(sandbox) = self.inner.registry.get(id) {
            self.settle(&sandbox).await?;
            let mut view = sandbox.view();
            if view.state == SandboxState::Running {
                let usage = sandbox.usage();
                #[allow(clippy::cast_precision_loss, reason = "centuries of processor time fit")]
                let cpu_seconds = usage.cpu_usec.map(|usec| usec as f64 / 1e6);
                view.usage = Some(UsageNow {
                    memory_bytes: usage.memory_bytes,
                    cpu_seconds,
                    processes: usage.processes,
                });
            }
            return Ok(view);
        }
        match self.inner.store.get(*id).await {
            Some(record) => Ok(view(&record, &Measured::default())),
            None => Err(Error::not_found(id)),
        }
    }

    /// Sandboxes, newest first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a limit of 0 or over 1,000.
    pub async fn sandbox_list(&self, request: ListSandboxes) -> Result<Vec<SandboxView>, Error> {
        if request.limit == 0 || request.limit > 1000 {
            return Err(Error::invalid("limit must be from 1 to 1000"));
        }
        for sandbox in self.inner.registry.all() {
            self.settle(&sandbox).await?;
        }
        let records = self.inner.store.list(request.limit, request.include_deleted).await;
        let views = records.iter().map(|record| match self.inner.registry.get(&record.id) {
            Some(sandbox) => sandbox.view(),
            None => view(record, &Measured::default()),
        });
        Ok(views.collect())
    }

    /// A client of its guest, for callers that stream. The lease is checked now and not again;
    /// use [`Self::sandbox_ended`] to learn of the end.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::SandboxGone`].
    pub async fn guest(&self, id: &SandboxId) -> Result<GuestClient, Error> {
        Ok(self.usable(id).await?.guest()?.clone())
    }

    /// Resolves once the sandbox ends, with the error that calls in flight get.
    pub async fn sandbox_ended(&self, id: &SandboxId) -> Error {
        match self.usable(id).await {
            Ok(sandbox) => Error::gone(id, sandbox.ended().await),
            Err(error) => error,
        }
    }

    /// Ends every sandbox, waits until nothing is left, and takes no new work. Idempotent.
    pub async fn shutdown(&self) {
        self.end_all().await;
        self.inner.driver.shutdown().await;
    }

    /// Ends every sandbox and takes no new work. When this answers true no process of a sandbox is
    /// left; what the driver keeps for itself is not waited for, and goes when the driver is
    /// dropped.
    pub async fn end_all(&self) -> bool {
        self.inner.closing.store(true, Ordering::SeqCst);
        let ends: Vec<_> = self
            .inner
            .registry
            .all()
            .into_iter()
            .map(|sandbox| self.end_in_background(sandbox, EndReason::Destroyed))
            .collect();
        let mut all = true;
        for end in ends {
            // A failed removal is in the log, and the driver's own shutdown removes the rest.
            all &= matches!(end.await, Ok(Ok(_)));
        }
        self.inner.tasks.idle().await;
        all
    }

    pub(crate) fn refuse_when_closing(&self) -> Result<(), Error> {
        if self.inner.closing.load(Ordering::SeqCst) {
            let text = "holm is shutting down and takes no new work";
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        Ok(())
    }

    /// The sandbox, if it may be used now: it runs and its lease has not ended. Every call on a
    /// sandbox begins here, so that a late timer never lets an expired one be used.
    pub(crate) async fn usable(&self, id: &SandboxId) -> Result<Arc<Sandbox>, Error> {
        let Some(sandbox) = self.inner.registry.get(id) else {
            return Err(match self.inner.store.get(*id).await.and_then(|record| record.ended) {
                Some(ended) => Error::gone(id, ended),
                None => Error::not_found(id),
            });
        };
        self.settle(&sandbox).await?;
        match (sandbox.state(), sandbox.ended_now()) {
            (SandboxState::Running, _) => Ok(sandbox),
            (_, Some(ended)) => Err(Error::gone(id, ended)),
            (_, None) => Err(sandbox.not_ready()),
        }
    }

    /// Makes up for a timer that is late.
    async fn settle(&self, sandbox: &Arc<Sandbox>) -> Result<(), Error> {
        let late = sandbox.deadline().is_some_and(|deadline| Instant::now() >= deadline);
        if late && sandbox.state() == SandboxState::Running {
            self.expire(sandbox).await?;
        }
        Ok(())
    }
}
