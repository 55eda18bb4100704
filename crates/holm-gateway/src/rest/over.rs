//! What ends a request before its time: the service goes down, or the caller's key stops working.

use holm_engine::{Error, KeyEnd};
use tokio::sync::watch;

use super::failure::Failure;

/// Waits for such an end.
#[derive(Debug, Clone)]
pub struct Over {
    /// Becomes true when the service does not wait any longer for what runs.
    service: watch::Receiver<bool>,
    key: KeyEnd,
}

impl Over {
    /// Of one request.
    #[must_use]
    pub fn new(service: watch::Receiver<bool>, key: KeyEnd) -> Self {
        Self { service, key }
    }

    /// Resolves when it is to end, with what its client is told.
    pub async fn failure(&mut self) -> Failure {
        tokio::select! {
            // The sender lives as long as the face.
            _ = self.service.wait_for(|over| *over) => Failure::going_down(),
            refusal = self.key.refused() => Error::from(refusal).into(),
        }
    }
}
