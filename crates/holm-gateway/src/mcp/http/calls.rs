//! Running calls of one session (or of all requests without one): which ids are open, how they are
//! cancelled, and how all of them end together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use tokio::sync::{Notify, oneshot};

use crate::mcp::jsonrpc::Id;
use crate::mcp::outcome::ToolError;

/// Why a call was ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// By its client; nothing more is said about it.
    Cancelled,
    /// Its session was ended.
    Session,
    /// The server goes down.
    Server,
}

impl Over {
    /// What the client is told, if it is told anything.
    #[must_use]
    pub fn error(self) -> Option<ToolError> {
        match self {
            Self::Cancelled => None,
            Self::Session => Some(
                ToolError::new("sandbox_gone", "the session of this call was ended")
                    .suggest("Begin a new session with initialize."),
            ),
            Self::Server => Some(
                ToolError::new("unavailable", "the service is going down; the call was stopped")
                    .suggest("Try again when the service is back."),
            ),
        }
    }
}

/// Why a call is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Its id belongs to a call that still runs.
    IdInUse,
    /// As many as may run do.
    Full(usize),
    /// All calls were ended.
    Over(Over),
}

/// The running calls.
pub struct Calls {
    table: Mutex<Table>,
    quiet: Notify,
    limit: usize,
}

#[derive(Default)]
struct Table {
    open: HashMap<Key, Open>,
    /// Tickets that exist, also of calls that were cancelled and have not noticed yet.
    tickets: usize,
    serial: u64,
    over: Option<Over>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Id(Id),
    /// Of requests without a session: ids of different clients may be the same.
    Serial(u64),
}

struct Open {
    serial: u64,
    end: oneshot::Sender<Over>,
}

/// A running call. The call is over when this is dropped.
pub struct Ticket {
    calls: Arc<Calls>,
    key: Key,
    serial: u64,
    over: oneshot::Receiver<Over>,
}

impl Calls {
    /// None run. At most `limit` may.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), quiet: Notify::new(), limit })
    }

    /// A call begins. With an id it can be cancelled by it.
    ///
    /// # Errors
    /// When it may not.
    pub fn enter(self: &Arc<Self>, id: Option<Id>) -> Result<Ticket, Refused> {
        let mut table = self.table();
        if let Some(over) = table.over {
            return Err(Refused::Over(over));
        }
        if table.tickets >= self.limit {
            return Err(Refused::Full(self.limit));
        }
        table.serial += 1;
        let serial = table.serial;
        let key = id.map_or(Key::Serial(serial), Key::Id);
        if table.open.contains_key(&key) {
            return Err(Refused::IdInUse);
        }
        let (end, over) = oneshot::channel();
        table.open.insert(key.clone(), Open { serial, end });
        table.tickets += 1;
        Ok(Ticket { calls: Arc::clone(self), key, serial, over })
    }

    /// `notifications/cancelled`. Unknown and finished ids are ignored, as the protocol wants it.
    pub fn cancel(&self, params: &Map<String, Value>) {
        let Some(id) = params.get("requestId").and_then(Id::from_value) else { return };
        let open = self.table().open.remove(&Key::Id(id));
        if let Some(open) = open {
            // An error means that it has just ended.
            let _ = open.end.send(Over::Cancelled);
        }
    }

    /// Ends all of them, and takes no more.
    pub fn end(&self, over: Over) {
        let open: Vec<Open> = {
            let mut table = self.table();
            table.over.get_or_insert(over);
            table.open.drain().map(|(_, open)| open).collect()
        };
        for open in open {
            let _ = open.end.send(over);
        }
    }

    /// Waits until none runs.
    pub async fn quiet(&self) {
        loop {
            let notified = self.quiet.notified();
            if self.table().tickets == 0 {
                return;
            }
            notified.await;
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change under the lock is one call of the map: it is whole even after a panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Resolves when the call is to end before its time.
    pub async fn over(&mut self) -> Over {
        match (&mut self.over).await {
            Ok(over) => over,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut table = self.calls.table();
        // After a cancellation the id may belong to a later call.
        if table.open.get(&self.key).is_some_and(|open| open.serial == self.serial) {
            table.open.remove(&self.key);
        }
        table.tickets -= 1;
        if table.tickets == 0 {
            self.calls.quiet.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(number: i128) -> Option<Id> {
        Some(Id::Integer(number))
    }

    fn refused(calls: &Arc<Calls>, id: Option<Id>) -> Option<Refused> {
        calls.enter(id).err()
    }

    #[test]
    fn ids_are_taken_for_as_long_as_their_call_runs() {
        let calls = Calls::new(2);
        let one = calls.enter(id(1)).expect("free");
        assert_eq!(refused(&calls, id(1)), Some(Refused::IdInUse));
        let other = calls.enter(None).expect("free");
        assert_eq!(refused(&calls, id(2)), Some(Refused::Full(2)));
        drop(other);
        // A cancelled id is free at once; the end of its old call leaves the new one alone.
        let Value::Object(params) = json!({"requestId": 1}) else { unreachable!() };
        calls.cancel(&params);
        let again = calls.enter(id(1)).expect("free again");
        drop(one);
        assert_eq!(refused(&calls, id(1)), Some(Refused::IdInUse));
        drop(again);
        calls.end(Over::Session);
        assert_eq!(refused(&calls, id(1)), Some(Refused::Over(Over::Session)));
    }
}
