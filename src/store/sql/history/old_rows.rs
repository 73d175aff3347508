//! The removal of old rows, by one replica at a time.

use sqlx::AssertSqlSafe;

use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::connection::query::{Query, Value};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::error::SqlResult;
use crate::store::{Result, sql};

/// Rows of a table that are deleted when their time is over.
#[derive(Clone, Copy)]
pub(in crate::store) struct OldRows {
    pub(in crate::store) table: &'static str,
    /// The condition. `$1` is the instant, or the id, before which rows are old.
    pub(in crate::store) condition: &'static str,
    /// The order in which they are deleted: that of an index.
    pub(in crate::store) order: &'static str,
}

impl OldRows {
    /// Returns the statement. Parameters: those of [`condition`](Self::condition), the number of
    /// rows.
    pub(in crate::store) fn removal(self, dialect: Dialect) -> String {
        let Self { table, condition, order } = self;
        let skip_locked = dialect.skip_locked();
        format!(
            "DELETE FROM {table} WHERE id IN
                 (SELECT id FROM {table} WHERE {condition} ORDER BY {order} LIMIT $2 {skip_locked})"
        )
    }
}

/// Deletes at most `limit` old rows and returns their number; 0 while another replica deletes them.
pub(in crate::store) async fn prune<D: Database>(
    store: &D,
    operation: &'static str,
    before: impl Value,
    limit: u32,
    rows: OldRows,
) -> Result<u64> {
    let removal = sql::query(AssertSqlSafe(rows.removal(D::DIALECT)));
    let removal = removal.bind(before).bind(i64::from(limit));
    let remove = call(execute_alone, (operation, removal));
    store.scheduler().batch(operation, limit as usize, remove).await
}

/// Runs a statement if this replica is the only one that does `work`.
pub(in crate::store) async fn execute_alone(
    connection: &mut Connection<'_>,
    work: &'static str,
    statement: Query,
) -> SqlResult<u64> {
    if is_alone(connection, work).await? { statement.execute(connection).await } else { Ok(0) }
}

/// Returns `true` if this replica is the only one that does `work`, until the transaction ends.
/// Others would only wait for its rows, or find none.
pub(in crate::store) async fn is_alone(
    connection: &mut Connection<'_>,
    work: &str,
) -> SqlResult<bool> {
    match connection.dialect() {
        Dialect::Postgres => {
            let query = "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))";
            sql::query_scalar(query).bind(format!("punctual {work}")).fetch_one(connection).await
        }
        Dialect::Sqlite => Ok(true),
    }
}
