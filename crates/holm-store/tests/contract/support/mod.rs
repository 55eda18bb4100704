//! A database for one test, and short words for what tests say often.

mod cluster;
mod words;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holm_store::{BoxFuture, MemoryStore, PostgresSettings, PostgresStore, SqliteStore, Store};

pub use cluster::{Cluster, Kind, shared};
pub use words::*;

/// Makes a test for each database of each contract.
macro_rules! contract {
    ($($name:ident)*) => {
        mod sqlite {$(
            #[test]
            fn $name() {
                $crate::support::on_sqlite(|bed| Box::pin(super::$name(bed)));
            }
        )*}
        mod sqlite_in_memory {$(
            #[test]
            fn $name() {
                $crate::support::on_memory(|bed| Box::pin(super::$name(bed)));
            }
        )*}
        mod maps {$(
            #[test]
            fn $name() {
                $crate::support::on_maps(|bed| Box::pin(super::$name(bed)));
            }
        )*}
        contract!(postgres: $($name)*);
    };
    // Where the contract is about what outlives the process, or about several at once.
    (on_disk: $($name:ident)*) => {
        mod sqlite {$(
            #[test]
            fn $name() {
                $crate::support::on_sqlite(|bed| Box::pin(super::$name(bed)));
            }
        )*}
        contract!(postgres: $($name)*);
    };
    (postgres: $($name:ident)*) => {
        mod postgres {$(
            #[test]
            fn $name() {
                $crate::support::on_postgres(|bed| Box::pin(super::$name(bed)));
            }
        )*}
    };
}
pub(crate) use contract;

/// Where a test's database is.
#[derive(Debug, Clone)]
pub enum Place {
    File(PathBuf),
    Memory,
    Maps,
    Url(String),
}

/// A store with nothing in it.
pub struct Bed {
    pub store: Arc<dyn Store>,
    pub place: Place,
}

impl Place {
    pub async fn open(&self) -> Result<Arc<dyn Store>, holm_store::StoreError> {
        Ok(match self {
            Self::File(path) => Arc::new(SqliteStore::open(path).await?),
            Self::Memory => Arc::new(SqliteStore::in_memory().await?),
            Self::Maps => Arc::new(MemoryStore::new(1000)),
            Self::Url(url) => Arc::new(PostgresStore::open(&PostgresSettings::new(url)).await?),
        })
    }

    /// Runs a statement past the store. The error is the database's own text.
    pub async fn raw(&self, sql: &str) -> Result<(), String> {
        match self {
            Self::File(path) => {
                let connection = rusqlite::Connection::open(path).map_err(|e| e.to_string())?;
                connection.execute_batch(sql).map_err(|e| e.to_string())
            }
            Self::Memory | Self::Maps => panic!("a database in memory has one user"),
            Self::Url(url) => raw_postgres(url, sql).await,
        }
    }
}

/// Runs a statement as a client of its own.
pub async fn raw_postgres(url: &str, sql: &str) -> Result<(), String> {
    let connecting = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
    let (client, driver) = connecting.map_err(|error| error.to_string())?;
    let driver = tokio::spawn(driver);
    let result = client.batch_execute(sql).await;
    drop(client);
    driver.await.unwrap().unwrap();
    let text = |error: tokio_postgres::Error| match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => error.to_string(),
    };
    result.map_err(text)
}

/// The URL of a new, empty database.
async fn new_database(cluster: &Cluster) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
    // From template0, which nobody can be connected to.
    let create = format!("CREATE DATABASE {name} TEMPLATE template0");
    raw_postgres(&cluster.url("postgres"), &create).await.unwrap();
    cluster.url(&name)
}

type Contract = fn(&Bed) -> BoxFuture<'_, ()>;

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(4).enable_all().build().unwrap().block_on(future)
}

async fn run(place: Place, contract: Contract) {
    let store = place.open().await.unwrap();
    let bed = Bed { store, place };
    contract(&bed).await;
    bed.store.close().await;
}

pub fn on_memory(contract: Contract) {
    block_on(run(Place::Memory, contract));
}

pub fn on_maps(contract: Contract) {
    block_on(run(Place::Maps, contract));
}

pub fn on_sqlite(contract: Contract) {
    let directory = Directory::new();
    block_on(run(Place::File(directory.0.join("holm.db")), contract));
}

pub fn on_postgres(contract: Contract) {
    let Some(cluster) = shared() else { return };
    block_on(async {
        let url = new_database(cluster).await;
        run(Place::Url(url), contract).await;
    });
}

/// A directory that goes with its value, also when the test panics.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> Self {
        let id = holm_store::EventId::random().unwrap();
        let path = std::env::temp_dir().join(format!("holm-store-test-{}", id.digits()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
