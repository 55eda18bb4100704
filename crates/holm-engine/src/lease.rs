//! Leases: extending, and ending what ran out.
//!
//! One task holds an ordered queue of deadlines. It is only a convenience: every call checks the
//! lease itself, and a periodic sweep makes up for missed timers and failed removals. Whether a
//! sandbox is extended or expires is decided under its `decision` lock, so the two cannot both
//! happen.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::Inner;
use crate::event::Happened;
use crate::sandbox::Sandbox;
use crate::{EndReason, Engine, Error, SandboxId, SandboxState, SandboxView};

/// The queue of deadlines.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    queue: Mutex<BTreeSet<(Instant, SandboxId)>>,
    changed: Notify,
}

impl Timer {
    pub fn add(&self, deadline: Instant, id: SandboxId) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.insert((deadline, id));
        let is_next = queue.first() == Some(&(deadline, id));
        drop(queue);
        if is_next {
            self.changed.notify_one();
        }
    }

    pub fn wake(&self) {
        self.changed.notify_one();
    }

    fn next(&self) -> Option<Instant> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.first().map(|(deadline, _)| *deadline)
    }

    fn take_due(&self, now: Instant) -> Vec<SandboxId> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        while let Some(first) = queue.pop_first() {
            if first.0 > now {
                queue.insert(first);
                break;
            }
            due.push(first.1);
        }
        due
    }
}

/// Starts the timer's task; it ends with the engine.
pub(crate) fn start(engine: &Engine) {
    let timer = Arc::clone(&engine.inner.timer);
    let sweep = engine.inner.settings.sweep_interval;
    tokio::spawn(run(timer, Arc::downgrade(&engine.inner), sweep));
}

async fn run(timer: Arc<Timer>, engine: Weak<Inner>, interval: Duration) {
    let mut next_sweep = Instant::now() + interval;
    loop {
        let wake = timer.next().map_or(next_sweep, |deadline| deadline.min(next_sweep));
        tokio::select! {
            () = tokio::time::sleep_until(wake) => {}
            () = timer.changed.notified() => {}
        }
        let Some(inner) = engine.upgrade() else { return };
        let engine = Engine::of_operator(inner);
        let now = Instant::now();
        for id in timer.take_due(now) {
            if let Some(sandbox) = engine.inner.registry.get(&id) {
                engine.spawn_expire(sandbox);
            }
        }
        if now >= next_sweep {
            engine.sweep(now);
            next_sweep = now + interval;
        }
    }
}

impl Engine {
    /// Ends what should have ended and tries failed removals again.
    fn sweep(&self, now: Instant) {
        self.settle_again();
        self.network_refresh_later();
        for sandbox in self.inner.registry.all() {
            if sandbox.unrecorded.load(Ordering::SeqCst) {
                self.record_again_later(&sandbox);
            }
            match sandbox.state() {
                SandboxState::Running | SandboxState::Paused
                    if sandbox.deadline().is_some_and(|end| now >= end) =>
                {
                    self.spawn_expire(sandbox);
                }
                SandboxState::Deleting if sandbox.removal.try_lock().is_ok() => {
                    self.inner.tasks.spawn({
                        let engine = self.clone();
                        async move { engine.remove(&sandbox).await }
                    });
                }
                _ => {}
            }
        }
    }

    fn record_again_later(&self, sandbox: &Arc<Sandbox>) {
        let (engine, sandbox) = (self.clone(), Arc::clone(sandbox));
        self.inner.tasks.spawn(async move {
            if let Err(error) = engine.record_again(&sandbox).await {
                let internal = error.internal.as_deref().unwrap_or_default();
                tracing::warn!(id = %sandbox.id, %error, internal, "its state is not recorded yet");
            }
        });
    }

    fn spawn_expire(&self, sandbox: Arc<Sandbox>) {
        let engine = self.clone();
        self.inner.tasks.spawn(async move {
            if let Err(error) = engine.expire(&sandbox).await {
                tracing::error!(id = %sandbox.id, internal = error.internal, "cannot expire");
            }
        });
    }

    /// Adds `additional` to the lease. Past the ceiling (24 h from ready) the lease ends at the
    /// ceiling; the answer holds the real expiry.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind) for an extension outside the allowed range
    /// or a lease that is at its ceiling; `not_found`, `sandbox_gone`.
    pub async fn sandbox_extend(
        &self,
        id: &SandboxId,
        additional: Duration,
    ) -> Result<SandboxView, Error> {
        let result = self.extend(id, additional).await;
        let expires_at = result.as_ref().ok().and_then(|view| view.expires_at);
        let detail = json!({"expires_at": expires_at.map(|at| at.to_string())});
        // What is not there is nobody's doing, and could be asked for without end.
        if !result.as_ref().is_err_and(|error| error.kind == crate::ErrorKind::NotFound) {
            self.audit_result("sandbox.extend", Some(id.to_string()), &result, detail);
        }
        result
    }

    async fn extend(&self, id: &SandboxId, additional: Duration) -> Result<SandboxView, Error> {
        let additional = self.inner.settings.lifetime.check_extension(additional)?;
        let sandbox = self.usable(id).await?;
        let next = |deadline: Instant, ceiling| (deadline + additional).min(ceiling);
        let at_ceiling = self.lease(&sandbox, next, &[Happened::Extended]).await?;
        if at_ceiling {
            return Err(Error::invalid(format!(
                "sandbox {id} cannot live longer than {} from its start, which its lease reaches \
                 already",
                crate::lifetime::text(sandbox.max_life)
            ))
            .suggest("Create a new sandbox and copy over what is still needed."));
        }
        Ok(sandbox.view())
    }

    /// Extends a session's default sandbox as it is used: its lease then reaches at least as far
    /// as its first lifetime from now, never past the ceiling.
    ///
    /// # Errors
    /// `not_found`, `sandbox_gone`.
    pub async fn sandbox_touch(&self, id: &SandboxId) -> Result<SandboxView, Error> {
        let sandbox = self.usable(id).await?;
        self.touch(&sandbox).await?;
        Ok(sandbox.view())
    }

    /// The same by whatever else is use.
    pub(crate) async fn touch(&self, sandbox: &Arc<Sandbox>) -> Result<(), Error> {
        let lifetime = sandbox.lifetime();
        let next = |deadline, ceiling| (Instant::now() + lifetime).min(ceiling).max(deadline);
        self.lease(sandbox, next, &[]).await.map(|_| ())
    }

    /// Moves the lease to what `next` makes of its end and its ceiling. True when that is where
    /// it was.
    async fn lease(
        &self,
        sandbox: &Arc<Sandbox>,
        next: impl Fn(Instant, Instant) -> Instant,
        what: &[Happened],
    ) -> Result<bool, Error> {
        loop {
            let decision = sandbox.decision.lock().await;
            let mut live = sandbox.live();
            if let Some(ended) = live.record.ended {
                return Err(Error::gone(&sandbox.id, ended));
            }
            let (Some(deadline), Some(ceiling)) = (live.deadline, live.ceiling) else {
                return Err(sandbox.not_ready());
            };
            let now = Instant::now();
            if now >= deadline {
                // Too late; whoever takes the lock next says so, or was in time.
                drop(decision);
                self.expire(sandbox).await?;
                continue;
            }
            let new = next(deadline, ceiling);
            if new == deadline {
                return Ok(true);
            }
            live.deadline = Some(new);
            live.record.expires_at = Some(live.at(new));
            live.record = self.record_save(live.record, what).await?;
            sandbox.set(live);
            self.inner.timer.add(new, sandbox.id);
            return Ok(false);
        }
    }

    /// Ends the sandbox if its lease has ended, and waits for the decision, not for the removal.
    pub(crate) async fn expire(&self, sandbox: &Arc<Sandbox>) -> Result<(), Error> {
        if self.decide_end(sandbox, EndReason::Expired).await? {
            let (engine, sandbox) = (self.clone(), Arc::clone(sandbox));
            self.inner.tasks.spawn(async move { engine.remove(&sandbox).await });
        }
        Ok(())
    }
}
