//! Requests under way.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::shared::Shared;
use crate::driver::{DriverError, GateSockets, SandboxSpec};
use crate::message::{Created, Request};

pub(super) type CreateAnswer = Result<(Created, Option<GateSockets>), DriverError>;
pub(super) type SocketsAnswer = Result<Vec<OwnedFd>, DriverError>;
pub(super) type DoneAnswer = Result<(), DriverError>;

/// By number: who waits, and what was sent, where it may have to be sent again.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub creates: HashMap<u64, (String, oneshot::Sender<CreateAnswer>)>,
    pub sockets: HashMap<u64, oneshot::Sender<SocketsAnswer>>,
    pub others: HashMap<u64, oneshot::Sender<DoneAnswer>>,
    pub sent: HashMap<u64, Vec<u8>>,
}

impl Pending {
    /// False when the caller has gone; its guard has asked for the end of the sandbox.
    pub fn answer_create(&mut self, seq: u64, answer: CreateAnswer) -> bool {
        self.sent.remove(&seq);
        self.creates.remove(&seq).is_some_and(|(_, sender)| sender.send(answer).is_ok())
    }

    pub fn answer_other(&mut self, seq: u64, answer: DoneAnswer) {
        self.sent.remove(&seq);
        if let Some(sender) = self.others.remove(&seq) {
            let _ = sender.send(answer);
        }
    }

    /// A caller that has gone wants no sockets; they are closed.
    pub fn answer_sockets(&mut self, seq: u64, answer: SocketsAnswer) {
        self.sent.remove(&seq);
        if let Some(sender) = self.sockets.remove(&seq) {
            let _ = sender.send(answer);
        }
    }

    /// Nobody waits for that create any more.
    pub fn give_up_create(&mut self, seq: u64) {
        self.sent.remove(&seq);
        self.creates.remove(&seq);
    }

    /// The create of that sandbox.
    pub fn create_of(&self, id: &str) -> Option<u64> {
        self.creates.iter().find(|(_, (wanted, _))| wanted == id).map(|(seq, _)| *seq)
    }
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
        let (sender, receiver) = oneshot::channel();
        let seq = shared.next_seq();
        let id = spec.id.clone();
        let request = Request::Create { seq, spec: Box::new(spec) };
        shared.send(seq, &request, |pending| drop(pending.creates.insert(seq, (id, sender))))?;
        Ok((Self { shared: shared.clone(), seq: Some(seq) }, receiver))
    }

    /// The create was answered: the sandbox has an owner now, or never was.
    pub(super) fn complete(mut self) {
        self.seq = None;
    }
}

impl Drop for PendingCreate {
    fn drop(&mut self) {
        if let Some(seq) = self.seq.take() {
            self.shared.give_up_create(seq);
        }
    }
}
