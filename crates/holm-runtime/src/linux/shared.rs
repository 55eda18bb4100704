//! What the driver, its machines and the thread that reads the launcher's events share.
//!
//! A thread of its own, because the socket's kind is none that the async runtime knows, and because
//! the driver can then be started before a runtime is.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::Shutdown;
use tokio::sync::{oneshot, watch};

use super::{Child, clean_up_after, launcher_gone};
use crate::channel::Channel;
use crate::driver::{DriverError, ExitReason, SandboxSpec};
use crate::message::{Created, Event, Request};
use crate::options::Settings;

type CreateAnswer = Result<Created, DriverError>;
type DoneAnswer = Result<(), DriverError>;

/// How a sandbox ended, once it has.
pub(super) type Exit = watch::Receiver<Option<ExitReason>>;

#[derive(Debug)]
pub(super) struct Shared {
    channel: Channel,
    instance: String,
    launcher_pid: u32,
    next_seq: AtomicU64,
    state: Mutex<State>,
    gone: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    creates: HashMap<u64, oneshot::Sender<CreateAnswer>>,
    others: HashMap<u64, oneshot::Sender<DoneAnswer>>,
    exits: HashMap<String, watch::Sender<Option<ExitReason>>>,
    gone: bool,
}

impl Shared {
    /// Starts the thread.
    pub(super) fn start(
        channel: Channel,
        child: Child,
        settings: Settings,
        instance: &str,
    ) -> Result<Arc<Self>, DriverError> {
        let shared = Arc::new(Self {
            channel,
            instance: instance.to_owned(),
            launcher_pid: child.id(),
            next_seq: AtomicU64::new(1),
            state: Mutex::default(),
            gone: watch::Sender::new(false),
        });
        let reader = shared.clone();
        std::thread::Builder::new()
            .name("holm-launcher".into())
            .spawn(move || reader.read(child, &settings))
            .map_err(|error| {
                crate::failure::Failure::internal(format!("start a thread: {error}"))
            })?;
        Ok(shared)
    }

    pub(super) fn instance(&self) -> &str {
        &self.instance
    }

    pub(super) fn launcher_pid(&self) -> u32 {
        self.launcher_pid
    }

    /// Closes the socket for good, upon which the launcher ends everything.
    pub(super) fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.channel, Shutdown::Both);
    }

    /// Resolves when the launcher is gone and nothing of it is left.
    pub(super) async fn gone(&self) {
        let mut gone = self.gone.subscribe();
        // The sender lives as long as we do.
        let _ = gone.wait_for(|gone| *gone).await;
    }

    /// Sends a request that is answered with `Done`.
    pub(super) fn ask(
        &self,
        request: impl FnOnce(u64) -> Request,
    ) -> Result<oneshot::Receiver<DoneAnswer>, DriverError> {
        let seq = self.next_seq.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        if state.gone {
            return Err(launcher_gone());
        }
        state.others.insert(seq, sender);
        drop(state);
        self.send(&request(seq))?;
        Ok(receiver)
    }

    /// Sends a request that nobody waits for.
    pub(super) fn notify(&self, request: &Request) {
        // A launcher that is gone needs no requests.
        let _ = self.send(request);
    }

    fn send(&self, request: &Request) -> Result<(), DriverError> {
        self.channel.send(request, &[]).map_err(|errno| match errno {
            rustix::io::Errno::MSGSIZE => crate::failure::Failure::of(
                crate::driver::DriverErrorKind::Internal,
                "The request for a sandbox is too long.",
            )
            .into(),
            _ => launcher_gone(),
        })
    }

    /// Listens for the end of a sandbox.
    pub(super) fn watch_exit(&self, id: &str) -> Exit {
        let mut state = self.state();
        let gone = state.gone;
        let entry = state.exits.entry(id.to_owned());
        let sender = entry.or_insert_with(|| watch::Sender::new(gone.then_some(ExitReason::Died)));
        sender.subscribe()
    }

    /// Says that a sandbox was destroyed, unless it had ended before.
    pub(super) fn note_destroyed(&self, id: &str) {
        if let Some(sender) = self.state().exits.remove(id) {
            set_exit(&sender, ExitReason::Destroyed);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, child: Child, settings: &Settings) {
        loop {
            match self.channel.receive::<Event>() {
                Ok(Some((event, _))) => self.take(event),
                Ok(None) => break,
                Err(errno) => {
                    tracing::error!(%errno, "lost the launcher");
                    break;
                }
            }
        }
        self.hang_up();
        // It ends by itself once everything is removed.
        child.wait();
        self.fail_all();
        clean_up_after(settings);
        self.gone.send_replace(true);
    }

    fn take(&self, event: Event) {
        match event {
            Event::Created { seq, sandbox } => {
                // Before anybody can ask, so that an exit straight after it is not missed.
                drop(self.watch_exit(&sandbox.id));
                let id = sandbox.id.clone();
                if !self.answer_create(seq, Ok(sandbox)) {
                    self.state().exits.remove(&id);
                }
            }
            Event::Failed { seq, failure } => {
                self.answer_create(seq, Err(failure.into()));
            }
            Event::Exited { id, out_of_memory } => {
                let reason = if out_of_memory { ExitReason::OutOfMemory } else { ExitReason::Died };
                if let Some(sender) = self.state().exits.get(&id) {
                    set_exit(sender, reason);
                }
            }
            Event::Done { seq, failure } => {
                let sender = self.state().others.remove(&seq);
                if let Some(sender) = sender {
                    let _ = sender.send(failure.map_or(Ok(()), |failure| Err(failure.into())));
                }
            }
            // Only ever the first message.
            Event::Ready(_) | Event::Unusable(_) | Event::Tried(_) => {}
        }
    }

    /// False when the caller has gone; its guard has asked for the end of the sandbox.
    fn answer_create(&self, seq: u64, answer: CreateAnswer) -> bool {
        let sender = self.state().creates.remove(&seq);
        sender.is_some_and(|sender| sender.send(answer).is_ok())
    }

    fn fail_all(&self) {
        let mut state = self.state();
        state.gone = true;
        for (_, sender) in state.creates.drain() {
            let _ = sender.send(Err(launcher_gone()));
        }
        // What was to be destroyed is gone too, once the clean-up is done; see `LinuxMachine`.
        state.others.clear();
        for (_, sender) in state.exits.drain() {
            set_exit(&sender, ExitReason::Died);
        }
    }
}

fn set_exit(sender: &watch::Sender<Option<ExitReason>>, reason: ExitReason) {
    sender.send_if_modified(|exit| {
        let first = exit.is_none();
        if first {
            *exit = Some(reason);
        }
        first
    });
}

/// A create under way. Dropped before it is complete, it has the sandbox removed.
pub(super) struct PendingCreate {
    shared: Arc<Shared>,
    seq: Option<u64>,
}

impl PendingCreate {
    /// Sends the request.
    pub(super) fn send(
        shared: &Arc<Shared>,
        spec: SandboxSpec,
    ) -> Result<(Self, oneshot::Receiver<CreateAnswer>), DriverError> {
        let seq = shared.next_seq.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        let mut state = shared.state();
        if state.gone {
            return Err(launcher_gone());
        }
        state.creates.insert(seq, sender);
        drop(state);
        let pending = Self { shared: shared.clone(), seq: Some(seq) };
        shared.send(&Request::Create { seq, spec: Box::new(spec) })?;
        Ok((pending, receiver))
    }

    /// The create was answered: the sandbox has an owner now, or never was.
    pub(super) fn complete(mut self) {
        self.seq = None;
    }
}

impl Drop for PendingCreate {
    fn drop(&mut self) {
        if let Some(seq) = self.seq.take() {
            self.shared.state().creates.remove(&seq);
            self.shared.notify(&Request::Cancel { seq });
        }
    }
}
