//! What the driver, its machines and the thread that reads the launcher's events share.
//!
//! A thread of its own, because the socket's kind is none that the async runtime knows, and because
//! the driver can then be started before a runtime is.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::Shutdown;
use tokio::sync::{oneshot, watch};

use super::line::{self, Ready};
use super::owned::{Exit, Owned};
use super::pending::{DoneAnswer, Pending, SocketsAnswer};
use super::{Child, clean_up_after};
use crate::channel::{Channel, encode};
use crate::driver::{DriverError, DriverErrorKind, ExitReason, GateSockets};
use crate::failure::Failure;
use crate::message::{Created, Event, Request};
use crate::options::Settings;

#[derive(Debug)]
pub(super) struct Shared {
    settings: Settings,
    /// From where the next launcher comes, where one may follow.
    keeper: Option<Channel>,
    next_seq: AtomicU64,
    state: Mutex<State>,
    gone: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    /// None between two launchers.
    channel: Option<Arc<Channel>>,
    pid: u32,
    instance: String,
    pending: Pending,
    owned: Owned,
    /// What ran before us and nobody has adopted yet.
    found: HashMap<String, Created>,
    /// No launcher any more, and none to come.
    gone: bool,
    /// We have hung up.
    leaving: bool,
}

impl Shared {
    /// Starts the thread.
    pub(super) fn start(
        ready: Ready,
        keeper: Option<Channel>,
        child: Child,
        settings: Settings,
    ) -> Result<Arc<Self>, DriverError> {
        let channel = Arc::new(ready.channel);
        let mut owned = Owned::default();
        for sandbox in &ready.found {
            owned.watch(sandbox, None);
        }
        let state = State {
            channel: Some(Arc::clone(&channel)),
            pid: ready.pid,
            instance: ready.facts.instance,
            pending: Pending::default(),
            owned,
            found: ready.found.into_iter().map(|found| (found.id.clone(), found)).collect(),
            gone: false,
            leaving: false,
        };
        let shared = Arc::new(Self {
            settings,
            keeper,
            next_seq: AtomicU64::new(1),
            state: Mutex::new(state),
            gone: watch::Sender::new(false),
        });
        if shared.keeper.is_some() && !shared.outlives_owner() {
            // The first one has found nothing; one that took its place before it was seen may have.
            shared.state().say_what_we_have(&channel);
        }
        let reader = shared.clone();
        std::thread::Builder::new()
            .name("holm-launcher".into())
            .spawn(move || reader.read(channel, &child))
            .map_err(|error| Failure::internal(format!("start a thread: {error}")))?;
        Ok(shared)
    }

    pub(super) fn instance(&self) -> String {
        self.state().instance.clone()
    }

    pub(super) fn launcher_pid(&self) -> u32 {
        self.state().pid
    }

    pub(super) fn launcher_gone(&self) -> DriverError {
        super::launcher_gone(&self.settings)
    }

    pub(super) fn outlives_owner(&self) -> bool {
        self.settings.lifetime.outlives_owner()
    }

    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq.fetch_add(1, Ordering::Relaxed)
    }

    /// Closes the socket for good, upon which the launcher ends everything, or lets it go.
    pub(super) fn hang_up(&self) {
        let mut state = self.state();
        state.leaving = true;
        for channel in [self.keeper.as_ref(), state.channel.as_deref()].into_iter().flatten() {
            let _ = rustix::net::shutdown(channel, Shutdown::Both);
        }
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
        let seq = self.next_seq();
        let (sender, receiver) = oneshot::channel();
        self.send(seq, &request(seq), |pending| drop(pending.others.insert(seq, sender)))?;
        Ok(receiver)
    }

    /// Asks for sockets that are made inside a sandbox.
    pub(super) async fn sockets(&self, request: impl FnOnce(u64) -> Request) -> SocketsAnswer {
        let seq = self.next_seq();
        let (sender, receiver) = oneshot::channel();
        self.send(seq, &request(seq), |pending| drop(pending.sockets.insert(seq, sender)))?;
        receiver.await.map_err(|_| self.launcher_gone())?
    }

    /// Has a sandbox removed, and waits until nothing of it is left.
    pub(super) async fn destroyed(&self, id: String) -> Result<(), DriverError> {
        let answer = match self.ask(|seq| Request::Destroy { seq: Some(seq), id }) {
            Ok(answer) => answer.await.ok(),
            Err(_) => None,
        };
        match answer {
            Some(result) => result,
            None if self.outlives_owner() => Err(self.launcher_gone()),
            // The launcher is gone, and what it left is removed by then.
            None => {
                self.gone().await;
                Ok(())
            }
        }
    }

    /// Sends a request that is answered; `enter` says to whom. Between two launchers it is kept for
    /// the next one.
    pub(super) fn send(
        &self,
        seq: u64,
        request: &Request,
        enter: impl FnOnce(&mut Pending),
    ) -> Result<(), DriverError> {
        let bytes = encode(request).map_err(|_| {
            Failure::of(DriverErrorKind::Internal, "The request for a sandbox is too long.")
        })?;
        let mut state = self.state();
        if state.gone || state.leaving {
            return Err(self.launcher_gone());
        }
        let sent = state.channel.as_ref().map_or(Err(Errno::PIPE), |to| to.send_encoded(&bytes));
        if self.keeper.is_some() {
            // Whoever is next gets it again.
            state.pending.sent.insert(seq, bytes);
        } else if sent.is_err() {
            return Err(self.launcher_gone());
        }
        enter(&mut state.pending);
        Ok(())
    }

    /// Sends a request that nobody waits for.
    pub(super) fn notify(&self, request: &Request) {
        // A launcher that is gone needs no requests.
        if let Some(channel) = &self.state().channel {
            let _ = channel.send(request, &[]);
        }
    }

    pub(super) fn give_up_create(&self, seq: u64) {
        self.state().pending.give_up_create(seq);
        self.notify(&Request::Cancel { seq });
    }

    /// Listens for the end of a sandbox.
    pub(super) fn watch_exit(&self, sandbox: &Created) -> Exit {
        self.state().watch_exit(sandbox)
    }

    /// Says that a sandbox was destroyed, unless it had ended before.
    pub(super) fn note_destroyed(&self, id: &str) {
        let mut state = self.state();
        state.owned.note_exit(id, ExitReason::Destroyed);
        state.owned.forget(id);
    }

    pub(super) fn left_over(&self) -> Vec<String> {
        self.state().found.keys().cloned().collect()
    }

    pub(super) fn adopt(&self, id: &str) -> Option<Created> {
        self.state().found.remove(id)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, mut channel: Arc<Channel>, child: &Child) {
        loop {
            self.read_events(&channel);
            let Some(keeper) = &self.keeper else { break };
            self.state().channel = None;
            match line::kept(keeper) {
                Ok(ready) => {
                    tracing::warn!(pid = ready.pid, "the launcher died; there is a new one");
                    channel = self.take_up(ready);
                }
                Err(failure) => {
                    if !self.state().leaving {
                        tracing::error!(reason = %failure.internal, "no launcher any more");
                    }
                    break;
                }
            }
        }
        self.hang_up();
        // It ends by itself once everything is removed.
        child.wait();
        self.fail_all();
        clean_up_after(&self.settings);
        self.gone.send_replace(true);
    }

    fn read_events(&self, channel: &Channel) {
        loop {
            match channel.receive_as_far_as_there_is_room::<Event>() {
                Ok(Some((event, fds))) => self.take(event, fds),
                Ok(None) => return,
                Err(errno) => {
                    tracing::error!(%errno, "lost the launcher");
                    return;
                }
            }
        }
    }

    /// Goes on with another launcher.
    fn take_up(&self, ready: Ready) -> Arc<Channel> {
        let Ready { channel, pid, facts, found, ended } = ready;
        ended.into_iter().for_each(|event| self.take(event, Vec::new()));
        let channel = Arc::new(channel);
        let mut state = self.state();
        if state.leaving {
            // It lets go as soon as it sees that.
            let _ = rustix::net::shutdown(&*channel, Shutdown::Both);
            return channel;
        }
        (state.pid, state.instance) = (pid, facts.instance);
        if self.outlives_owner() {
            state.compare(found, &channel);
        } else {
            state.say_what_we_have(&channel);
        }
        for bytes in state.pending.sent.values() {
            // A launcher that is gone again is followed by another.
            let _ = channel.send_encoded(bytes);
        }
        state.channel = Some(Arc::clone(&channel));
        channel
    }

    fn take(&self, event: Event, fds: Vec<OwnedFd>) {
        let mut state = self.state();
        match event {
            Event::Created { seq, sandbox } => {
                // Before anybody can ask, so that an exit straight after it is not missed.
                drop(state.watch_exit(&sandbox));
                let id = sandbox.id.clone();
                let sockets = GateSockets::of(&sandbox.gate, fds);
                if !state.pending.answer_create(seq, Ok((sandbox, sockets))) {
                    state.owned.forget(&id);
                }
            }
            Event::Failed { seq, failure } => {
                state.pending.answer_create(seq, Err(failure.into()));
            }
            Event::Sockets { seq, failure } => {
                let answer = failure.map_or(Ok(fds), |failure| Err(failure.into()));
                state.pending.answer_sockets(seq, answer);
            }
            Event::Exited { id, out_of_memory } => {
                let reason = if out_of_memory { ExitReason::OutOfMemory } else { ExitReason::Died };
                state.owned.note_exit(&id, reason);
            }
            Event::Done { seq, failure } => {
                let answer = failure.map_or(Ok(()), |failure| Err(failure.into()));
                state.pending.answer_other(seq, answer);
            }
            // Only ever the first messages.
            Event::Ready(_)
            | Event::Launcher { .. }
            | Event::Found(_)
            | Event::FoundAll
            | Event::Unusable(_)
            | Event::Tried(_) => {}
        }
    }

    fn fail_all(&self) {
        let mut state = self.state();
        state.gone = true;
        state.channel = None;
        for (_, (_, sender)) in state.pending.creates.drain() {
            let _ = sender.send(Err(self.launcher_gone()));
        }
        // What was to be destroyed is gone too, once the clean-up is done; see `LinuxMachine`.
        state.pending.others.clear();
        state.pending.sockets.clear();
        if self.outlives_owner() {
            // They go on.
            return;
        }
        state.owned.end_all();
    }
}

impl State {
    fn watch_exit(&mut self, sandbox: &Created) -> Exit {
        self.owned.watch(sandbox, self.gone.then_some(ExitReason::Died))
    }

    /// Holds what another launcher has found against what somebody has or waits for.
    fn compare(&mut self, found: Vec<Created>, channel: &Channel) {
        self.owned.note_alive(&found);
        for sandbox in found {
            if self.owned.has(&sandbox.id) {
                continue;
            }
            let id = sandbox.id.clone();
            let waiting = self.pending.create_of(&id);
            drop(self.watch_exit(&sandbox));
            if !waiting.is_some_and(|seq| self.pending.answer_create(seq, Ok((sandbox, None)))) {
                self.owned.forget(&id);
                let _ = channel.send(&Request::Destroy { seq: None, id }, &[]);
            }
        }
    }

    /// For a launcher that cannot know whose is what it has found.
    fn say_what_we_have(&self, channel: &Channel) {
        for (id, socket) in self.owned.all() {
            let have = Request::Have { id: id.to_owned(), socket: socket.to_owned() };
            let _ = channel.send(&have, &[]);
        }
        let _ = channel.send(&Request::HaveAll, &[]);
    }
}
