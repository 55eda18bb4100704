//! Finding out whether a guest that failed a call still answers, and ending the sandbox if not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::sandbox::Sandbox;
use crate::{EndReason, Engine, SandboxState};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// Looks, in the background and once at a time, whether the guest answers anything within the
/// patience that the settings give. A sandbox whose guest does not is lost: nobody can use it, and
/// it would hold its slot until its lease ends.
pub(crate) fn check_later(engine: &Engine, sandbox: &Arc<Sandbox>) {
    if sandbox.checking.swap(true, Ordering::SeqCst) {
        return;
    }
    let (engine, sandbox) = (engine.clone(), Arc::clone(sandbox));
    engine.inner.tasks.clone().spawn(async move {
        tokio::select! {
            answers = answers(&engine, &sandbox) => {
                sandbox.checking.store(false, Ordering::SeqCst);
                if !answers {
                    tracing::error!(id = %sandbox.id, "the guest does not answer any more");
                    // What it cannot remove the sweep removes.
                    let _ = engine.end_in_background(sandbox, EndReason::Lost).await;
                }
            }
            _ended = sandbox.ended() => {}
        }
    });
}

async fn answers(engine: &Engine, sandbox: &Sandbox) -> bool {
    let Ok(guest) = sandbox.guest() else { return true };
    let patience = engine.inner.settings.guest_patience;
    let mut until = Instant::now() + patience;
    loop {
        if sandbox.state() == SandboxState::Paused {
            // It is not meant to answer. The time until then does not count.
            sandbox.awake().await;
            until = Instant::now() + patience;
        }
        match guest.stat("/", "").await {
            Ok(_) => return true,
            Err(error) if !crate::guest_error::is_trouble(&error) => return true,
            // It cannot while its files are copied.
            Err(_) if sandbox.stands_still() => {
                until = Instant::now() + patience;
                sleep(PAUSE).await;
            }
            // What did not answer because it was paused meanwhile is asked again.
            Err(_) if sandbox.state() == SandboxState::Paused => {}
            Err(_) if Instant::now() >= until => return false,
            Err(_) => sleep(PAUSE).await,
        }
    }
}
