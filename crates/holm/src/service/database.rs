//! Where a service keeps what it must not forget.

use std::sync::Arc;

use holm_engine::Store;
use holm_store::{PostgresSettings, PostgresStore, SqliteStore, StoreError};

use super::Place;
use crate::exit::Failure;

/// A database. Never printed with its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// One file in the data directory.
    Sqlite,
    /// A PostgreSQL server.
    Postgres(PostgresSettings),
}

impl Database {
    /// Reads a setting: `sqlite`, or the URL of a PostgreSQL database.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if text == "sqlite" {
            return Some(Self::Sqlite);
        }
        let is_url = text.starts_with("postgres://") || text.starts_with("postgresql://");
        is_url.then(|| Self::Postgres(PostgresSettings::new(text)))
    }

    /// Its kind, for people.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    /// Opens it, and brings it to this program's format.
    ///
    /// # Errors
    /// When it cannot be opened, or a newer holm has used it.
    pub async fn open(&self, place: &Place) -> Result<Arc<dyn Store>, Failure> {
        let opened: Result<Arc<dyn Store>, StoreError> = match self {
            Self::Sqlite => {
                SqliteStore::open(place.database()).await.map(|store| Arc::new(store) as _)
            }
            Self::Postgres(settings) => {
                PostgresStore::open(settings).await.map(|store| Arc::new(store) as _)
            }
        };
        opened.map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &StoreError) -> Failure {
        let kind = self.kind();
        let failure = match error.internal() {
            Some(internal) => Failure::new(format!("the {kind} database: {error}: {internal}")),
            None => Failure::new(format!("the {kind} database: {error}")),
        };
        match (error, self) {
            (StoreError::TooNew { .. }, _) => failure.hint("use the newer holm"),
            (_, Self::Postgres(_)) => {
                failure.hint("check that the server runs and that HOLM_DATABASE names it")
            }
            (_, Self::Sqlite) => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_read_and_its_password_is_never_printed() {
        assert_eq!(Database::read("sqlite"), Some(Database::Sqlite));
        for url in ["postgres://u:x-marker@h/d", "postgresql://u:x-marker@h/d"] {
            let database = Database::read(url).unwrap();
            assert_eq!(database.kind(), "PostgreSQL");
            assert!(!format!("{database:?}").contains("x-marker"));
        }
        for text in ["", "mysql://u:p@h/d", "holm.db"] {
            assert_eq!(Database::read(text), None, "{text}");
        }
    }
}
