//! Health, time, and the days to come.

use std::sync::atomic::Ordering;

use async_trait::async_trait;

use super::error::Fault;
use super::partitions::days_around;
use super::values::count;
use super::{PostgresStore, Within, failed_in};
use crate::domain::Timestamp;
use crate::store::{Result, StoreErrorKind, Upkeep, UpkeepStore};

#[async_trait]
impl UpkeepStore for PostgresStore {
    async fn ping(&self) -> Result<()> {
        let read_only = "SELECT pg_is_in_recovery()
                             OR current_setting('transaction_read_only')::boolean";
        self.scheduler
            .run("ping", Within::Statement, move |connection| {
                Box::pin(async move {
                    if sqlx::query_scalar(read_only).fetch_one(connection).await? {
                        return Err(Fault::new(
                            StoreErrorKind::Unavailable,
                            "the server is read-only",
                        ));
                    }
                    Ok(())
                })
            })
            .await
    }

    async fn time(&self) -> Result<Option<Timestamp>> {
        let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        self.scheduler
            .run("time", Within::Statement, move |connection| {
                Box::pin(
                    async move { Ok(Some(sqlx::query_scalar(now).fetch_one(connection).await?)) },
                )
            })
            .await
    }

    async fn prepare(&self, now: Timestamp) -> Result<()> {
        self.make_days(days_around(now)).await.map_err(failed_in("prepare"))?;
        self.present.fetch_max(now.as_millis(), Ordering::Relaxed);
        Ok(())
    }

    async fn prune(&self, before: Timestamp, limit: u32) -> Result<Upkeep> {
        self.prune_history(before, limit).await.map_err(failed_in("prune"))
    }

    async fn unfinished(&self, cap: u32) -> Result<u64> {
        self.scheduler
            .run("unfinished", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = "SELECT count(*) FROM
                                     (SELECT FROM jobs WHERE status < 2 LIMIT $1) AS counted";
                    let query = sqlx::query_scalar(query).bind(i64::from(cap));
                    Ok(count(query.fetch_one(connection).await?))
                })
            })
            .await
    }
}
