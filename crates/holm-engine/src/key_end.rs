//! Learning that a key stops working while something runs with it.
//!
//! The key of a request is looked up when it begins. What takes longer holds a [`KeyEnd`]: one task
//! looks at the keys of everything that runs each second, for a key may be revoked by another
//! process, and at once after something was revoked or disabled in this one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use holm_store::{KeyId, Owner};
use jiff::Timestamp;
use tokio::sync::{Notify, watch};

use crate::engine::Inner;
use crate::{Engine, Error, Refusal};

/// How often the keys of what runs are looked at.
const LOOK: Duration = Duration::from_secs(1);

type Told = watch::Sender<Option<Refusal>>;

/// The keys of what runs.
#[derive(Debug, Default)]
pub(crate) struct KeyEnds {
    table: Mutex<Table>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    keys: HashMap<KeyId, Told>,
    /// Whether the task that looks was started.
    started: bool,
}

impl KeyEnds {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change under the lock is one call of the map: it is whole even after a panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks now.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// The keys that something still runs with, and no others any more.
    fn in_use(&self) -> Vec<KeyId> {
        let mut table = self.table();
        table.keys.retain(|_, told| told.receiver_count() > 0);
        table.keys.keys().copied().collect()
    }

    fn tell(&self, key: KeyId, refusal: Refusal) {
        if let Some(told) = self.table().keys.get(&key) {
            told.send_replace(Some(refusal));
        }
    }
}

/// Tells when the key of a caller stops working. A caller without a key never hears anything.
#[derive(Debug, Clone)]
pub struct KeyEnd(Option<watch::Receiver<Option<Refusal>>>);

impl KeyEnd {
    /// True once the key is refused.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.0.as_ref().is_some_and(|told| told.borrow().is_some())
    }

    /// Resolves with the reason once the key is refused.
    pub async fn refused(&mut self) -> Refusal {
        if let Some(told) = &mut self.0
            && let Ok(seen) = told.wait_for(Option::is_some).await
            && let Some(refusal) = *seen
        {
            return refusal;
        }
        std::future::pending().await
    }
}

impl Engine {
    /// Watches the caller's key, for work that lasts: it is to end when the key does.
    #[must_use]
    pub fn key_end(&self) -> KeyEnd {
        let Some(key) = self.caller.key else { return KeyEnd(None) };
        let ends = &self.inner.key_ends;
        let mut table = ends.table();
        if !std::mem::replace(&mut table.started, true) {
            tokio::spawn(run(Arc::clone(ends), Arc::downgrade(&self.inner)));
        }
        if table.keys.is_empty() {
            // It sleeps for as long as nothing runs.
            ends.changed.notify_one();
        }
        let told = table.keys.entry(key).or_default();
        if told.borrow().is_some() {
            // It may work again by now, as that of an account that is enabled again does.
            *told = Told::default();
        }
        KeyEnd(Some(told.subscribe()))
    }

    async fn key_refusal(&self, id: KeyId) -> Result<Option<Refusal>, Error> {
        let store = &self.inner.store;
        let Some(key) = store.key_get(Owner::Any, id).await? else {
            return Ok(Some(Refusal::Unknown));
        };
        let account = store.account_get(key.account_id).await?;
        Ok(Refusal::of(&key, account.as_ref(), Timestamp::now()))
    }
}

/// Looks for as long as the engine is there.
async fn run(ends: Arc<KeyEnds>, engine: Weak<Inner>) {
    loop {
        if ends.in_use().is_empty() {
            ends.changed.notified().await;
        }
        // Short calls are over before anybody looks.
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = ends.changed.notified() => {}
        }
        let Some(inner) = engine.upgrade() else { return };
        let engine = Engine::of_operator(inner);
        for key in ends.in_use() {
            match engine.key_refusal(key).await {
                Ok(Some(refusal)) => ends.tell(key, refusal),
                Ok(None) => {}
                // The next look finds it out.
                Err(error) => {
                    let internal = error.internal.as_deref().unwrap_or_default();
                    tracing::warn!(%key, %error, internal, "a key in use was not looked up");
                }
            }
        }
    }
}
