//! Who uses a sandbox at this moment. What is used is not paused by itself, and what is paused goes
//! on before it is used.

use std::ops::Deref;
use std::sync::Arc;

use holm_store::SandboxState;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::sandbox::Sandbox;
use crate::{Engine, Error, ErrorKind, SandboxId};

/// The uses of one sandbox.
#[derive(Debug)]
pub(crate) struct Uses(watch::Sender<Now>);

#[derive(Debug, Clone, Copy)]
struct Now {
    count: usize,
    /// When the last one ended.
    since: Instant,
    /// Somebody pauses it: who begins to use it waits for that first.
    is_turning: bool,
}

impl Default for Uses {
    fn default() -> Self {
        Self(watch::Sender::new(Now { count: 0, since: Instant::now(), is_turning: false }))
    }
}

/// Held while a sandbox is being paused.
pub(crate) struct Turning(watch::Sender<Now>);

impl Drop for Turning {
    fn drop(&mut self) {
        self.0.send_modify(|now| now.is_turning = false);
    }
}

impl Uses {
    /// Since when nobody uses it; nothing while somebody does.
    pub fn idle_since(&self) -> Option<Instant> {
        let now = *self.0.borrow();
        (now.count == 0).then_some(now.since)
    }

    /// Something happened by which it does not count as idle.
    pub fn note(&self) {
        self.0.send_modify(|now| now.since = Instant::now());
    }

    /// Begins a pause. Where `unused_since` says so only if nobody has used it since then: from this
    /// on whoever begins to use it waits.
    pub fn turn(&self, unused_since: Option<Instant>) -> Option<Turning> {
        let mut begun = false;
        self.0.send_modify(|now| {
            begun = unused_since.is_none_or(|since| now.count == 0 && now.since <= since);
            now.is_turning |= begun;
        });
        begun.then(|| Turning(self.0.clone()))
    }
}

/// A use of a sandbox, which is not paused by itself meanwhile. Somebody may pause it all the same:
/// then what is under way goes on when it does.
pub(crate) struct InUse(Arc<Sandbox>);

impl InUse {
    pub fn new(sandbox: Arc<Sandbox>) -> Self {
        sandbox.uses.0.send_modify(|now| now.count += 1);
        Self(sandbox)
    }

    /// Whether it runs and nobody is about to pause it.
    fn is_awake(&self) -> bool {
        // In this order: whoever has paused it says so before it is not turning any more.
        let is_turning = self.0.uses.0.borrow().is_turning;
        !is_turning && self.0.state() == SandboxState::Running
    }
}

impl Clone for InUse {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.uses.0.send_modify(|now| {
            now.count -= 1;
            now.since = Instant::now();
        });
    }
}

impl Deref for InUse {
    type Target = Arc<Sandbox>;

    fn deref(&self) -> &Arc<Sandbox> {
        &self.0
    }
}

/// The same for faces, which only hold it.
pub struct Use(InUse);

impl std::fmt::Debug for Use {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Use").field(&self.0.id).finish()
    }
}

impl From<InUse> for Use {
    fn from(in_use: InUse) -> Self {
        Self(in_use)
    }
}

impl Engine {
    /// The sandbox, if it may be used now, running: one that is paused goes on first. Every call that
    /// needs what runs inside begins here.
    pub(crate) async fn in_use(&self, id: &SandboxId) -> Result<InUse, Error> {
        let sandbox = InUse::new(self.usable(id).await?);
        if !sandbox.is_awake() && self.wake(&sandbox).await? {
            let detail = json!({"auto": true});
            self.audit("sandbox.resume", Some(id.to_string()), holm_store::Outcome::Done, detail);
        }
        Ok(sandbox)
    }

    /// The same for whoever is nobody's caller.
    pub(crate) async fn in_use_by_visitor(&self, sandbox: &Arc<Sandbox>) -> Result<InUse, Error> {
        let sandbox = InUse::new(Arc::clone(sandbox));
        if !sandbox.is_awake() {
            self.wake(&sandbox).await?;
        }
        Ok(sandbox)
    }

    /// Lets it go on, if it does so by use. True when it was paused.
    async fn wake(&self, sandbox: &InUse) -> Result<bool, Error> {
        let mut was_paused = false;
        while !sandbox.is_awake() {
            was_paused |= self.resume_in_background(sandbox, true).await?;
        }
        Ok(was_paused)
    }
}

/// The error for one that does not go on by itself.
pub(crate) fn paused(id: &SandboxId) -> Error {
    let text = format!("sandbox {id} is paused and does not go on by itself");
    Error::new(ErrorKind::SandboxPaused, text)
}

/// The error for a call that was under way for longer than it may take.
pub(crate) fn was_paused(id: &SandboxId) -> Error {
    let text = format!("sandbox {id} was paused while the call was under way, and did not answer");
    Error::new(ErrorKind::SandboxPaused, text).suggest(
        "Let it go on with resume_sandbox, then look at what the call has done before calling again.",
    )
}
