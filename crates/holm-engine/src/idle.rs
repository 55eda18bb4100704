//! Pausing what nobody uses, where its creator asked for that.
//!
//! It is in use while a call on it, or a visitor's request, is under way, and for the time after that
//! its creator named; so it is while bytes go through its gate. Commands in the background are no use:
//! they are what is paused.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::sleep;

use crate::engine::Inner;
use crate::sandbox::Sandbox;
use crate::{Engine, Error, ErrorKind, SandboxState};

/// The shortest time after which one may be paused by itself.
pub(crate) const SHORTEST: Duration = Duration::from_secs(1);

/// How many times in that time one looks.
const LOOKS: u32 = 4;

impl Engine {
    /// Judges a wish to have a sandbox paused by itself.
    pub(crate) fn check_auto_pause(&self, after: Option<Duration>) -> Result<(), Error> {
        let Some(after) = after else { return Ok(()) };
        let longest = self.inner.settings.lifetime.max;
        if after < SHORTEST || after > longest {
            let (shortest, longest) = (SHORTEST.as_secs(), longest.as_secs());
            let text = format!("auto_pause_seconds must be from {shortest} to {longest}");
            return Err(Error::invalid(text).suggest("Leave it out to have no pauses."));
        }
        let found = self.inner.driver.pausing();
        if found.possible {
            return Ok(());
        }
        let text = format!("this host cannot pause sandboxes: {}", found.by);
        let error = Error::new(ErrorKind::Unsupported, text);
        Err(match found.mend {
            Some(mend) => error.suggest(format!("Leave out auto_pause_seconds. {mend}")),
            None => error.suggest("Leave out auto_pause_seconds."),
        })
    }

    /// Looks after one that is to be paused by itself.
    pub(crate) fn pause_when_idle(&self, sandbox: &Arc<Sandbox>) {
        if let Some(after) = sandbox.live().record.pause.after {
            sandbox.uses.note();
            tokio::spawn(look_after(Arc::downgrade(&self.inner), Arc::downgrade(sandbox), after));
        }
    }
}

async fn look_after(engine: Weak<Inner>, sandbox: Weak<Sandbox>, after: Duration) {
    let mut traffic = sandbox.upgrade().map(|sandbox| sandbox.link.traffic());
    loop {
        sleep(after / LOOKS).await;
        let Some((inner, sandbox)) = engine.upgrade().zip(sandbox.upgrade()) else { return };
        if sandbox.ended_now().is_some() {
            return;
        }
        if sandbox.state() != SandboxState::Running {
            continue;
        }
        let now = Some(sandbox.link.traffic());
        if traffic != now {
            traffic = now;
            sandbox.uses.note();
        }
        let Some(since) = sandbox.uses.idle_since().filter(|since| since.elapsed() >= after) else {
            continue;
        };
        let engine = Engine::of_operator(inner);
        if engine.refuse_when_closing().is_err() {
            return;
        }
        let tasks = engine.inner.tasks.clone();
        let pause = tasks.spawn(async move { engine.pause_now(&sandbox, Some(since)).await });
        match pause.await {
            Ok(Err(error)) => {
                tracing::warn!(%error, internal = error.internal, "not paused; tried again later");
            }
            Ok(Ok(_)) => {}
            Err(panic) => tracing::error!(%panic, "a pause"),
        }
    }
}
