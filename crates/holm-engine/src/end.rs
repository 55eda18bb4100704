//! Ending a sandbox: the decision, then the removal.

use std::sync::Arc;
use std::time::Duration;

use holm_store::KeyScope;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::event::Happened;
use crate::faults::Moment;
use crate::sandbox::Sandbox;
use crate::{Destroyed, EndReason, Ended, Engine, Error, ErrorKind, SandboxId, SandboxState};

/// How long an expired sandbox waits for its commands to hand over what they had written. The
/// guest ends them at the same moment, so this is the time of one answer.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(500);
/// Longest wait for one removal; the sweep tries again after it.
pub(crate) const REMOVAL: Duration = Duration::from_secs(60);

/// The steps of an end, for [`crate::Faults`]: it is decided and recorded, everything is removed,
/// that is recorded.
const DECIDE: &str = "decide";
const REMOVE: &str = "remove";
const CLOSE: &str = "close";

/// Names of the steps of an end, in order, for tests that stop at each of them.
#[doc(hidden)]
#[must_use]
pub fn end_steps() -> Vec<&'static str> {
    vec![DECIDE, REMOVE, CLOSE]
}

impl Engine {
    /// Destroys a sandbox and returns when nothing of it is left. Idempotent: destroying one that
    /// is over, or being removed, succeeds and says so.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Unavailable`] when something could not be removed
    /// yet: it stays `deleting`, and holm goes on trying.
    pub async fn sandbox_destroy(&self, id: &SandboxId) -> Result<Destroyed, Error> {
        self.caller.needs(KeyScope::Sandboxes)?;
        let Some(sandbox) = self.own(id) else {
            let error = self.absent(id).await;
            return match error.ended {
                Some(ended) => Ok(Destroyed { id: *id, already: true, ended }),
                None => Err(error),
            };
        };
        let end = self.end_in_background(sandbox, EndReason::Destroyed);
        let result = end.await.unwrap_or_else(|panic| Err(Error::internal("destroy", &panic)));
        let already = result.as_ref().is_ok_and(|gone| gone.already);
        let detail = json!({"already": already});
        self.audit_result("sandbox.destroy", Some(id.to_string()), &result, detail);
        result
    }

    /// Ends `sandbox`; goes on when the caller stops waiting.
    pub(crate) fn end_in_background(
        &self,
        sandbox: Arc<Sandbox>,
        reason: EndReason,
    ) -> tokio::task::JoinHandle<Result<Destroyed, Error>> {
        let engine = self.clone();
        self.inner.tasks.spawn(async move {
            let first = engine.decide_end(&sandbox, reason).await?;
            let ended = engine.remove(&sandbox).await?;
            Ok(Destroyed { id: sandbox.id, already: !first, ended })
        })
    }

    /// Marks it as ending, unless it is already, or (for an expiry) its lease was extended in
    /// time. True when this call did it.
    pub(crate) async fn decide_end(
        &self,
        sandbox: &Arc<Sandbox>,
        reason: EndReason,
    ) -> Result<bool, Error> {
        let _decision = sandbox.decision.lock().await;
        let mut live = sandbox.live();
        if live.record.ended.is_some() {
            return Ok(false);
        }
        let mut ended = Ended { reason, at: live.at(Instant::now()) };
        if reason == EndReason::Expired {
            if live.deadline.is_none_or(|deadline| Instant::now() < deadline) {
                return Ok(false);
            }
            // Also where this comes late: nobody pays for, or may use, the time after the lease.
            ended.at = live.record.expires_at.map_or(ended.at, |end| end.min(ended.at));
        }
        live.record.state = SandboxState::Deleting;
        live.record.ended = Some(ended);
        let faults = &self.inner.settings.faults;
        faults.check(DECIDE, Moment::Before)?;
        live.record = self.record_save(live.record, &[Happened::Ended(reason)]).await?;
        faults.check(DECIDE, Moment::After)?;
        tracing::info!(id = %sandbox.id, %reason, "sandbox ends");
        if sandbox.is_priced() {
            self.judge_later(sandbox.account);
        }
        sandbox.set(live);
        Ok(true)
    }

    /// Removes a sandbox that is ending. One caller works, the others wait for it.
    pub(crate) async fn remove(&self, sandbox: &Arc<Sandbox>) -> Result<Ended, Error> {
        let _removal = sandbox.removal.lock().await;
        let ended = sandbox
            .ended_now()
            .ok_or_else(|| Error::internal("remove", &"the sandbox is not ending"))?;
        if sandbox.state().is_over() {
            return Ok(ended);
        }
        // Still being made: its create sees the end, undoes itself and says when it is done, or
        // that it could not.
        tokio::select! {
            biased;
            () = sandbox.handed_over() => {}
            () = sandbox.over() => return Ok(ended),
        }
        sandbox.link.close(&self.inner.counts.links);
        self.traffic_save(sandbox).await;
        if ended.reason == EndReason::Expired {
            let _ = timeout(LAST_WORDS, sandbox.quiet()).await;
        }
        let faults = &self.inner.settings.faults;
        faults.check(REMOVE, Moment::Before)?;
        let destroy = async {
            match sandbox.machine() {
                Some(machine) => machine.destroy().await,
                None => Ok(()),
            }
        };
        let failure = match timeout(REMOVAL, destroy).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.internal),
            Err(_elapsed) => Some(format!("no end within {REMOVAL:?}")),
        };
        if let Some(internal) = failure {
            tracing::error!(id = %sandbox.id, internal, "removal failed; the sweep tries again");
            return Err(not_removed(&sandbox.id, internal));
        }
        faults.check(REMOVE, Moment::After)?;
        let _decision = sandbox.decision.lock().await;
        let mut live = sandbox.live();
        live.record.state = ended.reason.final_state();
        faults.check(CLOSE, Moment::Before)?;
        live.record = self.record_save(live.record, &[]).await?;
        faults.check(CLOSE, Moment::After)?;
        // Out of the registry before anybody who waits is told, so that they see the history.
        self.inner.registry.remove(&sandbox.id);
        self.let_go(sandbox);
        sandbox.set(live);
        Ok(ended)
    }
}

fn not_removed(id: &SandboxId, internal: String) -> Error {
    let text = format!("sandbox {id} has ended but is not completely removed yet");
    Error::new(ErrorKind::Unavailable, text)
        .suggest(
            "holm goes on trying by itself; call destroy_sandbox again to see whether it is gone.",
        )
        .with_internal(internal)
}
