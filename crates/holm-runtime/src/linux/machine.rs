//! One running sandbox, as its owner holds it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::owned::Exit;
use super::shared::Shared;
use crate::cgroup::Control;
use crate::driver::{
    BoxFuture, DriverError, DriverErrorKind, ExitReason, GateSockets, Machine, PortSockets, Usage,
};
use crate::failure::Failure;
use crate::message::{Created, Request};
use crate::pack::LayerStream;

/// How long the processes of a sandbox may take to stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// Dropping it without [`Machine::destroy`] ends the sandbox too, without waiting: nobody could
/// reach it any more. One that outlives its driver goes on.
#[derive(Debug)]
pub(super) struct LinuxMachine {
    shared: Arc<Shared>,
    created: Created,
    exit: Exit,
    /// Those that came with it, until somebody asks for them.
    gate: Mutex<Option<GateSockets>>,
    destroyed: AtomicBool,
}

impl LinuxMachine {
    pub(super) fn new(shared: Arc<Shared>, created: Created, gate: Option<GateSockets>) -> Self {
        let exit = shared.watch_exit(&created);
        let gate = Mutex::new(gate);
        Self { shared, created, exit, gate, destroyed: AtomicBool::new(false) }
    }
}

impl Machine for LinuxMachine {
    fn guest_socket(&self) -> &Path {
        &self.created.socket
    }

    fn init_pid(&self) -> u32 {
        self.created.pid
    }

    fn exited(&self) -> BoxFuture<'_, ExitReason> {
        let mut exit = self.exit.clone();
        Box::pin(async move {
            // The sender is only dropped after it was set, so an error means the same.
            let _ = exit.wait_for(Option::is_some).await;
            exit.borrow().unwrap_or(ExitReason::Died)
        })
    }

    fn usage(&self) -> Usage {
        self.created.cgroup.as_ref().map(Control::usage).unwrap_or_default()
    }

    fn oom_kills(&self) -> Option<u64> {
        self.created.cgroup.as_ref().and_then(Control::oom_kills)
    }

    fn gate_sockets(&self) -> BoxFuture<'_, Result<Option<GateSockets>, DriverError>> {
        Box::pin(async move {
            if self.created.gate.families() == 0 {
                return Ok(None);
            }
            let first = self.gate.lock().unwrap_or_else(PoisonError::into_inner).take();
            if first.is_some() {
                return Ok(first);
            }
            let id = self.created.id.clone();
            let fds = self.shared.sockets(|seq| Request::Gate { seq, id }).await?;
            let sockets = GateSockets::halves(fds);
            Ok(Some(sockets.ok_or_else(|| Failure::internal("a gate without sockets"))?))
        })
    }

    fn port_sockets(&self) -> BoxFuture<'_, Result<Option<PortSockets>, DriverError>> {
        Box::pin(async move {
            let id = self.created.id.clone();
            let fds = self.shared.sockets(|seq| Request::Ports { seq, id }).await?;
            if fds.is_empty() {
                return Err(Failure::internal("no sockets for ports have come").into());
            }
            Ok(Some(PortSockets::by_family(fds)))
        })
    }

    fn pack(&self) -> BoxFuture<'_, Result<LayerStream, DriverError>> {
        Box::pin(async move {
            let id = self.created.id.clone();
            let fds = self.shared.sockets(|seq| Request::Pack { seq, id }).await?;
            let stream = LayerStream::of(fds);
            Ok(stream.ok_or_else(|| Failure::internal("no pipe for an archive has come"))?)
        })
    }

    fn freeze(&self) -> BoxFuture<'_, Result<(), DriverError>> {
        Box::pin(async move {
            let group = self.created.cgroup.clone().ok_or_else(|| cannot_freeze("no cgroup"))?;
            let freezing = {
                let group = group.clone();
                tokio::task::spawn_blocking(move || group.freeze_whole(PATIENCE))
            };
            let frozen = freezing.await.map_err(|lost| Failure::internal(lost.to_string()))?;
            frozen.map_err(|error| not_frozen(&error))?;
            // Nobody waits for it; a sandbox that goes on meanwhile has a little less in its cache.
            drop(tokio::task::spawn_blocking(move || group.give_back()));
            Ok(())
        })
    }

    fn thaw(&self) -> BoxFuture<'_, Result<(), DriverError>> {
        Box::pin(async move {
            let thawed = self.created.cgroup.as_ref().map_or(Ok(()), |group| group.freeze(false));
            match thawed {
                Err(error) if error.kind() != std::io::ErrorKind::Unsupported => {
                    let text = "The sandbox's processes could not be let go on.";
                    let kind = DriverErrorKind::Internal;
                    Err(Failure::of(kind, text).because(error).into())
                }
                _ => Ok(()),
            }
        })
    }

    fn destroy(&self) -> BoxFuture<'_, Result<(), DriverError>> {
        Box::pin(async move {
            self.shared.destroyed(self.created.id.clone()).await?;
            self.destroyed.store(true, Ordering::Release);
            self.shared.note_destroyed(&self.created.id);
            Ok(())
        })
    }
}

fn cannot_freeze(why: &str) -> Failure {
    let text = "This host cannot pause sandboxes: they have no cgroup freezer. `holm doctor` says how \
                to mend it.";
    Failure::of(DriverErrorKind::Unsupported, text).because(why)
}

fn not_frozen(error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::Unsupported => cannot_freeze("no freezer"),
        std::io::ErrorKind::TimedOut => {
            let text = "The sandbox's processes do not stop: one of them waits for its disk. It was \
                        not paused; try again.";
            Failure::of(DriverErrorKind::InUse, text)
        }
        _ => {
            let text = "The sandbox could not be paused; the log has the reason.";
            Failure::of(DriverErrorKind::Internal, text).because(error)
        }
    }
}

impl Drop for LinuxMachine {
    fn drop(&mut self) {
        if !self.destroyed.load(Ordering::Acquire) && !self.shared.outlives_owner() {
            self.shared.notify(&Request::Destroy { seq: None, id: self.created.id.clone() });
            self.shared.note_destroyed(&self.created.id);
        }
    }
}
