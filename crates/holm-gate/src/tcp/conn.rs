//! One connection: where it goes, by what it was permitted, and how it is ended from outside.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::denial::Protocol;
use crate::policy::{HostName, Question, Refusal, Verdict};
use crate::state::State;

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    /// The sandbox's end.
    pub(crate) near: TcpStream,
    /// Where it goes.
    pub(crate) target: SocketAddr,
    /// Whether the kernel may give it large buffers.
    pub(crate) wide: bool,
    /// By what it was permitted; nothing while it was not.
    grounds: Mutex<Option<Grounds>>,
    ended: AtomicBool,
    end: Notify,
}

#[derive(Debug)]
struct Grounds {
    /// The names of the address at that time. A later end of their time does not end a connection.
    names: Vec<HostName>,
    claim: Option<HostName>,
}

impl Conn {
    pub(super) fn new(near: TcpStream, target: SocketAddr, wide: bool) -> Self {
        let (ended, end) = (AtomicBool::new(false), Notify::new());
        Self { near, target, wide, grounds: Mutex::new(None), ended, end }
    }

    /// Asks the policies of this moment. Under the same lock as [`Conn::judge_again`], so that no
    /// change of policy comes between question and answer.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn judge(
        &self,
        state: &State,
        claim: Option<&HostName>,
    ) -> Result<Verdict, Refusal> {
        let mut grounds = self.grounds.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names = state.names.of(self.target.ip());
        if let Some(former) = grounds.take() {
            let is_new = |name: &HostName| !names.contains(name);
            let added: Vec<_> = former.names.into_iter().filter(is_new).collect();
            names.extend(added);
        }
        let verdict = self.ask(state, &names, claim);
        *grounds = Some(Grounds { names, claim: claim.cloned() });
        verdict
    }

    /// Asks whether what was permitted still is.
    pub(super) fn judge_again(&self, state: &State) -> Result<(), Refusal> {
        let grounds = self.grounds.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(grounds) = &*grounds else { return Ok(()) };
        match self.ask(state, &grounds.names, grounds.claim.as_ref()) {
            // Its client has not said yet whom it wants; it is judged when it does.
            Err(refusal) if refusal.wants_claim => Ok(()),
            other => other.map(drop),
        }
    }

    fn ask(
        &self,
        state: &State,
        names: &[HostName],
        claim: Option<&HostName>,
    ) -> Result<Verdict, Refusal> {
        let (address, port) = (self.target.ip(), self.target.port());
        state.policies().judge(&Question { address, port, names, claim })
    }

    /// Counts and notes that this was refused. False where it came too fast to be noted.
    pub(crate) fn refuse(&self, state: &State, rule: &str) -> bool {
        if !state.refused() {
            return false;
        }
        let name = {
            let grounds = self.grounds.lock().unwrap_or_else(PoisonError::into_inner);
            let known = grounds.as_ref().map(|known| (known.claim.clone(), known.names.first()));
            known.and_then(|(claim, first)| claim.or_else(|| first.cloned()))
        };
        let name = name.or_else(|| state.names.of(self.target.ip()).into_iter().next());
        let (address, port) = (self.target.ip(), self.target.port());
        state.note(Protocol::Tcp, name.as_ref(), Some(address), port, rule);
        true
    }

    /// Ends it from outside: the sandbox's end is reset before this returns.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.reset();
        self.end.notify_one();
    }

    /// Whether it was ended from outside.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Waits until it is ended from outside.
    pub(super) async fn ended(&self) {
        self.end.notified().await;
    }

    /// Resets the sandbox's end now. An end alone could be taken for the end of an answer.
    pub(crate) fn reset(&self) {
        reset(&self.near);
    }
}

/// Resets a connection now, whoever else has its descriptor.
pub(super) fn reset(stream: &TcpStream) {
    if rustix::net::connect_unspec(stream).is_err() {
        let _gone = stream.set_zero_linger();
    }
}
