//! Contexts, and code that runs in them.

use std::time::Duration;

use hyper::StatusCode;
use hyper::body::{Body as _, Incoming};

use super::ClientError;
use super::calls::post;
use super::files::failure;
use super::pool::{self, CallLimits, ConnectionGuard, GuestClient};
use crate::kernel::{
    Answer, Context, CreateRequest, ExecuteRequest, GRACE_MS, List, MOST_ANSWER, Named, START_MS,
};
use crate::{connect, paths, process};

/// Longest time for an answer that is there to come over.
const READ: Duration = Duration::from_secs(30);
/// A kernel's start, or its end with all that it started.
const CHANGE: Duration = Duration::from_millis(START_MS + 30_000);

/// What came of code, not read yet.
#[derive(Debug)]
pub struct KernelAnswer {
    /// Its bytes.
    pub length: u64,
    body: Incoming,
    connection: ConnectionGuard,
}

impl KernelAnswer {
    /// Reads it.
    ///
    /// # Errors
    /// When it is no answer, has more bytes than any, or does not come.
    pub async fn read(mut self) -> Result<Answer, ClientError> {
        let bytes = pool::within(READ, pool::collect(self.body, MOST_ANSWER)).await?;
        self.connection.release();
        serde_json::from_slice(&bytes).map_err(|error| ClientError::Protocol(error.to_string()))
    }
}

impl GuestClient {
    /// Makes a context.
    ///
    /// # Errors
    /// `Unimplemented` of the guest where there is no kernel; see [`ClientError`].
    pub async fn create_context(&self, request: &CreateRequest) -> Result<Context, ClientError> {
        let limits = CallLimits { deadline: CHANGE, ..CallLimits::default() };
        self.unary(paths::guest::CREATE_CONTEXT, "", request, limits).await
    }

    /// All contexts.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_contexts(&self) -> Result<List, ClientError> {
        let nothing = process::Empty {};
        self.unary(paths::guest::LIST_CONTEXTS, "", &nothing, CallLimits::default()).await
    }

    /// Ends a context's kernel; the next code has a new one.
    ///
    /// # Errors
    /// `NotFound` of the guest; see [`ClientError`].
    pub async fn restart_context(&self, request: &Named) -> Result<Context, ClientError> {
        let limits = CallLimits { deadline: CHANGE, ..CallLimits::default() };
        self.unary(paths::guest::RESTART_CONTEXT, "", request, limits).await
    }

    /// Ends a context.
    ///
    /// # Errors
    /// `NotFound` of the guest; see [`ClientError`].
    pub async fn delete_context(&self, request: &Named) -> Result<(), ClientError> {
        let limits = CallLimits { deadline: CHANGE, ..CallLimits::default() };
        let path = paths::guest::DELETE_CONTEXT;
        let _: process::Empty = self.unary(path, "", request, limits).await?;
        Ok(())
    }

    /// Runs code in a context. Dropping the future interrupts the code.
    ///
    /// # Errors
    /// `Unimplemented` of the guest where there is no kernel; see [`ClientError`].
    pub async fn execute(&self, request: &ExecuteRequest) -> Result<KernelAnswer, ClientError> {
        let body = serde_json::to_vec(request)
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        let request_head = post(paths::guest::EXECUTE, "", connect::UNARY_JSON);
        let sent = request_head.body(pool::full(body));
        let sent = sent.map_err(|error| ClientError::Protocol(error.to_string()))?;
        // It may wait for its turn as long as it may run.
        let run = Duration::from_millis(request.timeout_ms).saturating_mul(2);
        let deadline = run.saturating_add(Duration::from_millis(GRACE_MS));
        let (response, connection) = pool::within(deadline, self.send(sent)).await?;
        if response.status() != StatusCode::OK {
            return Err(failure(response).await);
        }
        let body = response.into_body();
        let length = body.size_hint().exact().unwrap_or(MOST_ANSWER as u64);
        if length > MOST_ANSWER as u64 {
            return Err(ClientError::Protocol(format!("an answer of {length} bytes")));
        }
        Ok(KernelAnswer { length, body, connection })
    }
}
