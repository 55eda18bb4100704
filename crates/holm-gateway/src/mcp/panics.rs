//! A panic in one call must cost that call only (its client still gets a reply), whatever the
//! transport. The panic's text goes to standard error through the process's hook, never to a client.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::jsonrpc::{INTERNAL_ERROR, RpcError};

/// Runs `work` and turns a panic into an internal error.
///
/// # Errors
/// When `work` panics.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, RpcError> {
    // State that a panic could leave half-changed is only behind locks that are held for single
    // assignments.
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| internal())
}

fn internal() -> RpcError {
    RpcError::new(INTERNAL_ERROR, "Internal error: the call ended unexpectedly")
}

/// A future whose panics become internal errors.
pub struct Guarded<T>(Pin<Box<dyn Future<Output = T> + Send>>);

impl<T> Guarded<T> {
    /// Guards `future`.
    pub fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }
}

impl<T> Future for Guarded<T> {
    type Output = Result<T, RpcError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = &mut self.0;
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(internal())),
        }
    }
}
