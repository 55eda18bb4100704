//! Statements in an open transaction, and what PostgreSQL wants otherwise than they are written.

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::pool::Lent;
use crate::sql::{Row, Tx, Value};
use crate::{BoxFuture, Source, StoreError};

/// An error of the server or of the way to it, at `step`.
pub(super) fn failed(step: &'static str, error: tokio_postgres::Error) -> StoreError {
    // Without a code it did not come from the server. Class 08 is about connections, 53 about
    // resources, 57 about a server that shuts down or cancels; 40 and 55 about others' locks.
    let temporary = match error.code() {
        None => true,
        Some(state) => ["08", "40", "53", "55", "57"].iter().any(|c| state.code().starts_with(c)),
    };
    if temporary { StoreError::unavailable(step, error) } else { StoreError::database(step, error) }
}

/// A statement as PostgreSQL reads it: parameters are `$1`, and what stands in `/*pg: … */` counts.
pub(super) fn dialect(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once("/*pg:") {
        let (inside, behind) = after.split_once("*/").unwrap_or((after, ""));
        text.push_str(before);
        text.push_str(inside);
        rest = behind;
    }
    text.push_str(rest);
    // No statement of ours has a question mark for anything else.
    text.replace('?', "$")
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Source> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) if *ty == Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
            Self::Int(number) => number.to_sql(ty, out),
            Self::Text(text) => text.to_sql(ty, out),
            Self::Blob(bytes) => bytes.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT4 | Type::INT8 | Type::TEXT | Type::VARCHAR | Type::BYTEA)
    }

    to_sql_checked!();
}

fn row(from: &tokio_postgres::Row) -> Result<Row, StoreError> {
    let error = |error| StoreError::database("read a row", error);
    let column = |index: usize| {
        let value = match *from.columns()[index].type_() {
            Type::INT8 => from.try_get::<_, Option<i64>>(index).map_err(error)?.map(Value::Int),
            Type::INT4 => {
                let number = from.try_get::<_, Option<i32>>(index).map_err(error)?;
                number.map(|number| Value::Int(i64::from(number)))
            }
            Type::BYTEA => {
                from.try_get::<_, Option<Vec<u8>>>(index).map_err(error)?.map(Value::Blob)
            }
            _ => from.try_get::<_, Option<String>>(index).map_err(error)?.map(Value::Text),
        };
        Ok(value.unwrap_or(Value::Null))
    };
    (0..from.len()).map(column).collect::<Result<_, _>>().map(Row)
}

fn parameters(args: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    args.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

/// A connection in a transaction.
pub(super) struct PgTx<'t, 'p>(pub &'t mut Lent<'p>);

impl Tx for PgTx<'_, '_> {
    fn query<'t>(
        &'t mut self,
        sql: &'static str,
        args: Vec<Value>,
    ) -> BoxFuture<'t, Result<Vec<Row>, StoreError>> {
        Box::pin(async move {
            Value::check(&args)?;
            let (client, statement) = self.0.prepared(sql).await?;
            let rows = client.query(&statement, &parameters(&args)).await;
            rows.map_err(|error| failed("run a query", error))?.iter().map(row).collect()
        })
    }

    fn execute<'t>(
        &'t mut self,
        sql: &'static str,
        args: Vec<Value>,
    ) -> BoxFuture<'t, Result<u64, StoreError>> {
        Box::pin(async move {
            Value::check(&args)?;
            let (client, statement) = self.0.prepared(sql).await?;
            let changed = client.execute(&statement, &parameters(&args)).await;
            changed.map_err(|error| failed("run a statement", error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_comments_become_postgresql() {
        let check = |sql: &str, want: &str| assert_eq!(dialect(sql), want);
        check("SELECT ?1, ?12", "SELECT $1, $12");
        check("a /*pg: FOR SHARE */", "a  FOR SHARE ");
        check("a /*pg:b*/ c /*pg:d*/ /* e */", "a b c d /* e */");
    }
}
