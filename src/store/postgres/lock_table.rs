//! How much history the server has room for in its table of locks.

use super::partitions::AHEAD;
use super::{PostgresStore, Within};
use crate::store::Result;

/// The locks that the server has room for, and those that a statement takes for each day that it looks
/// through: of the two tables and their indexes. Source: the PostgreSQL manual on
/// `max_locks_per_transaction`.
const LOCKS: &str = "
    SELECT current_setting('max_locks_per_transaction')::bigint
               * (current_setting('max_connections')::bigint
                  + current_setting('max_prepared_transactions')::bigint),
           (SELECT 2 + count(*) FROM pg_index
            WHERE indrelid IN ('jobs'::regclass, 'attempts'::regclass))";

impl PostgresStore {
    /// How many days of history there can be, so that each connection of this replica's API can look
    /// through all of it at once and no other statement fails for want of a lock.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn bearable_days(&self) -> Result<u64> {
        let locks = self.scheduler.run("bearable_days", Within::Statement, |connection| {
            Box::pin(async move { Ok(sqlx::query_as(LOCKS).fetch_one(connection).await?) })
        });
        let (locks, of_a_day): (i64, i64) = locks.await?;
        let of_all = of_a_day * i64::from(self.settings.api_connections);
        Ok(u64::try_from(locks / of_all - AHEAD - 1).unwrap_or(0))
    }
}
