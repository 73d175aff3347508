//! Health, time, and the days to come.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use sqlx::AssertSqlSafe;

use super::account_lock::PASSING;
use super::error::Fault;
use super::partitions::days_around;
use super::removing::prune_account;
use super::values::count;
use super::{PostgresStore, Within, failed_in};
use crate::domain::{AccountId, Timestamp};
use crate::store::upkeep::{SHORT_HISTORIES, prune_keys};
use crate::store::{Result, ShardRecord, StoreErrorKind, Upkeep, UpkeepStore, Waiting};
use crate::telemetry::metrics::PARTITIONS_AHEAD_SECONDS;

const SHARD_RECORDS: &str = "
    SELECT n.shard, s.replica, s.epoch, s.led_at, t.since AS due_since,
           j.since AS waiting_since
    FROM generate_series(
             0, (SELECT value::integer - 1 FROM meta WHERE name = 'shards')) AS n (shard)
    LEFT JOIN shards AS s ON s.shard = n.shard
    LEFT JOIN (SELECT shard, min(next_tick) AS since FROM schedule_state
               WHERE next_tick <= $1 GROUP BY shard) AS t ON t.shard = n.shard
    LEFT JOIN (SELECT shard, min(wake_at) AS since FROM runs
               WHERE status = 0 AND wake_at <= $1 GROUP BY shard) AS j ON j.shard = n.shard
    ORDER BY n.shard";

const WAITING: &str = "
    SELECT count(*) AS jobs, min(wake_at) AS since FROM
        (SELECT wake_at FROM runs WHERE status = 0 AND wake_at <= $1
         ORDER BY wake_at LIMIT $2) AS counted";

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
        let days = days_around(now);
        let until = days.last().map(|last| last.plus(1).start());
        self.make_days(days).await.map_err(failed_in("prepare"))?;
        PARTITIONS_AHEAD_SECONDS.end((), until);
        self.present.fetch_max(now.as_millis(), Ordering::Relaxed);
        Ok(())
    }

    async fn prune(&self, before: Timestamp, limit: u32) -> Result<Upkeep> {
        self.prune_history(before, limit).await.map_err(failed_in("prune"))
    }

    async fn short_histories(
        &self,
        plan: &str,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<AccountId>> {
        let plan: Arc<str> = plan.into();
        self.scheduler
            .run("short_histories", Within::Statement, move |connection| {
                let plan = plan.clone();
                Box::pin(async move {
                    let query = sqlx::query_scalar(SHORT_HISTORIES).bind(&*plan).bind(before);
                    Ok(query.bind(i64::from(limit)).fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn prune_account(
        &self,
        account: AccountId,
        before: Timestamp,
        now: Timestamp,
        limit: u32,
    ) -> Result<u64> {
        self.scheduler
            .run("prune_account", Within::Transaction, move |connection| {
                Box::pin(prune_account(connection, account, before, now, limit))
            })
            .await
    }

    async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.scheduler
            .run("prune_keys", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query(AssertSqlSafe(prune_keys(PASSING)))
                        .bind(before)
                        .bind(i64::from(limit));
                    Ok(query.execute(connection).await?.rows_affected())
                })
            })
            .await
    }

    async fn shard_records(&self, now: Timestamp) -> Result<Vec<ShardRecord>> {
        self.scheduler
            .run("shard_records", Within::Statement, move |connection| {
                Box::pin(async move {
                    Ok(sqlx::query_as(SHARD_RECORDS).bind(now).fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn unfinished(&self, cap: u32) -> Result<u64> {
        self.scheduler
            .run("unfinished", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = "SELECT count(*) FROM (SELECT FROM runs LIMIT $1) AS counted";
                    let query = sqlx::query_scalar(query).bind(i64::from(cap));
                    Ok(count(query.fetch_one(connection).await?))
                })
            })
            .await
    }

    async fn waiting(&self, now: Timestamp, cap: u32) -> Result<Waiting> {
        self.scheduler
            .run("waiting", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_as(WAITING).bind(now).bind(i64::from(cap));
                    Ok(query.fetch_one(connection).await?)
                })
            })
            .await
    }
}
