//! PostgreSQL: where several nodes share one store.
//!
//! Transactions run at `READ COMMITTED` with row locks (see `sql/`): whoever waits for a lock then
//! sees what the other one did, instead of being sent back to the start. What the server does
//! send back (a deadlock, a serialization failure, a connection that broke before the commit) is
//! run again, a bounded number of times.

mod migrations;
mod pool;
mod tls;
mod tx;
mod url;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::sql::{Backend, Mode, Work};
use crate::{BoxFuture, StoreError};
use pool::Pool;
use tx::PgTx;

/// Tries of one transaction.
const TRIES: u32 = 8;
/// Pause before the second try; doubled for each further one.
const PAUSE: Duration = Duration::from_millis(5);

/// How to reach the server.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// `postgres://user:password@host:port/database?sslmode=…&sslrootcert=…`. `sslmode` is
    /// `disable`, or `require`, `verify-ca` or `verify-full`, which all verify the server and its
    /// name, against `sslrootcert` or the system's certificates. Not given, it is `disable` for
    /// sockets and loopback addresses, else `require`.
    pub url: String,
    /// Connections at once.
    pub connections: u32,
}

impl PostgresSettings {
    /// Eight connections.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), connections: 8 }
    }
}

impl fmt::Debug for PostgresSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may hold a password.
        write!(out, "PostgresSettings {{ connections: {} }}", self.connections)
    }
}

/// A store in a PostgreSQL database.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    pool: Arc<Pool>,
}

impl PostgresStore {
    /// Connects, and brings the database to this program's format.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a wrong URL, [`StoreError::TooNew`],
    /// [`StoreError::Unavailable`].
    pub async fn open(settings: &PostgresSettings) -> Result<Self, StoreError> {
        let target = url::read(&settings.url)?;
        let pool = Arc::new(Pool::new(target, settings.connections));
        let store = Self { pool };
        store.pool.migrate().await?;
        Ok(store)
    }
}

impl Backend for PostgresStore {
    fn transact<T: Send + 'static>(
        &self,
        mode: Mode,
        work: Arc<dyn Work<T>>,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let pool = Arc::clone(&self.pool);
        Box::pin(async move {
            // A task of its own: it goes on to the end also when the caller stops waiting.
            let task = tokio::spawn(async move { tries(&pool, mode, &*work).await });
            task.await.map_err(|error| StoreError::database("run a transaction", error))?
        })
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let pool = Arc::clone(&self.pool);
        Box::pin(async move { pool.close().await })
    }
}

async fn tries<T>(pool: &Pool, mode: Mode, work: &dyn Work<T>) -> Result<T, StoreError> {
    let mut pause = PAUSE;
    for _ in 1..TRIES {
        match once(pool, mode, work).await {
            Err(failure) if failure.again => {
                tracing::debug!(internal = failure.error.internal(), "transaction runs again");
            }
            other => return other.map_err(|failure| failure.error),
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    once(pool, mode, work).await.map_err(|failure| failure.error)
}

struct Failure {
    error: StoreError,
    /// Nothing of it has happened, and it may succeed next time.
    again: bool,
}

impl Failure {
    /// Before the commit: a broken connection has done nothing either.
    fn before_commit(error: StoreError) -> Self {
        let cause = cause(&error);
        let again = cause.is_some_and(|cause| was_sent_back(cause) || was_hung_up(cause));
        Self { error, again }
    }

    /// In the commit: only what the server itself took back is known not to have happened.
    fn in_commit(error: StoreError) -> Self {
        let again = cause(&error).is_some_and(was_sent_back);
        Self { error, again }
    }
}

fn cause(error: &StoreError) -> Option<&tokio_postgres::Error> {
    match error {
        StoreError::Database { source, .. } | StoreError::Unavailable { source, .. } => {
            source.downcast_ref()
        }
        _ => None,
    }
}

fn was_sent_back(error: &tokio_postgres::Error) -> bool {
    matches!(
        error.code(),
        Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED)
    )
}

fn was_hung_up(error: &tokio_postgres::Error) -> bool {
    let farewell = [&SqlState::ADMIN_SHUTDOWN, &SqlState::CRASH_SHUTDOWN];
    error.is_closed() || error.code().is_some_and(|code| farewell.contains(&code))
}

async fn once<T>(pool: &Pool, mode: Mode, work: &dyn Work<T>) -> Result<T, Failure> {
    let fatal = |error| Failure { error, again: false };
    let begin = match mode {
        Mode::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        Mode::Write => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    };
    // Whatever breaks off from here on drops the connection, and the server rolls back.
    let mut lent = pool.take().await.map_err(fatal)?;
    lent.batch(begin).await.map_err(Failure::before_commit)?;
    let result = work.run(&mut PgTx(&mut lent)).await;
    match result {
        Ok(value) => {
            lent.batch("COMMIT").await.map_err(Failure::in_commit)?;
            lent.give_back();
            Ok(value)
        }
        Err(error) => {
            if lent.batch("ROLLBACK").await.is_ok() {
                lent.give_back();
            }
            Err(Failure::before_commit(error))
        }
    }
}
