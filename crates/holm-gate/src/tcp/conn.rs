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
    heard: Heard,
}

/// Whether its client is heard about whom it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// It will be, and is judged again then.
    Later,
    /// It need not be: bytes are moved unseen.
    Never,
    /// It was.
    Yes,
}

/// What a client has said about whom it wants.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Said<'a> {
    /// It is still heard, if that can change anything.
    Nothing,
    /// It has begun, and says no name.
    NoName,
    /// This name.
    Name(&'a HostName),
}

impl<'a> Said<'a> {
    fn name(self) -> Option<&'a HostName> {
        if let Self::Name(name) = self { Some(name) } else { None }
    }
}

impl<'a> From<Option<&'a HostName>> for Said<'a> {
    /// Of a client that has said what it has to say.
    fn from(name: Option<&'a HostName>) -> Self {
        name.map_or(Self::NoName, Self::Name)
    }
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
    pub(crate) fn judge(&self, state: &State, said: Said<'_>) -> Result<Verdict, Refusal> {
        let mut grounds = self.grounds.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names = state.names.of(self.target.ip());
        if let Some(former) = grounds.take() {
            let is_new = |name: &HostName| !names.contains(name);
            let added: Vec<_> = former.names.into_iter().filter(is_new).collect();
            names.extend(added);
        }
        let claim = said.name();
        let verdict = self.ask(state, &names, claim);
        let wants_claim = match &verdict {
            Ok(verdict) => verdict.wants_claim,
            Err(refusal) => refusal.wants_claim,
        };
        let heard = match said {
            Said::Nothing if wants_claim => Heard::Later,
            Said::Nothing => Heard::Never,
            Said::NoName | Said::Name(_) => Heard::Yes,
        };
        *grounds = Some(Grounds { names, claim: claim.cloned(), heard });
        verdict
    }

    /// Asks whether what was permitted still is. Where nobody knows whom the client wants, whomever it
    /// may want by what it was told must be.
    pub(super) fn judge_again(&self, state: &State) -> Result<(), Refusal> {
        let grounds = self.grounds.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Grounds { names, claim, heard }) = &*grounds else { return Ok(()) };
        match self.ask(state, names, claim.as_ref()) {
            Err(refusal) if refusal.wants_claim && *heard == Heard::Later => Ok(()),
            Ok(verdict) if verdict.wants_claim && *heard == Heard::Never => {
                names.iter().try_for_each(|name| self.ask(state, names, Some(name)).map(drop))
            }
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
