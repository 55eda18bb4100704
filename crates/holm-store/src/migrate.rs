//! Migrations: numbered texts in the program, and one table that says which a database has. Both
//! databases run what is missing in one transaction under a lock, so that several starts at once
//! are one migration, and a failed one is none.

use crate::StoreError;

/// One step of a database's format.
pub(crate) struct Migration {
    pub name: &'static str,
    pub sql: &'static str,
}

/// The table of versions, in words that both databases understand.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS holm_schema (
    version    BIGINT NOT NULL PRIMARY KEY,
    name       TEXT   NOT NULL,
    applied_at BIGINT NOT NULL
)";

/// The newest version that a database has; 0 when it is new.
pub(crate) const FOUND: &str = "SELECT COALESCE(MAX(version), 0) FROM holm_schema";

/// What a database with version `found` lacks, with the versions.
pub(crate) fn missing(
    all: &'static [Migration],
    found: i64,
) -> Result<impl Iterator<Item = (i64, &'static Migration)>, StoreError> {
    let known = i64::try_from(all.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    Ok((1..).zip(all).filter(move |(version, _)| *version > found))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Migration] = &[Migration { name: "a", sql: "" }, Migration { name: "b", sql: "" }];

    #[test]
    fn what_is_missing_runs_in_order_and_a_newer_database_is_refused() {
        let check = |found: i64, want: &[i64]| {
            let got: Vec<i64> = missing(ALL, found).unwrap().map(|(version, _)| version).collect();
            assert_eq!(got, want, "{found}");
        };
        check(0, &[1, 2]);
        check(1, &[2]);
        check(2, &[]);
        let error = missing(ALL, 3).err().unwrap().to_string();
        assert!(error.contains("format 3") && error.contains("up to 2"), "{error}");
    }
}
