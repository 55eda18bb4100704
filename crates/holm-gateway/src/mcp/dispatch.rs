//! Runs the calls of one connection: each is a task of its own, can be cancelled by its id, and
//! answers exactly once or, after it was cancelled, not at all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use holm_engine::Room;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::backend::{Backend, Begun, Work};
use super::jsonrpc::{self, INVALID_REQUEST, Id, Request, RpcError};
use super::outcome::ToolError;
use super::panics::guarded;
use super::server::Subscription;

/// Calls that may run at once on one connection.
pub const MAX_CALLS: usize = 128;

/// A message to the client, and the room in memory that it has until it is written.
pub struct Told {
    /// The message.
    pub message: Value,
    /// Its room.
    pub room: Room,
}

impl From<Value> for Told {
    fn from(message: Value) -> Self {
        Self { message, room: Room::default() }
    }
}

/// Where messages to the client go. A full queue makes senders wait.
pub type Queue = mpsc::Sender<Told>;

/// What is open under an id.
enum Open {
    Call(AbortHandle),
    Subscription(Subscription),
}

/// Requests that are not answered yet.
type Table = Arc<Mutex<HashMap<Id, Open>>>;

/// The calls of one connection.
pub struct Dispatch {
    backend: Arc<dyn Backend>,
    out: Queue,
    open: Table,
    tasks: JoinSet<()>,
    max_calls: usize,
}

impl Dispatch {
    /// Nothing runs yet. `out` takes what is not a reply (progress).
    pub fn new(backend: Arc<dyn Backend>, out: Queue, max_calls: usize) -> Self {
        Self { backend, out, open: Table::default(), tasks: JoinSet::new(), max_calls }
    }

    /// Takes one request. Its reply goes to `reply_to`: now, or when its call has ended.
    pub async fn request(&mut self, request: Request, reply_to: Queue) {
        let id = request.id.clone();
        if self.table().contains_key(&id) {
            // The id belongs to the request that is still open: a reply under it would be taken for
            // that one's. JSON-RPC answers requests without a usable id with null.
            let error = RpcError::new(
                INVALID_REQUEST,
                format!("Invalid request: id {} is in use by an unfinished request", id.to_value()),
            );
            send(&reply_to, jsonrpc::error(None, &error)).await;
            return;
        }
        let begun = guarded(|| self.backend.answer(request));
        match begun.unwrap_or_else(|error| Begun::Done(Err(error))) {
            Begun::Done(outcome) => send(&reply_to, jsonrpc::reply(&id, outcome)).await,
            Begun::Listen(subscription) => {
                let acknowledgement = subscription.acknowledgement();
                let full = {
                    let mut table = self.table();
                    let full = table.len() >= self.max_calls;
                    if !full {
                        table.insert(id.clone(), Open::Subscription(subscription));
                    }
                    full
                };
                if full {
                    let error = RpcError::new(INVALID_REQUEST, self.busy().message);
                    send(&reply_to, jsonrpc::error(Some(&id), &error)).await;
                } else {
                    send(&self.out, acknowledgement).await;
                }
            }
            Begun::Work(work) => {
                if self.table().len() >= self.max_calls {
                    let outcome = work.refused(self.busy());
                    send(&reply_to, jsonrpc::reply(&id, outcome)).await;
                } else {
                    self.start(id, work, reply_to);
                }
            }
        }
    }

    fn busy(&self) -> ToolError {
        ToolError::new(
            "capacity",
            format!("{} calls of this session are running already", self.max_calls),
        )
        .suggest("Wait until one of them has ended, or cancel one, then call again.")
    }

    fn start(&mut self, id: Id, work: Box<dyn Work>, reply_to: Queue) {
        let open = Arc::clone(&self.open);
        let progress = self.out.clone();
        let key = id.clone();
        // The table stays locked until the task is in it, so that the task cannot end before.
        let mut table = lock(&self.open);
        let handle = self.tasks.spawn(async move {
            // Progress is a courtesy: where the client does not read, it is left out.
            let notify = Box::new(move |message: Value| {
                drop(progress.try_send(message.into()));
            });
            let (outcome, room) = Room::around(work.run(notify)).await;
            // Out of the table first: a client may use the id again as soon as it has the reply.
            lock(&open).remove(&id);
            send(&reply_to, Told { message: jsonrpc::reply(&id, outcome), room }).await;
        });
        table.insert(key, Open::Call(handle));
    }

    /// `notifications/cancelled`: stops the work; nothing more is said about that id. Unknown and
    /// finished ids are ignored, as the protocol wants it.
    pub fn cancel(&self, params: &serde_json::Map<String, Value>) {
        let Some(id) = params.get("requestId").and_then(Id::from_value) else { return };
        if let Some(Open::Call(task)) = self.table().remove(&id) {
            task.abort();
        }
    }

    /// Waits until one of the tasks has ended, to free its memory; for ever where there is none.
    pub async fn reap(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until every call has ended by itself.
    pub async fn finish(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Stops what still runs and waits until it is dropped. Stopped calls get no reply: clients
    /// close their input only when they no longer wait, and some fail over a reply after that.
    /// Returns the messages that end open subscriptions.
    pub async fn stop(mut self) -> Vec<Value> {
        let open: Vec<Open> = self.table().drain().map(|(_, open)| open).collect();
        self.tasks.shutdown().await;
        open.iter()
            .filter_map(|open| match open {
                Open::Call(_) => None,
                Open::Subscription(subscription) => Some(subscription.end()),
            })
            .collect()
    }

    fn table(&self) -> std::sync::MutexGuard<'_, HashMap<Id, Open>> {
        lock(&self.open)
    }
}

fn lock(table: &Table) -> std::sync::MutexGuard<'_, HashMap<Id, Open>> {
    // Every change under the lock is one call of the map: it is whole even after a panic.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts a message into a queue. A closed queue means that the client is gone; the transport sees
/// that itself.
async fn send(queue: &Queue, message: impl Into<Told>) {
    drop(queue.send(message.into()).await);
}
