//! Sandboxes that somebody has, and how they ended.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use crate::driver::ExitReason;
use crate::message::Created;

/// How a sandbox ended, once it has.
pub(super) type Exit = watch::Receiver<Option<ExitReason>>;

/// All of them, by id.
#[derive(Debug, Default)]
pub(super) struct Owned(HashMap<String, One>);

#[derive(Debug)]
struct One {
    exit: watch::Sender<Option<ExitReason>>,
    socket: PathBuf,
}

impl Owned {
    /// Listens for the end of one; it is entered with `exit` if it is not there.
    pub fn watch(&mut self, sandbox: &Created, exit: Option<ExitReason>) -> Exit {
        let one = match self.0.entry(sandbox.id.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(One { exit: watch::Sender::new(exit), socket: sandbox.socket.clone() })
            }
        };
        one.exit.subscribe()
    }

    pub fn has(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// It has ended, unless it had before.
    pub fn note_exit(&self, id: &str, reason: ExitReason) {
        if let Some(one) = self.0.get(id) {
            one.note_exit(reason);
        }
    }

    /// The end of all that are not among `alive`.
    pub fn note_alive(&self, alive: &[Created]) {
        for (id, one) in &self.0 {
            if !alive.iter().any(|sandbox| sandbox.id == *id) {
                one.note_exit(ExitReason::Died);
            }
        }
    }

    /// Nobody has it any more.
    pub fn forget(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// Nobody can have one any more.
    pub fn end_all(&mut self) {
        self.0.drain().for_each(|(_, one)| one.note_exit(ExitReason::Died));
    }

    /// Each with its socket.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.0.iter().map(|(id, one)| (id.as_str(), one.socket.as_path()))
    }
}

impl One {
    fn note_exit(&self, reason: ExitReason) {
        self.exit.send_if_modified(|exit| {
            let first = exit.is_none();
            if first {
                *exit = Some(reason);
            }
            first
        });
    }
}
