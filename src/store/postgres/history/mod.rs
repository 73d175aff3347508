//! Health, the server's time, and the partitions of the next days.

pub(super) mod lock_table;
pub(super) mod partitions;
pub(super) mod prune;

use std::sync::atomic::Ordering;

use super::{PostgresStore, failed_in};
use crate::domain::Timestamp;
use crate::store::sql::connection::access::Access;
use crate::store::sql::error::SqlError;
use crate::store::sql::upkeep::DatabaseUpkeep;
use crate::store::{PrunedRows, Result, StoreErrorKind, sql};
use crate::telemetry::metrics::PARTITIONS_AHEAD_SECONDS;
use partitions::days_around;

const READ_ONLY: &str = "
    SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean";
const TIME: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

impl DatabaseUpkeep for PostgresStore {
    async fn check_writable(&self) -> Result<()> {
        let (is_read_only,): (bool,) = self.scheduler.one("ping", sql::query_as(READ_ONLY)).await?;
        if is_read_only {
            let error = SqlError::new(StoreErrorKind::Unavailable, "the server is read-only");
            return Err(error.of("ping"));
        }
        Ok(())
    }

    async fn own_time(&self) -> Result<Option<Timestamp>> {
        self.scheduler.scalar("time", sql::query_scalar(TIME)).await
    }

    async fn make_partitions(&self, now: Timestamp) -> Result<()> {
        let days = days_around(now);
        let until = days.last().map(|last| last.plus(1).start());
        self.make_days(days).await.map_err(failed_in("prepare"))?;
        PARTITIONS_AHEAD_SECONDS.end((), until);
        self.present.fetch_max(now.as_millis(), Ordering::Relaxed);
        Ok(())
    }

    async fn prune_history(&self, before: Timestamp, limit: u32) -> Result<PrunedRows> {
        self.prune_days_and_rows(before, limit).await.map_err(failed_in("prune"))
    }
}
