//! The engine: what faces call.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use holm_runtime::Driver;
use holm_store::{
    AccountId, Cursor, KeyId, KeyScope, MemoryStore, PAGE_MAX, Page, PageQuery, Record, Store,
};
use holm_wire::client::GuestClient;
use tokio::sync::{OnceCell, Semaphore, watch};
use tokio::time::Instant;

use crate::audit::Refusals;
use crate::counts::Counts;
use crate::direct::Directs;
use crate::key_end::KeyEnds;
use crate::lease::Timer;
use crate::measure::Measured;
use crate::meter::Meter;
use crate::network::Refreshing;
use crate::ready::Readiness;
use crate::registry::Registry;
use crate::room;
use crate::sandbox::{Sandbox, view};
use crate::shares::Shares;
use crate::snapshot::Turns;
use crate::tasks::Tasks;
use crate::{
    Buckets, Caller, EndReason, EngineSettings, Error, ErrorKind, ListSandboxes, SandboxId,
    SandboxState, SandboxView, UsageNow,
};

/// Calls that wait for commands in the background, of which an account has a quarter.
const WAITS: u32 = 256;

/// Makes, uses and ends sandboxes, for one caller. Cheap to clone; all clones, and all those for
/// other callers, are the same engine. A call reaches the caller's own sandboxes only.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    pub(crate) caller: Arc<Caller>,
}

pub(crate) struct Inner {
    pub driver: Arc<dyn Driver>,
    pub settings: EngineSettings,
    pub store: Arc<dyn Store>,
    pub registry: Registry,
    pub tasks: Tasks,
    pub timer: Arc<Timer>,
    pub closing: AtomicBool,
    pub started: OnceCell<()>,
    pub meter: Arc<Meter>,
    /// Changes when there is something to tell webhooks.
    pub told: watch::Sender<()>,
    pub refusals: Refusals,
    pub readiness: Readiness,
    /// Records of an engine before this one that could not be settled yet.
    pub unsettled: Mutex<BTreeSet<SandboxId>>,
    pub key_rates: Buckets<KeyId>,
    pub key_ends: Arc<KeyEnds>,
    pub counts: Counts,
    pub answers: Shares<AccountId>,
    /// Places of calls that wait for what a command in the background does.
    pub waits: Shares<AccountId>,
    /// Places for those that wait for room with what they have read.
    pub whole_outputs: Semaphore,
    /// Visitors of sandboxes that are not here look into the store one after the other.
    pub preview_lookups: Semaphore,
    /// Who may copy a sandbox's files now.
    pub turns: Turns,
    pub refreshing: Refreshing,
    pub directs: Directs,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Lets their tasks see that there is nothing left to time and to charge.
        self.timer.wake();
        self.meter.wake();
        self.key_ends.wake();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Engine")
            .field("caller", &self.caller)
            .field("settings", &self.inner.settings)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine that keeps its records in memory, for its operator. Needs a tokio runtime from its first create on.
    #[must_use]
    pub fn new(driver: Arc<dyn Driver>, settings: EngineSettings) -> Self {
        let store = Arc::new(MemoryStore::new(settings.history));
        Self::with_store(driver, settings, store)
    }

    /// An engine that keeps its records in `store`, for its operator: see [`Self::for_caller`].
    #[must_use]
    pub fn with_store(
        driver: Arc<dyn Driver>,
        settings: EngineSettings,
        store: Arc<dyn Store>,
    ) -> Self {
        let meter = Arc::new(Meter::new(settings.balance_grace, settings.low_balance));
        let key_rates = Buckets::new(settings.key_rate);
        let answers = room::shares(settings.answer_room);
        let inner = Inner {
            driver,
            settings,
            store,
            registry: Registry::default(),
            tasks: Tasks::new(),
            timer: Arc::new(Timer::default()),
            closing: AtomicBool::new(false),
            started: OnceCell::new(),
            meter,
            told: watch::Sender::new(()),
            refusals: Refusals::default(),
            readiness: Readiness::default(),
            unsettled: Mutex::default(),
            key_rates,
            key_ends: Arc::default(),
            counts: Counts::default(),
            answers,
            waits: Shares::new(WAITS, WAITS / 4),
            whole_outputs: Semaphore::new(room::WHOLE_OUTPUTS),
            preview_lookups: Semaphore::new(4),
            turns: crate::snapshot::turns(),
            refreshing: Refreshing::default(),
            directs: Directs::default(),
        };
        Self::of_operator(Arc::new(inner))
    }

    pub(crate) fn of_operator(inner: Arc<Inner>) -> Self {
        Self { inner, caller: Arc::new(Caller::operator()) }
    }

    /// The same engine for another caller.
    #[must_use]
    pub fn for_caller(&self, caller: Caller) -> Self {
        Self { inner: Arc::clone(&self.inner), caller: Arc::new(caller) }
    }

    /// Who calls with this handle.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> &EngineSettings {
        &self.inner.settings
    }

    /// One sandbox; also one that is over, while it is remembered.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], also for somebody else's; `forbidden` without a scope to read.
    pub async fn sandbox_get(&self, id: &SandboxId) -> Result<SandboxView, Error> {
        self.caller.needs(KeyScope::Read)?;
        if let Some(sandbox) = self.own(id) {
            self.settle(&sandbox).await?;
            let mut view = sandbox.view();
            if view.state.is_live() {
                view.ports = sandbox.ports.list();
                let usage = sandbox.usage();
                #[allow(clippy::cast_precision_loss, reason = "centuries of processor time fit")]
                let cpu_seconds = usage.cpu_usec.map(|usec| usec as f64 / 1e6);
                view.usage = Some(UsageNow {
                    memory_bytes: usage.memory_bytes,
                    cpu_seconds,
                    processes: usage.processes,
                    oom_kills: usage.oom_kills,
                });
            }
            view.network_now = Some(self.network_now(&sandbox));
            return Ok(view);
        }
        match self.record(id).await? {
            Some(record) => {
                let network_now = Some(crate::network::view_of_record(&record));
                Ok(SandboxView { network_now, ..view(&record, &Measured::default()) })
            }
            None => Err(Error::not_found(id)),
        }
    }

    /// Sandboxes, newest first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a limit of 0 or over 1,000; `forbidden`.
    pub async fn sandbox_list(&self, request: ListSandboxes) -> Result<Vec<SandboxView>, Error> {
        Ok(self.sandbox_page(request, None).await?.items)
    }

    /// The same in pages: the next one begins where `after` says.
    ///
    /// # Errors
    /// As [`Self::sandbox_list`].
    pub async fn sandbox_page(
        &self,
        request: ListSandboxes,
        after: Option<Cursor>,
    ) -> Result<Page<SandboxView>, Error> {
        self.caller.needs(KeyScope::Read)?;
        let limit = u32::try_from(request.limit).unwrap_or(u32::MAX);
        if limit == 0 || limit > PAGE_MAX {
            return Err(Error::invalid(format!("limit must be from 1 to {PAGE_MAX}")));
        }
        for sandbox in self.inner.registry.of(self.caller.account) {
            self.settle(&sandbox).await?;
        }
        let query = PageQuery { limit, after };
        let listing =
            self.inner.store.sandbox_list(self.caller.owner(), query, request.include_deleted);
        let page = listing.await?;
        let view = |record: &Record| match self.own(&record.id) {
            Some(sandbox) => sandbox.view(),
            None => view(record, &Measured::default()),
        };
        Ok(Page { items: page.items.iter().map(view).collect(), next: page.next })
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

    /// Ends every sandbox, whoever has it, waits until nothing is left, and takes no new work. Idempotent.
    pub async fn shutdown(&self) {
        self.end_all().await;
        self.inner.driver.shutdown().await;
    }

    /// Ends every sandbox, whoever has it, and takes no new work. When this answers true no process of a sandbox is
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

    /// Takes no new work, and lets go of everything: sandboxes that run go on where their driver
    /// is outlived by them, for the next engine on the same store and node; elsewhere they end.
    /// Calls under way should have come to their end before. Idempotent.
    pub async fn leave(&self) {
        if !self.inner.driver.outlived() {
            return self.shutdown().await;
        }
        self.inner.closing.store(true, Ordering::SeqCst);
        // What is half made or half removed; the next engine would finish it too.
        if tokio::time::timeout(crate::end::REMOVAL, self.inner.tasks.idle()).await.is_err() {
            tracing::warn!("something is still being removed; the next start goes on with it");
        }
        self.charge_all().await;
        for sandbox in self.inner.registry.all() {
            // What is counted after the last note would be lost. The gates' sockets end with this
            // engine anyway.
            sandbox.link.close(&self.inner.counts.links);
            self.traffic_save(&sandbox).await;
        }
        self.inner.driver.leave().await;
    }

    pub(crate) fn refuse_when_closing(&self) -> Result<(), Error> {
        if self.inner.closing.load(Ordering::SeqCst) {
            let text = "holm is shutting down and takes no new work";
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        Ok(())
    }

    /// The sandbox, if it may be used now: it runs or is paused, and its lease has not ended. Every
    /// call on a sandbox begins here, so that a late timer never lets an expired one be used. What
    /// needs the programs inside begins with [`Self::in_use`].
    pub(crate) async fn usable(&self, id: &SandboxId) -> Result<Arc<Sandbox>, Error> {
        self.caller.needs(KeyScope::Sandboxes)?;
        let Some(sandbox) = self.own(id) else { return Err(self.absent(id).await) };
        self.settle(&sandbox).await?;
        match (sandbox.state(), sandbox.ended_now()) {
            (SandboxState::Running | SandboxState::Paused, _) => Ok(sandbox),
            (_, Some(ended)) => Err(Error::gone(id, ended)),
            (_, None) => Err(sandbox.not_ready()),
        }
    }

    /// Makes up for a timer that is late.
    pub(crate) async fn settle(&self, sandbox: &Arc<Sandbox>) -> Result<(), Error> {
        let late = sandbox.deadline().is_some_and(|deadline| Instant::now() >= deadline);
        if late && sandbox.state().is_live() {
            self.expire(sandbox).await?;
        }
        Ok(())
    }
}
