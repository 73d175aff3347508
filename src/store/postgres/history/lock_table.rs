//! The limit that the server's lock table sets on history.

use crate::store::postgres::PostgresStore;
use crate::store::postgres::history::partitions::DAYS_AHEAD;
use crate::store::sql::connection::access::Access;
use crate::store::{Result, sql};

/// The number of locks in the server's lock table, and the number of locks that a statement takes
/// for each day that it scans: two tables and their indexes. Source: the PostgreSQL manual on
/// `max_locks_per_transaction`.
const LOCKS: &str = "
    SELECT current_setting('max_locks_per_transaction')::bigint
               * (current_setting('max_connections')::bigint
                  + current_setting('max_prepared_transactions')::bigint),
           (SELECT 2 + count(*) FROM pg_index
            WHERE indrelid IN ('jobs'::regclass, 'attempts'::regclass))";

impl PostgresStore {
    /// Returns the maximum number of days of history. With so many days, each connection of this
    /// replica's API can scan all of them at once, and no other statement fails because the lock
    /// table is full.
    ///
    /// # Errors
    /// If the server does not answer or rejects the query.
    pub async fn bearable_days(&self) -> Result<u64> {
        let locks = self.scheduler.one("bearable_days", sql::query_as(LOCKS));
        let (locks, of_a_day): (i64, i64) = locks.await?;
        let of_all = of_a_day * i64::from(self.settings.api_connections);
        Ok(u64::try_from(locks / of_all - DAYS_AHEAD - 1).unwrap_or(0))
    }
}
