//! SQLite: one file, no other service.
//!
//! A thread of its own writes, another one reads, so that no call ever blocks an async thread and
//! a reader does not wait for a disk. The journal is written ahead (WAL) and through to the disk
//! with every commit (`synchronous = FULL`): money that was booked stays booked. What waits while
//! a commit reaches the disk shares the next one.

mod connect;
mod tx;
mod worker;

use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::migrate::Migration;
use crate::sql::{Backend, Mode, Work};
use crate::{BoxFuture, StoreError};
use connect::{Place, Purpose};
use worker::{Typed, Worker};

const MIGRATIONS: &[Migration] = &[
    Migration { name: "initial", sql: include_str!("migrations/0001_initial.sql") },
    Migration { name: "network", sql: include_str!("migrations/0002_network.sql") },
    Migration { name: "ports", sql: include_str!("migrations/0003_ports.sql") },
    Migration { name: "pause", sql: include_str!("migrations/0004_pause.sql") },
    Migration { name: "traffic", sql: include_str!("migrations/0005_traffic.sql") },
];

/// A store in one SQLite file.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    writer: Worker,
    reader: Worker,
}

impl SqliteStore {
    /// Opens the file, made if it is not there (with mode 0600), and brings it to this program's
    /// format.
    ///
    /// # Errors
    /// [`StoreError::TooNew`]; whatever keeps the file from being opened.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let place = Place::File(path.as_ref().to_owned());
        let writer = Worker::start("holm-store-write", place.clone(), Purpose::Write).await?;
        let reader = Worker::start("holm-store-read", place, Purpose::Read).await?;
        Ok(Self { writer, reader })
    }

    /// A store in memory, gone with its last clone: for tests, and for processes that end with
    /// their sandboxes.
    ///
    /// # Errors
    /// When SQLite has no memory.
    pub async fn in_memory() -> Result<Self, StoreError> {
        let writer = Worker::start("holm-store", Place::Memory, Purpose::Write).await?;
        Ok(Self { reader: writer.clone(), writer })
    }
}

impl Backend for SqliteStore {
    fn transact<T: Send + 'static>(
        &self,
        mode: Mode,
        work: Arc<dyn Work<T>>,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let (sender, receiver) = oneshot::channel();
        let worker = match mode {
            Mode::Read => &self.reader,
            Mode::Write => &self.writer,
        };
        // Sent now, not when first polled: calls run in the order in which they were made.
        let sent = worker.send(Box::new(Typed::new(work, sender)));
        Box::pin(async move {
            sent?;
            let gone = |_| StoreError::database("run a transaction", "it broke off");
            receiver.await.map_err(gone)?
        })
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let (reader, writer) = (self.reader.clone(), self.writer.clone());
        Box::pin(async move {
            reader.close().await;
            writer.close().await;
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc;

    use super::*;
    use crate::sql::{args, call};
    use crate::{NodeId, Nodes as _};

    #[derive(Debug, Clone, Copy)]
    enum Then {
        Succeed,
        Fail,
        Panic,
    }

    /// Adds a node in a transaction that goes on as told.
    fn add(
        store: &SqliteStore,
        id: NodeId,
        then: Then,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        const INSERT: &str = "INSERT INTO nodes (id, boot_id, last_seen) VALUES (?1, 'x', 0)";
        call(store, Mode::Write, (id, then), |tx, (id, then)| {
            Box::pin(async {
                tx.execute(INSERT, args![*id]).await?;
                match then {
                    Then::Succeed => Ok(()),
                    Then::Fail => Err(StoreError::invalid("as told")),
                    Then::Panic => panic!("as told"),
                }
            })
        })
    }

    #[tokio::test]
    async fn who_fails_or_panics_harms_nobody_else_in_the_same_commit() {
        let store = SqliteStore::in_memory().await.unwrap();
        let (begun, beginning) = mpsc::channel();
        let (open, gate) = mpsc::channel::<()>();
        // Holds the thread up, so that all that follow are one batch.
        let first = call(&store, Mode::Write, (Mutex::new(gate), begun), |_, (gate, begun)| {
            Box::pin(async {
                begun.send(()).unwrap();
                gate.lock().unwrap().recv().unwrap();
                Ok(())
            })
        });
        beginning.recv().unwrap();
        let ids: Vec<NodeId> = (0..5).map(|_| NodeId::random().unwrap()).collect();
        let then = [Then::Succeed, Then::Fail, Then::Succeed, Then::Panic, Then::Succeed];
        let calls: Vec<_> = ids.iter().zip(then).map(|(id, then)| add(&store, *id, then)).collect();
        open.send(()).unwrap();
        first.await.unwrap();
        let mut good = Vec::new();
        for (call, then) in calls.into_iter().zip(then) {
            let result = call.await;
            assert_eq!(result.is_ok(), matches!(then, Then::Succeed), "{then:?}: {result:?}");
            good.push(result.is_ok());
        }
        let mut want: Vec<NodeId> =
            ids.iter().zip(good).filter(|(_, good)| *good).map(|(id, _)| *id).collect();
        want.sort_unstable();
        let there = store.node_list().await.unwrap();
        assert_eq!(there.iter().map(|node| node.id).collect::<Vec<_>>(), want);
    }
}
