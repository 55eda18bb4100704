//! Unary calls.

use std::time::Duration;

use base64::Engine as _;
use hyper::{Method, Request, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::pool::{self, CallLimits, GuestClient};
use super::{ClientError, EventStream};
use crate::{background, connect, filesystem, guest, paths, process};

/// How long past its own timeout a run may take to report back before the guest counts as stuck.
const RUN_GRACE: Duration = Duration::from_secs(10);
/// Wait for a run without a timeout. The engine ends it earlier, at the sandbox's expiry.
const RUN_FOREVER: Duration = Duration::from_secs(7 * 24 * 3600);

/// The guest waits 20 seconds for a command that does not read its input.
const FEED_PATIENCE: Duration = Duration::from_secs(30);
/// To kill a whole tree of processes takes the guest 8 seconds at most, and a moment.
const KILL_PATIENCE: Duration = Duration::from_secs(30);

/// A tree of any size may be under what is removed.
const REMOVAL: CallLimits =
    CallLimits { deadline: Duration::from_secs(120), max_response: 4 << 20 };

impl GuestClient {
    /// One unary Connect call.
    ///
    /// # Errors
    /// See [`ClientError`]; the guest's own errors keep their code.
    pub async fn unary<Q, R>(
        &self,
        path: &str,
        user: &str,
        request: &Q,
        limits: CallLimits,
    ) -> Result<R, ClientError>
    where
        Q: Serialize + Sync,
        R: DeserializeOwned,
    {
        let body = serde_json::to_vec(request)
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        let request = post(path, user, connect::UNARY_JSON).body(pool::full(body));
        let request = request.map_err(|error| ClientError::Protocol(error.to_string()))?;
        pool::within(limits.deadline, async {
            let (response, mut guard) = self.send(request).await?;
            let status = response.status();
            let bytes = pool::collect(response.into_body(), limits.max_response).await?;
            guard.release();
            if status == StatusCode::OK {
                serde_json::from_slice(&bytes)
                    .map_err(|error| ClientError::Protocol(error.to_string()))
            } else {
                Err(error_of(status, &bytes))
            }
        })
        .await
    }

    /// Tells the guest what it cannot know. Also the wait for readiness: the socket accepts before
    /// the guest serves, and the answer comes when it does and has measured its confinement.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn configure(
        &self,
        request: &guest::Configure,
    ) -> Result<guest::Configured, ClientError> {
        let limits = CallLimits { deadline: Duration::from_secs(30), ..CallLimits::default() };
        self.unary(paths::guest::CONFIGURE, "", request, limits).await
    }

    /// Runs one command to its end. Dropping the future ends the command and all it started.
    ///
    /// # Errors
    /// See [`ClientError`]; a program that fails is not an error.
    pub async fn run(
        &self,
        request: &guest::RunRequest,
    ) -> Result<guest::RunResponse, ClientError> {
        let limit = |asked| if asked == 0 { guest::DEFAULT_OUTPUT_LIMIT } else { asked };
        let kept = limit(request.stdout_limit) + limit(request.stderr_limit);
        let deadline = match request.timeout_ms {
            0 => RUN_FOREVER,
            ms => Duration::from_millis(ms).saturating_add(RUN_GRACE),
        };
        // base64 grows by a third; the rest of the reply is small.
        let max_response = usize::try_from(kept / 3 * 4 + (64 << 10)).unwrap_or(usize::MAX);
        self.unary(paths::guest::RUN, "", request, CallLimits { deadline, max_response }).await
    }

    /// Starts a command that goes on when this call is over.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn start_background(
        &self,
        request: &background::StartRequest,
    ) -> Result<background::Started, ClientError> {
        self.unary(paths::guest::START_BACKGROUND, "", request, CallLimits::default()).await
    }

    /// How a command in the background is, and what it wrote.
    ///
    /// # Errors
    /// `NotFound` of the guest; see [`ClientError`].
    pub async fn get_background(
        &self,
        request: &background::GetRequest,
    ) -> Result<background::Command, ClientError> {
        let deadline = Duration::from_millis(request.wait_ms).saturating_add(RUN_GRACE);
        // Two streams in base64, and the rest, which is small.
        let limits = CallLimits { deadline, max_response: 4 << 20 };
        self.unary(paths::guest::GET_BACKGROUND, "", request, limits).await
    }

    /// All commands in the background, without what they wrote.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_background(&self) -> Result<background::List, ClientError> {
        let nothing = process::Empty {};
        self.unary(paths::guest::LIST_BACKGROUND, "", &nothing, CallLimits::default()).await
    }

    /// Writes to the standard input of a command in the background.
    ///
    /// # Errors
    /// `NotFound` and `OutOfRange` (it takes no input) of the guest; see [`ClientError`].
    pub async fn send_background_input(
        &self,
        request: &background::InputRequest,
    ) -> Result<(), ClientError> {
        let limits = CallLimits { deadline: FEED_PATIENCE, ..CallLimits::default() };
        let path = paths::guest::SEND_BACKGROUND_INPUT;
        let _: process::Empty = self.unary(path, "", request, limits).await?;
        Ok(())
    }

    /// Ends a command in the background, or sends it another signal.
    ///
    /// # Errors
    /// `NotFound` of the guest; see [`ClientError`].
    pub async fn kill_background(
        &self,
        request: &background::KillRequest,
    ) -> Result<background::Command, ClientError> {
        let limits = CallLimits { deadline: KILL_PATIENCE, ..CallLimits::default() };
        self.unary(paths::guest::KILL_BACKGROUND, "", request, limits).await
    }

    /// Lists a tree, one page.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_tree(
        &self,
        request: &guest::ListTreeRequest,
    ) -> Result<guest::ListTreeResponse, ClientError> {
        let limits = CallLimits { deadline: Duration::from_secs(30), max_response: 64 << 20 };
        self.unary(paths::guest::LIST_TREE, "", request, limits).await
    }

    /// One entry's facts.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn stat(&self, path: &str, user: &str) -> Result<filesystem::EntryInfo, ClientError> {
        let request = filesystem::PathRequest { path: path.to_owned() };
        let response: filesystem::EntryResponse =
            self.unary(paths::filesystem::STAT, user, &request, CallLimits::default()).await?;
        Ok(response.entry)
    }

    /// Removes an entry, with all below. What is missing is removed already.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn remove(&self, path: &str, user: &str) -> Result<(), ClientError> {
        let request = filesystem::PathRequest { path: path.to_owned() };
        let _: process::Empty =
            self.unary(paths::filesystem::REMOVE, user, &request, REMOVAL).await?;
        Ok(())
    }

    /// Starts a program that is its caller's alone: dropping the stream ends it and all that it
    /// started, as its time limit does (with `deadline_exceeded`).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn start_owned(
        &self,
        request: &process::StartRequest,
        user: &str,
        timeout_ms: u64,
    ) -> Result<EventStream, ClientError> {
        let headers =
            [(paths::guest::OWNED, "1".to_owned()), ("connect-timeout-ms", timeout_ms.to_string())];
        self.stream(paths::process::START, user, request, &headers).await
    }

    /// Starts a program and follows it. Unlike [`Self::run`], dropping the stream leaves the
    /// program running.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn start(
        &self,
        request: &process::StartRequest,
        user: &str,
    ) -> Result<EventStream, ClientError> {
        self.stream(paths::process::START, user, request, &[]).await
    }

    /// Writes to a program's standard input or terminal.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn send_input(
        &self,
        pid: u32,
        input: process::ProcessInput,
    ) -> Result<(), ClientError> {
        let process = process::ProcessSelector::pid(pid);
        let request = process::SendInputRequest { process, input };
        // A program that does not read holds this call up; that is its right.
        let limits = CallLimits { deadline: RUN_FOREVER, ..CallLimits::default() };
        let _: process::Empty =
            self.unary(paths::process::SEND_INPUT, "", &request, limits).await?;
        Ok(())
    }

    /// Ends a program's standard input.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn close_stdin(&self, pid: u32) -> Result<(), ClientError> {
        let request = process::SelectRequest { process: process::ProcessSelector::pid(pid) };
        let _: process::Empty =
            self.unary(paths::process::CLOSE_STDIN, "", &request, CallLimits::default()).await?;
        Ok(())
    }

    /// Sends a signal (`SIGNAL_SIGINT`, …) to a program and its process group.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn send_signal(&self, pid: u32, signal: &str) -> Result<(), ClientError> {
        let process = process::ProcessSelector::pid(pid);
        let request = process::SendSignalRequest { process, signal: signal.to_owned() };
        let _: process::Empty =
            self.unary(paths::process::SEND_SIGNAL, "", &request, CallLimits::default()).await?;
        Ok(())
    }

    /// Changes the size of a program's terminal.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn resize(&self, pid: u32, size: process::PtySize) -> Result<(), ClientError> {
        let process = process::ProcessSelector::pid(pid);
        let request = process::UpdateRequest { process, pty: Some(process::Pty { size }) };
        let _: process::Empty =
            self.unary(paths::process::UPDATE, "", &request, CallLimits::default()).await?;
        Ok(())
    }
}

/// The head of a Connect request. The user travels as in envd: basic authentication, no password.
pub(super) fn post(path: &str, user: &str, content_type: &str) -> hyper::http::request::Builder {
    let mut builder = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, "guest")
        .header(header::CONTENT_TYPE, content_type)
        .header("connect-protocol-version", "1");
    if !user.is_empty() {
        let token = base64::engine::general_purpose::STANDARD.encode(format!("{user}:"));
        builder = builder.header(header::AUTHORIZATION, format!("Basic {token}"));
    }
    builder
}

/// Reads an error reply; a reply that is none becomes a protocol error.
pub(super) fn error_of(status: StatusCode, bytes: &[u8]) -> ClientError {
    match serde_json::from_slice::<connect::Error>(bytes) {
        Ok(error) => ClientError::Guest(error),
        Err(_not_json) => ClientError::Protocol(format!("HTTP status {status}")),
    }
}
