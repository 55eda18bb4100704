//! Pausing a sandbox, and letting it go on.
//!
//! Nothing that is recorded as paused ever runs: a pause is recorded when everything stands still, and
//! its end before anything goes on. So whoever finds a record after a crash makes the sandbox what it
//! says (`adopt.rs`), and each second is paid at the price of what was recorded for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holm_runtime::Pausing;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use crate::driver_error::from_driver;
use crate::event::Happened;
use crate::faults::Moment;
use crate::sandbox::{Live, Sandbox};
use crate::uses::paused;
use crate::{Engine, Error, ErrorKind, SandboxId, SandboxState, SandboxView};

/// The steps of a pause, for [`crate::Faults`]: everything stands still, that is recorded.
const FREEZE: &str = "freeze";
const RECORD_PAUSE: &str = "record_pause";
/// And of its end.
const RECORD_RESUME: &str = "record_resume";
const THAW: &str = "thaw";

/// Names of the steps of a pause and of its end, in order, for tests that stop at each of them.
#[doc(hidden)]
#[must_use]
pub fn pause_steps() -> Vec<&'static str> {
    vec![FREEZE, RECORD_PAUSE, RECORD_RESUME, THAW]
}

impl Engine {
    /// Stops everything in a sandbox and keeps it as it is: processes, memory, files, connections.
    /// Commands under way go on when it does. Its lease goes on. Idempotent.
    ///
    /// # Errors
    /// `unsupported` where this host cannot do that; `not_found`, `sandbox_gone`; `unavailable` when
    /// something in it does not stop now. After an error it runs.
    pub async fn sandbox_pause(&self, id: &SandboxId) -> Result<SandboxView, Error> {
        let result = self.pause(id).await;
        // What is not there is nobody's doing, and could be asked for without end.
        if !result.as_ref().is_err_and(|error| error.kind == ErrorKind::NotFound) {
            self.audit_result("sandbox.pause", Some(id.to_string()), &result, json!({}));
        }
        result
    }

    async fn pause(&self, id: &SandboxId) -> Result<SandboxView, Error> {
        self.refuse_when_closing()?;
        let sandbox = self.usable(id).await?;
        let (engine, paused) = (self.clone(), Arc::clone(&sandbox));
        // Goes on when the caller stops waiting: nothing is left half done.
        let pause = self.inner.tasks.spawn(async move { engine.pause_now(&paused, None).await });
        pause.await.unwrap_or_else(|panic| Err(Error::internal("pause", &panic)))?;
        Ok(sandbox.view())
    }

    /// Lets a paused sandbox go on where it stood. Idempotent.
    ///
    /// # Errors
    /// `not_found`, `sandbox_gone`, `unavailable`.
    pub async fn sandbox_resume(&self, id: &SandboxId) -> Result<SandboxView, Error> {
        let result = self.resume(id).await;
        if !result.as_ref().is_err_and(|error| error.kind == ErrorKind::NotFound) {
            self.audit_result("sandbox.resume", Some(id.to_string()), &result, json!({}));
        }
        result
    }

    async fn resume(&self, id: &SandboxId) -> Result<SandboxView, Error> {
        let sandbox = self.usable(id).await?;
        self.resume_in_background(&sandbox, false).await?;
        Ok(sandbox.view())
    }

    /// Goes on when the caller stops waiting. True when it was paused. `by_use`: only if it goes on
    /// by that.
    pub(crate) async fn resume_in_background(
        &self,
        sandbox: &Arc<Sandbox>,
        by_use: bool,
    ) -> Result<bool, Error> {
        let (engine, sandbox) = (self.clone(), Arc::clone(sandbox));
        let tasks = self.inner.tasks.clone();
        let resume = tasks.spawn(async move { engine.resume_now(&sandbox, by_use).await });
        resume.await.unwrap_or_else(|panic| Err(Error::internal("resume", &panic)))
    }

    /// Whether sandboxes can be paused on this host.
    #[must_use]
    pub fn pausing(&self) -> Pausing {
        self.inner.driver.pausing()
    }

    /// Pauses it, with `unused_since` only if nobody has used it since then. False when that did
    /// nothing. To be run to its end.
    pub(crate) async fn pause_now(
        &self,
        sandbox: &Arc<Sandbox>,
        unused_since: Option<Instant>,
    ) -> Result<bool, Error> {
        let _decision = sandbox.decision.lock().await;
        let mut live = sandbox.live();
        match of_use(sandbox, &live)? {
            SandboxState::Running => {}
            _ => return Ok(false),
        }
        if sandbox.stands_still() {
            return unused_since.map_or_else(|| Err(copied(&sandbox.id)), |_| Ok(false));
        }
        let machine = sandbox.machine().ok_or_else(|| sandbox.not_ready())?;
        let Some(_turning) = sandbox.uses.turn(unused_since) else { return Ok(false) };
        let faults = &self.inner.settings.faults;
        faults.check(FREEZE, Moment::Before)?;
        machine.freeze().await.map_err(from_driver)?;
        let before = live.clone();
        turn(&mut live, SandboxState::Paused);
        let record = live.record.clone();
        let recorded = async {
            faults.check(FREEZE, Moment::After)?;
            faults.check(RECORD_PAUSE, Moment::Before)?;
            let saved = self.record_save(record, &[Happened::Paused]).await?;
            faults.check(RECORD_PAUSE, Moment::After)?;
            Ok(saved)
        };
        match recorded.await {
            Ok(record) => live.record = record,
            Err(error) => {
                // Either may be recorded by now; the sweep sees to it that what is true is.
                sandbox.unrecorded.store(true, Ordering::SeqCst);
                if let Err(error) = machine.thaw().await {
                    tracing::error!(id = %sandbox.id, internal = error.internal, "stands still");
                }
                sandbox.set(before);
                return Err(error);
            }
        }
        tracing::info!(id = %sandbox.id, by_itself = unused_since.is_some(), "sandbox is paused");
        sandbox.set(live);
        Ok(true)
    }

    async fn resume_now(&self, sandbox: &Arc<Sandbox>, by_use: bool) -> Result<bool, Error> {
        let _decision = sandbox.decision.lock().await;
        let mut live = sandbox.live();
        match of_use(sandbox, &live)? {
            SandboxState::Paused => {}
            _ => return Ok(false),
        }
        if by_use && !live.record.pause.auto_resume {
            return Err(paused(&sandbox.id));
        }
        if sandbox.stands_still() {
            return Err(copied(&sandbox.id));
        }
        let machine = sandbox.machine().ok_or_else(|| sandbox.not_ready())?;
        turn(&mut live, SandboxState::Running);
        let faults = &self.inner.settings.faults;
        let record = live.record.clone();
        let gone_on = async {
            faults.check(RECORD_RESUME, Moment::Before)?;
            let saved = self.record_save(record, &[Happened::Resumed]).await?;
            faults.check(RECORD_RESUME, Moment::After)?;
            faults.check(THAW, Moment::Before)?;
            machine.thaw().await.map_err(from_driver)?;
            faults.check(THAW, Moment::After)?;
            Ok(saved)
        };
        match gone_on.await {
            Ok(record) => live.record = record,
            Err(error) => {
                // It stands still, or does so again, whatever is recorded by now.
                sandbox.unrecorded.store(true, Ordering::SeqCst);
                if let Err(error) = machine.freeze().await {
                    tracing::error!(id = %sandbox.id, internal = error.internal, "it goes on");
                    Self::go_on_again(sandbox);
                }
                return Err(error);
            }
        }
        tracing::info!(id = %sandbox.id, by_use, "sandbox goes on");
        sandbox.uses.note();
        sandbox.set(live);
        Ok(true)
    }

    /// One that is recorded as paused and does not stand still: the sweep records that it runs.
    pub(crate) fn go_on_again(sandbox: &Sandbox) {
        let mut live = sandbox.live();
        turn(&mut live, SandboxState::Running);
        sandbox.set(live);
        sandbox.unrecorded.store(true, Ordering::SeqCst);
    }

    /// After a pause, or an end of one, of which it is not known whether it is recorded: records what
    /// is the case.
    pub(crate) async fn record_again(&self, sandbox: &Arc<Sandbox>) -> Result<(), Error> {
        let _decision = sandbox.decision.lock().await;
        let mut live = sandbox.live();
        if live.record.state.is_live() {
            live.record = self.record_save(live.record, &[]).await?;
            sandbox.set(live);
        }
        sandbox.unrecorded.store(false, Ordering::SeqCst);
        Ok(())
    }
}

/// The state of one that is not over and whose lease has not ended.
fn of_use(sandbox: &Sandbox, live: &Live) -> Result<SandboxState, Error> {
    match (live.record.state, live.record.ended) {
        (_, Some(ended)) => Err(Error::gone(&sandbox.id, ended)),
        (state, None) if state.is_live() => Ok(state),
        _ => Err(sandbox.not_ready()),
    }
}

/// Whoever copies its files lets it go on or stand still as it was before.
fn copied(id: &SandboxId) -> Error {
    let text = format!("the files of sandbox {id} are being copied");
    Error::new(ErrorKind::Unavailable, text).suggest("Try again when the copy is done.")
}

/// Now it is that.
fn turn(live: &mut Live, state: SandboxState) {
    live.record.state = state;
    let now: Timestamp = live.at(Instant::now());
    // Never before the last time, also where that was another process's.
    live.record.pause.turned_at = live.record.pause.turned_at.max(Some(now));
}
