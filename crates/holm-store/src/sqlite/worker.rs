//! A thread with a connection, and the work that is sent to it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::connect::{self, Place, Purpose};
use super::tx::{SqliteTx, failed};
use crate::StoreError;
use crate::sql::Work;

/// Most calls that share one commit.
const BATCH: usize = 64;

/// Something to do in a transaction. Kept by its kind of answer in [`Typed`].
pub(super) trait Job: Send {
    /// Does it; true when it may be committed.
    fn run(&mut self, connection: &mut Connection) -> bool;
    /// Tells the caller, who hears of a failed commit instead of the answer.
    fn answer(self: Box<Self>, failure: Option<&str>);
}

/// A job with its answer.
pub(super) struct Typed<T> {
    work: Arc<dyn Work<T>>,
    result: Option<Result<T, StoreError>>,
    sender: oneshot::Sender<Result<T, StoreError>>,
}

impl<T> Typed<T> {
    pub fn new(work: Arc<dyn Work<T>>, sender: oneshot::Sender<Result<T, StoreError>>) -> Self {
        Self { work, result: None, sender }
    }
}

impl<T: Send> Job for Typed<T> {
    fn run(&mut self, connection: &mut Connection) -> bool {
        let mut tx = SqliteTx(connection);
        let mut future = self.work.run(&mut tx);
        // Nothing in it waits, so it is ready at the first look.
        let result = match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(StoreError::database("run a transaction", "it waits")),
        };
        drop(future);
        self.result.insert(result).is_ok()
    }

    fn answer(self: Box<Self>, failure: Option<&str>) {
        let result = match (self.result, failure) {
            (Some(Ok(_)), Some(failure)) => {
                Some(Err(StoreError::unavailable("commit a transaction", failure)))
            }
            (None, Some(failure)) => {
                Some(Err(StoreError::unavailable("begin a transaction", failure)))
            }
            (result, _) => result,
        };
        // Without a result it panicked: the caller sees the sender go.
        if let Some(result) = result {
            let _caller_gone = self.sender.send(result);
        }
    }
}

enum Message {
    Job(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

/// A thread with a connection. Ends with its last clone.
#[derive(Clone)]
pub(super) struct Worker {
    sender: mpsc::Sender<Message>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Worker")
    }
}

impl Worker {
    /// Starts the thread and waits until its connection is open.
    pub async fn start(name: &str, place: Place, purpose: Purpose) -> Result<Self, StoreError> {
        let (sender, receiver) = mpsc::channel();
        let (opened, open) = oneshot::channel();
        let body = move || match connect::open(&place, purpose) {
            Ok(connection) => {
                if opened.send(Ok(())).is_ok() {
                    serve(connection, &receiver, purpose);
                }
            }
            Err(error) => {
                let _caller_gone = opened.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        thread.map_err(|error| StoreError::database("start the store's thread", error))?;
        let gone = |_| StoreError::database("open the database", "the store's thread died");
        open.await.map_err(gone)??;
        Ok(Self { sender })
    }

    pub fn send(&self, job: Box<dyn Job>) -> Result<(), StoreError> {
        let closed = |_| StoreError::unavailable("use the store", "it is closed");
        self.sender.send(Message::Job(job)).map_err(closed)
    }

    /// Returns when everything sent before is done and the connection is closed.
    pub async fn close(&self) {
        let (sender, receiver) = oneshot::channel();
        if self.sender.send(Message::Close(sender)).is_ok() {
            // An error says that the thread is gone, which is what was wanted.
            let _closed = receiver.await;
        }
    }
}

fn serve(mut connection: Connection, messages: &mpsc::Receiver<Message>, purpose: Purpose) {
    let begin = match purpose {
        Purpose::Read => "BEGIN",
        Purpose::Write => "BEGIN IMMEDIATE",
    };
    let mut closing = None;
    while closing.is_none()
        && let Ok(first) = messages.recv()
    {
        let mut batch = Vec::new();
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Job(job) => batch.push(job),
                Message::Close(done) => closing = Some(done),
            }
            let room = closing.is_none() && batch.len() < BATCH;
            next = if room { messages.try_recv().ok() } else { None };
        }
        if !batch.is_empty() {
            let failure = together(&mut connection, begin, &mut batch).err();
            let failure = failure.map(|error| error.internal().unwrap_or_default());
            for job in batch {
                job.answer(failure.as_deref());
            }
        }
    }
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the database did not close cleanly");
    }
    if let Some(done) = closing {
        let _caller_gone = done.send(());
    }
}

/// Runs a batch in one transaction, each job in a savepoint of its own: one that fails takes
/// back what it did, and nothing of the others.
fn together(
    connection: &mut Connection,
    begin: &str,
    batch: &mut [Box<dyn Job>],
) -> Result<(), StoreError> {
    let error = |error| failed("run a transaction", error);
    connection.execute_batch(begin).map_err(error)?;
    let done = each(connection, batch)
        .and_then(|()| connection.execute_batch("COMMIT").map_err(|e| failed("commit", e)));
    if done.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK").map_err(error)?;
    }
    done
}

fn each(connection: &mut Connection, batch: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
    let error = |error| failed("run a transaction", error);
    for job in batch {
        connection.execute_batch("SAVEPOINT one").map_err(error)?;
        let run = AssertUnwindSafe(|| job.run(connection));
        let good = catch_unwind(run).unwrap_or(false);
        if connection.is_autocommit() {
            // A full disk and the like end the whole transaction.
            return Err(StoreError::database("run a transaction", "it was rolled back"));
        }
        if !good {
            connection.execute_batch("ROLLBACK TO one").map_err(error)?;
        }
        connection.execute_batch("RELEASE one").map_err(error)?;
    }
    Ok(())
}
