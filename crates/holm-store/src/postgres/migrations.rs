//! Bringing the database to this program's format.

use jiff::Timestamp;
use tokio_postgres::Client;

use super::tx::failed;
use crate::StoreError;
use crate::migrate::{FOUND, Migration, TABLE, missing};

const MIGRATIONS: &[Migration] = &[
    Migration { name: "initial", sql: include_str!("migrations/0001_initial.sql") },
    Migration { name: "network", sql: include_str!("migrations/0002_network.sql") },
    Migration { name: "ports", sql: include_str!("migrations/0003_ports.sql") },
    Migration { name: "pause", sql: include_str!("migrations/0004_pause.sql") },
    Migration { name: "traffic", sql: include_str!("migrations/0005_traffic.sql") },
];

/// One migrator at a time, per database. The number is `holm` in ASCII.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1752132717)";

pub(super) async fn run(client: &mut Client) -> Result<(), StoreError> {
    let error = |error| failed("bring the database to this format", error);
    let tx = client.transaction().await.map_err(error)?;
    tx.batch_execute(LOCK).await.map_err(error)?;
    tx.batch_execute(TABLE).await.map_err(error)?;
    let found: i64 = tx.query_one(FOUND, &[]).await.map_err(error)?.get(0);
    for (version, migration) in missing(MIGRATIONS, found)? {
        tx.batch_execute(migration.sql).await.map_err(error)?;
        let now = Timestamp::now().as_microsecond();
        tx.execute(
            "INSERT INTO holm_schema (version, name, applied_at) VALUES ($1, $2, $3)",
            &[&version, &migration.name, &now],
        )
        .await
        .map_err(error)?;
        tracing::info!(version, name = migration.name, "database brought to a newer format");
    }
    tx.commit().await.map_err(error)
}
