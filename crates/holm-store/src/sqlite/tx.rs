//! Statements on a connection whose transaction is open.

use rusqlite::Connection;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};

use super::connect::is_busy;
use crate::sql::{Row, Tx, Value};
use crate::{BoxFuture, StoreError};

/// An error of SQLite, at `step`.
pub(super) fn failed(step: &'static str, error: rusqlite::Error) -> StoreError {
    if is_busy(&error) {
        StoreError::unavailable(step, error)
    } else {
        StoreError::database(step, error)
    }
}

/// A connection in a transaction. Its futures are ready at once.
pub(super) struct SqliteTx<'c>(pub &'c mut Connection);

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn value(from: ValueRef<'_>) -> Result<Value, StoreError> {
    Ok(match from {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => return Err(StoreError::corrupt("a text is not UTF-8")),
        },
        ValueRef::Real(_) => return Err(StoreError::corrupt("a column is a fraction")),
    })
}

fn rows(connection: &Connection, sql: &str, args: &[Value]) -> Result<Vec<Row>, StoreError> {
    let error = |error| failed("run a query", error);
    Value::check(args)?;
    let mut statement = connection.prepare(sql).map_err(error)?;
    let columns = statement.column_count();
    let mut rows = statement.query(rusqlite::params_from_iter(args)).map_err(error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(error)? {
        let get = |column| value(row.get_ref(column).map_err(error)?);
        found.push(Row((0..columns).map(get).collect::<Result<_, _>>()?));
    }
    Ok(found)
}

fn changed(connection: &Connection, sql: &str, args: &[Value]) -> Result<u64, StoreError> {
    let error = |error| failed("run a statement", error);
    Value::check(args)?;
    let mut statement = connection.prepare(sql).map_err(error)?;
    let changed = statement.execute(rusqlite::params_from_iter(args)).map_err(error)?;
    Ok(u64::try_from(changed).unwrap_or(u64::MAX))
}

impl Tx for SqliteTx<'_> {
    fn query<'t>(
        &'t mut self,
        sql: &'static str,
        args: Vec<Value>,
    ) -> BoxFuture<'t, Result<Vec<Row>, StoreError>> {
        Box::pin(std::future::ready(rows(self.0, sql, &args)))
    }

    fn execute<'t>(
        &'t mut self,
        sql: &'static str,
        args: Vec<Value>,
    ) -> BoxFuture<'t, Result<u64, StoreError>> {
        Box::pin(std::future::ready(changed(self.0, sql, &args)))
    }
}
