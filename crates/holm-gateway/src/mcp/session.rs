//! What belongs to one client: the revision it agreed on, its default sandbox, and the sandboxes
//! that it made, which end with it.
//!
//! A session is the stdio process or, over HTTP, an `Mcp-Session-Id`. A sandbox of another session
//! may be used by its id; it is not adopted: its lease is not touched and it does not end with this
//! session.
//!
//! Requests of the stateless revision over HTTP have no session. They get one that lasts for one
//! request and keeps nothing: no default sandbox, and what they make lives to its own end.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use holm_engine::{CreateSandbox, Engine, ErrorKind, ForkSandbox, SandboxId, SandboxView};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::task::JoinSet;

use super::agreed::Agreed;
use super::outcome::ToolError;
use super::revision::Revision;
use crate::http::trace;

/// One client's state.
pub struct Session {
    engine: Engine,
    default_template: Option<String>,
    agreed: Agreed,
    stateless: bool,
    state: Mutex<State>,
}

struct State {
    default: Arc<Slot>,
    created: Vec<SandboxId>,
}

/// A place for a default sandbox. Calls keep the one that was current when they arrived.
#[derive(Default)]
struct Slot {
    sandbox: OnceLock<SandboxId>,
    /// Held while a sandbox is being made for this slot. Inside: the slot to use instead, for a
    /// slot whose `create_sandbox` failed.
    making: Arc<AsyncMutex<Option<Arc<Slot>>>>,
}

/// Which default sandbox counts for a call.
pub struct Place {
    slot: Arc<Slot>,
    reservation: Option<Reservation>,
}

/// A `create_sandbox` under way: the session's default is already its slot, so that later calls
/// wait for it. If it comes to nothing, the default before counts again.
struct Reservation {
    session: Arc<Session>,
    slot: Arc<Slot>,
    before: Arc<Slot>,
    /// Keeps the slot's waiters waiting.
    _making: OwnedMutexGuard<Option<Arc<Slot>>>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.session.state();
        if self.slot.sandbox.get().is_none() && Arc::ptr_eq(&state.default, &self.slot) {
            state.default = Arc::clone(&self.before);
        }
    }
}

impl Session {
    /// A session without sandboxes. `fallback` is what the transport falls back to where
    /// `initialize` names no revision that is known.
    #[must_use]
    pub fn new(engine: Engine, default_template: Option<String>, fallback: Revision) -> Self {
        let state = State { default: Arc::default(), created: Vec::new() };
        let (agreed, stateless) = (Agreed::new(fallback), false);
        Self { engine, default_template, agreed, stateless, state: Mutex::new(state) }
    }

    /// What one request of the stateless revision works with.
    #[must_use]
    pub fn stateless(engine: Engine, default_template: Option<String>) -> Self {
        let session = Self::new(engine, default_template, Revision::R2026_07_28);
        Self { stateless: true, ..session }
    }

    /// True where there is no default sandbox and nothing ends with the session.
    #[must_use]
    pub fn is_stateless(&self) -> bool {
        self.stateless
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The template of sandboxes whose creator names none.
    #[must_use]
    pub fn default_template(&self) -> Option<&str> {
        self.default_template.as_deref()
    }

    /// The revision of requests that do not name their own.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.agreed.revision()
    }

    /// What was agreed on with the client.
    #[must_use]
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// The default that counts for a call that arrives now.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { slot: Arc::clone(&self.state().default), reservation: None }
    }

    /// The default of calls that arrive from now on, to be filled by a `create_sandbox`.
    #[must_use]
    pub fn reserve(self: &Arc<Self>) -> Place {
        let mut state = self.state();
        let before = Arc::clone(&state.default);
        let making = Arc::new(AsyncMutex::new(Some(Arc::clone(&before))));
        let guard = Arc::clone(&making).try_lock_owned();
        let slot = Arc::new(Slot { sandbox: OnceLock::new(), making });
        // Nobody else has seen the lock yet, so it is free.
        let reservation = guard.ok().map(|making| {
            state.default = Arc::clone(&slot);
            Reservation {
                session: Arc::clone(self),
                slot: Arc::clone(&slot),
                before,
                _making: making,
            }
        });
        Place { slot, reservation }
    }

    /// Makes a sandbox that ends with this session.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn create(&self, mut wanted: CreateSandbox) -> Result<SandboxView, ToolError> {
        if wanted.template.is_none() {
            wanted.template.clone_from(&self.default_template);
        }
        let made = self.engine.sandbox_create(wanted).await?;
        trace::sandbox(made.id);
        // No await between: a dropped call has either made nothing or what it made is known here.
        if !self.stateless {
            self.state().created.push(made.id);
        }
        Ok(made)
    }

    /// Makes forks of a sandbox, which end with this session.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn fork(
        &self,
        id: &SandboxId,
        wanted: ForkSandbox,
    ) -> Result<Vec<SandboxView>, holm_engine::Error> {
        let made = self.engine.sandbox_fork(id, wanted).await?;
        // No await between, as for one.
        if !self.stateless {
            self.state().created.extend(made.iter().map(|one| one.id));
        }
        Ok(made)
    }

    /// Makes the sandbox of a reserved place.
    ///
    /// # Errors
    /// What the engine says; the default before counts again then.
    pub async fn create_default(
        &self,
        wanted: CreateSandbox,
        place: Place,
    ) -> Result<SandboxView, ToolError> {
        let made = self.create(wanted).await?;
        // A reserved slot is filled only here.
        let _ = place.slot.sandbox.set(made.id);
        drop(place.reservation);
        Ok(made)
    }

    /// The default sandbox of a call, made now where there is none. Its lease is renewed.
    ///
    /// # Errors
    /// When it cannot be made, or has ended: then the next call gets a new one.
    pub async fn default_sandbox(&self, place: &Place) -> Result<SandboxId, ToolError> {
        let mut slot = Arc::clone(&place.slot);
        let id = loop {
            if let Some(id) = slot.sandbox.get() {
                break *id;
            }
            let making = Arc::clone(&slot.making).lock_owned().await;
            if let Some(id) = slot.sandbox.get() {
                break *id;
            }
            if let Some(instead) = making.as_ref() {
                slot = Arc::clone(instead);
                continue;
            }
            // First need. Concurrent calls wait at the lock; if this one is cancelled, the next of
            // them makes the sandbox.
            let made = self.create(CreateSandbox::default()).await?;
            let _ = slot.sandbox.set(made.id);
            return Ok(made.id);
        };
        if let Err(error) = self.engine.sandbox_touch(&id).await {
            return Err(self.judge(&id, error.into()));
        }
        Ok(id)
    }

    /// The default sandbox of a call if there is one; none is made and no lease is renewed.
    pub async fn existing_default(&self, place: &Place) -> Option<SandboxId> {
        let mut slot = Arc::clone(&place.slot);
        loop {
            if let Some(id) = slot.sandbox.get() {
                return Some(*id);
            }
            let making = Arc::clone(&slot.making).lock_owned().await;
            if let Some(id) = slot.sandbox.get() {
                return Some(*id);
            }
            slot = Arc::clone(making.as_ref()?);
        }
    }

    /// Looks at an error of a call in the default sandbox `id`: where that sandbox has ended, the
    /// next call gets a new one, and the error says so.
    #[must_use]
    pub fn judge(&self, id: &SandboxId, error: ToolError) -> ToolError {
        let gone = [ErrorKind::SandboxGone, ErrorKind::NotFound].map(ErrorKind::as_str);
        if !gone.contains(&error.code) || !self.forget_default(id) {
            return error;
        }
        error.suggest(
            "This was the default sandbox; its files are lost. The next call without sandbox_id \
             gets a new, empty one.",
        )
    }

    /// If `id` is the default, there is none any more. Says whether it was.
    pub fn forget_default(&self, id: &SandboxId) -> bool {
        let mut state = self.state();
        let is_default = state.default.sandbox.get() == Some(id);
        if is_default {
            state.default = Arc::default();
        }
        is_default
    }

    /// `id` was destroyed on request.
    pub fn destroyed(&self, id: &SandboxId) {
        self.forget_default(id);
        self.state().created.retain(|made| made != id);
    }

    /// True where a sandbox that lives would end with this session.
    #[must_use]
    pub fn has_sandboxes(&self) -> bool {
        self.state().created.iter().any(|id| self.engine.sandbox_is_alive(id))
    }

    /// Destroys all sandboxes that this session made, side by side. No call may be running.
    pub async fn close(&self) {
        let created = std::mem::take(&mut self.state().created);
        let mut destroying = JoinSet::new();
        for id in created {
            let engine = self.engine.clone();
            destroying.spawn(async move {
                if let Err(error) = engine.sandbox_destroy(&id).await {
                    tracing::debug!(%id, %error, "a sandbox of the session was not destroyed");
                }
            });
        }
        while destroying.join_next().await.is_some() {}
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is a single assignment: it is whole even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
