//! Connections, kept for the next call.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::{Client, Statement};

use super::tx::failed;
use super::url::Target;
use super::{migrations, tls};
use crate::StoreError;

/// Longest wait for a connection that others use.
const WAIT: Duration = Duration::from_secs(30);

/// What every connection begins with. A statement or a lock that takes this long means that
/// something is wrong; a transaction without a word means that its holm is gone.
const SESSION: &str = "SET statement_timeout = '60s'; SET lock_timeout = '20s';
    SET idle_in_transaction_session_timeout = '60s'; SET application_name = 'holm'";

/// A bounded number of connections.
pub(super) struct Pool {
    target: Target,
    places: Semaphore,
    /// How many places there are.
    size: u32,
    idle: Mutex<Vec<Connection>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Pool({})", self.size)
    }
}

/// A connection with its prepared statements.
pub(super) struct Connection {
    client: Client,
    statements: HashMap<&'static str, Statement>,
}

/// A connection that is in use. Dropped without [`Lent::give_back`] it is closed.
pub(super) struct Lent<'p> {
    pool: &'p Pool,
    connection: Option<Connection>,
    _place: SemaphorePermit<'p>,
}

impl Pool {
    pub fn new(target: Target, size: u32) -> Self {
        let size = size.clamp(1, 1000);
        let places = Semaphore::new(usize::try_from(size).unwrap_or(1));
        Self { target, places, size, idle: Mutex::default() }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn take(&self) -> Result<Lent<'_>, StoreError> {
        let step = "wait for a connection";
        let place = tokio::time::timeout(WAIT, self.places.acquire()).await;
        let place = place.map_err(|elapsed| StoreError::unavailable(step, elapsed))?;
        let place = place.map_err(|closed| StoreError::unavailable(step, closed))?;
        let kept = loop {
            match self.idle().pop() {
                Some(connection) if connection.client.is_closed() => {}
                other => break other,
            }
        };
        let connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(Lent { pool: self, connection: Some(connection), _place: place })
    }

    async fn connect(&self) -> Result<Connection, StoreError> {
        let error = |error| failed("connect", error);
        let config = &self.target.config;
        let client = match &self.target.tls {
            None => {
                let (client, driver) =
                    config.connect(tokio_postgres::NoTls).await.map_err(error)?;
                tokio::spawn(drive(driver));
                client
            }
            Some(roots) => {
                let connect = tls::Connect::new(roots)?;
                let (client, driver) = config.connect(connect).await.map_err(error)?;
                tokio::spawn(drive(driver));
                client
            }
        };
        client.batch_execute(SESSION).await.map_err(error)?;
        Ok(Connection { client, statements: HashMap::new() })
    }

    pub async fn migrate(&self) -> Result<(), StoreError> {
        let mut lent = self.take().await?;
        migrations::run(lent.client_mut()?).await?;
        lent.give_back();
        Ok(())
    }

    /// No new calls; returns when the running ones are done.
    pub async fn close(&self) {
        // All places at once are free when nobody works; an error says that it is closed already.
        let all = self.places.acquire_many(self.size).await;
        self.places.close();
        drop(all);
        self.idle().clear();
    }
}

async fn drive<S, T>(driver: tokio_postgres::Connection<S, T>)
where
    tokio_postgres::Connection<S, T>: Future<Output = Result<(), tokio_postgres::Error>>,
{
    if let Err(error) = driver.await {
        tracing::debug!(%error, "a database connection ended");
    }
}

impl Lent<'_> {
    fn connection(&mut self) -> Result<&mut Connection, StoreError> {
        let gone = || StoreError::unavailable("use a connection", "it was given back");
        self.connection.as_mut().ok_or_else(gone)
    }

    pub fn client_mut(&mut self) -> Result<&mut Client, StoreError> {
        Ok(&mut self.connection()?.client)
    }

    /// Runs statements without parameters and answers.
    pub async fn batch(&mut self, sql: &'static str) -> Result<(), StoreError> {
        let client = &self.connection()?.client;
        client.batch_execute(sql).await.map_err(|error| failed(sql, error))
    }

    /// The connection's client, and the prepared form of a statement.
    pub async fn prepared(
        &mut self,
        sql: &'static str,
    ) -> Result<(&Client, Statement), StoreError> {
        let Connection { client, statements } = self.connection()?;
        if let Some(statement) = statements.get(sql) {
            return Ok((client, statement.clone()));
        }
        let text = super::tx::dialect(sql);
        let statement = client.prepare(&text).await;
        let statement = statement.map_err(|error| failed("prepare a statement", error))?;
        statements.insert(sql, statement.clone());
        Ok((client, statement))
    }

    /// Keeps the connection for the next call.
    pub fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.idle().push(connection);
        }
    }
}
