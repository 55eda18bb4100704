//! The transactions of a store, for both databases.
//!
//! The text of a statement is what both understand, with parameters `?1`, `?2` … What only
//! PostgreSQL needs stands in a comment `/*pg: … */`: there a transaction sees what others
//! committed meanwhile, so whoever counts or adds up first locks the row that stands for it
//! (always in the order account, sandbox, key, node). In SQLite a writing transaction is alone.

mod account;
mod audit;
mod charge;
mod faces;
mod key;
mod ledger;
mod node;
mod outbox;
mod port;
mod reserve;
mod row;
mod sandbox;
mod secret;
mod value;

use std::sync::Arc;

pub(crate) use row::{Reader, Row};
pub(crate) use value::Value;

use crate::{BoxFuture, Owner, PageQuery, StoreError};

/// An open transaction.
pub(crate) trait Tx: Send {
    /// Runs a statement that answers rows.
    fn query<'t>(
        &'t mut self,
        sql: &'static str,
        args: Vec<Value>,
    ) -> BoxFuture<'t, Result<Vec<Row>, StoreError>>;

    /// Runs a statement, and says how many rows it changed.
    fn execute<'t>(
        &'t mut self,
        sql: &'static str,
        args: Vec<Value>,
    ) -> BoxFuture<'t, Result<u64, StoreError>>;
}

/// At most one row.
pub(crate) async fn query_one(
    tx: &mut dyn Tx,
    sql: &'static str,
    args: Vec<Value>,
) -> Result<Option<Row>, StoreError> {
    Ok(tx.query(sql, args).await?.into_iter().next())
}

/// The one number that a statement answers.
pub(crate) async fn query_int(
    tx: &mut dyn Tx,
    sql: &'static str,
    args: Vec<Value>,
) -> Result<i64, StoreError> {
    match query_one(tx, sql, args).await? {
        Some(row) => row.reader().int(),
        None => Err(StoreError::corrupt("a statement that counts answered nothing")),
    }
}

/// A statement for one owner and the same for everybody, with the owner's account as `?1`. Two
/// texts, because a condition that may or may not count keeps SQLite from its indexes.
macro_rules! owned {
    ($before:expr, $after:literal) => {
        [
            concat!($before, " account_id = ?1 ", $after),
            concat!($before, " CAST(?1 AS TEXT) IS NULL ", $after),
        ]
    };
}
pub(crate) use owned;

/// One of the two texts, and `?1`.
pub(crate) fn for_owner(owner: Owner, texts: [&'static str; 2]) -> (&'static str, Value) {
    match owner {
        Owner::Account(id) => (texts[0], id.into()),
        Owner::Any => (texts[1], Value::Null),
    }
}

/// Where a page begins, as a time and an id that are above everything in it.
pub(crate) fn place(page: &PageQuery) -> (i64, &str) {
    page.after.as_ref().map_or((i64::MAX, ""), |cursor| (cursor.place, &cursor.id))
}

/// Parameters of a statement.
macro_rules! args {
    ($($value:expr),* $(,)?) => { vec![$($crate::sql::Value::from($value)),*] };
}
pub(crate) use args;

/// Whether a transaction changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
}

/// What happens in a transaction. May be run again from the start when the database asks for it,
/// so it keeps nothing outside of the transaction.
pub(crate) trait Work<T>: Send + Sync {
    fn run<'t>(&'t self, tx: &'t mut dyn Tx) -> BoxFuture<'t, Result<T, StoreError>>;
}

struct Call<A, F> {
    args: A,
    run: F,
}

impl<A, T, F> Work<T> for Call<A, F>
where
    A: Send + Sync,
    F: for<'t> Fn(&'t mut dyn Tx, &'t A) -> BoxFuture<'t, Result<T, StoreError>> + Send + Sync,
{
    fn run<'t>(&'t self, tx: &'t mut dyn Tx) -> BoxFuture<'t, Result<T, StoreError>> {
        (self.run)(tx, &self.args)
    }
}

/// A database: runs transactions.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Commits when the work succeeds and rolls back when not.
    fn transact<T: Send + 'static>(
        &self,
        mode: Mode,
        work: Arc<dyn Work<T>>,
    ) -> BoxFuture<'static, Result<T, StoreError>>;

    fn close(&self) -> BoxFuture<'static, ()>;
}

/// Runs `run` with `args` in a transaction of `backend`.
pub(crate) fn call<B, A, T, F>(
    backend: &B,
    mode: Mode,
    args: A,
    run: F,
) -> BoxFuture<'static, Result<T, StoreError>>
where
    B: Backend,
    A: Send + Sync + 'static,
    T: Send + 'static,
    F: for<'t> Fn(&'t mut dyn Tx, &'t A) -> BoxFuture<'t, Result<T, StoreError>>
        + Send
        + Sync
        + 'static,
{
    backend.transact(mode, Arc::new(Call { args, run }))
}
