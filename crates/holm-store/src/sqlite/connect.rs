//! Opening a database file: its mode, its settings, its format.

use std::fs::OpenOptions;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::MIGRATIONS;
use super::tx::failed;
use crate::{StoreError, migrate};

/// How long to wait for another process's transaction.
const BUSY: Duration = Duration::from_secs(10);
/// Between two tries of what SQLite does not wait for itself.
const PAUSE: Duration = Duration::from_millis(5);

/// Where a database is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    File(PathBuf),
    Memory,
}

/// What a connection is for. The writer is opened first, and brings the format up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Write,
}

/// Opens a connection. Blocks: for a thread of ours only.
pub(super) fn open(place: &Place, purpose: Purpose) -> Result<Connection, StoreError> {
    let mut connection = match place {
        Place::File(path) => {
            private_file(path)?;
            Connection::open(path)
        }
        Place::Memory => Connection::open_in_memory(),
    }
    .map_err(|error| failed("open the database", error))?;
    settings(&connection, purpose)?;
    if purpose == Purpose::Write {
        migrate(&mut connection)?;
    }
    Ok(connection)
}

/// Makes the file with mode 0600 before SQLite does: its journals take their mode from it. One
/// that others may read is taken back.
fn private_file(path: &Path) -> Result<(), StoreError> {
    let step = "make the database file";
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    let file = file.map_err(|error| StoreError::database(step, error))?;
    let mode = file.metadata().map_err(|error| StoreError::database(step, error))?.permissions();
    if mode.mode() & 0o077 != 0 {
        let private = std::fs::Permissions::from_mode(0o600);
        file.set_permissions(private).map_err(|error| StoreError::database(step, error))?;
    }
    Ok(())
}

fn settings(connection: &Connection, purpose: Purpose) -> Result<(), StoreError> {
    let step = "set up the database connection";
    let error = |error| failed(step, error);
    connection.busy_timeout(BUSY).map_err(error)?;
    // The change to WAL needs the file alone, and does not wait for it by itself.
    let deadline = Instant::now() + BUSY;
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(busy) if is_busy(&busy) && Instant::now() < deadline => std::thread::sleep(PAUSE),
            other => break other.map_err(error)?,
        }
    }
    connection.pragma_update(None, "synchronous", "full").map_err(error)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(error)?;
    connection.pragma_update(None, "recursive_triggers", true).map_err(error)?;
    connection.pragma_update(None, "trusted_schema", false).map_err(error)?;
    connection.pragma_update(None, "query_only", purpose == Purpose::Read).map_err(error)
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let error = |error| failed("bring the database to this format", error);
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(error)?;
    tx.execute_batch(migrate::TABLE).map_err(error)?;
    let found = tx.query_row(migrate::FOUND, [], |row| row.get(0)).map_err(error)?;
    for (version, migration) in migrate::missing(MIGRATIONS, found)? {
        tx.execute_batch(migration.sql).map_err(error)?;
        let now = Timestamp::now().as_microsecond();
        tx.execute(
            "INSERT INTO holm_schema (version, name, applied_at) VALUES (?1, ?2, ?3)",
            (version, migration.name, now),
        )
        .map_err(error)?;
        tracing::info!(version, name = migration.name, "database brought to a newer format");
    }
    tx.commit().map_err(error)
}
