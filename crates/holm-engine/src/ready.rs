//! Whether new work can be taken at this moment, for whatever watches the service.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::Engine;

/// How long the store has to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer holds: however many ask, the store is asked once in this time.
const FRESH: Duration = Duration::from_secs(1);

/// The last answer.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, bool)>>);

impl Engine {
    /// True when the store takes a record within a short while. No create, and no charge, gets
    /// further than one that does not.
    pub async fn ready(&self) -> bool {
        let mut last = self.inner.readiness.0.lock().await;
        if let Some((at, ready)) = *last
            && at.elapsed() < FRESH
        {
            return ready;
        }
        let ready = match timeout(PATIENCE, self.say_alive()).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                let internal = error.internal.as_deref().unwrap_or_default();
                tracing::warn!(%error, internal, "not ready: the store takes no record");
                false
            }
            Err(_elapsed) => {
                tracing::warn!("not ready: the store did not answer within {PATIENCE:?}");
                false
            }
        };
        *last = Some((Instant::now(), ready));
        ready
    }
}
