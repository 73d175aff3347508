//! Health.

use async_trait::async_trait;
use sqlx::AssertSqlSafe;

use super::account_lock::PASSING;
use super::prune::prune;
use super::removing::prune_account;
use super::{SqliteStore, failed_in};
use crate::domain::{AccountId, Timestamp};
use crate::store::upkeep::{SHORT_HISTORIES, prune_keys};
use crate::store::{Result, ShardRecord, Upkeep, UpkeepStore, Waiting};

const SHARD_RECORDS: &str = "
    WITH RECURSIVE n (shard) AS (
        SELECT 0 FROM meta WHERE name = 'shards'
        UNION ALL
        SELECT shard + 1 FROM n
        WHERE shard + 1 < (SELECT value FROM meta WHERE name = 'shards'))
    SELECT n.shard, s.replica, s.epoch, s.led_at, t.since AS due_since,
           j.since AS waiting_since
    FROM n
    LEFT JOIN shards AS s ON s.shard = n.shard
    LEFT JOIN (SELECT shard, min(next_tick) AS since FROM schedule_state
               WHERE next_tick <= ?1 GROUP BY shard) AS t ON t.shard = n.shard
    LEFT JOIN (SELECT shard, min(wake_at) AS since FROM runs
               WHERE status = 0 AND wake_at <= ?1 GROUP BY shard) AS j ON j.shard = n.shard
    ORDER BY n.shard";

const WAITING: &str = "
    SELECT count(*) AS jobs, min(wake_at) AS since FROM
        (SELECT wake_at FROM runs INDEXED BY runs_wake
         WHERE status = 0 AND wake_at <= ?1 ORDER BY wake_at LIMIT ?2)";

#[async_trait]
impl UpkeepStore for SqliteStore {
    async fn ping(&self) -> Result<()> {
        // Taking the write lock and nothing else: it shows that the file can be written to.
        self.write("ping", |_| Box::pin(async { Ok(()) })).await
    }

    async fn time(&self) -> Result<Option<Timestamp>> {
        Ok(None)
    }

    async fn prepare(&self, _now: Timestamp) -> Result<()> {
        Ok(())
    }

    async fn prune(&self, before: Timestamp, limit: u32) -> Result<Upkeep> {
        self.write_rows("prune", limit as usize, move |connection| {
            Box::pin(prune(connection, before, limit))
        })
        .await
    }

    async fn short_histories(
        &self,
        plan: &str,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<AccountId>> {
        let query = sqlx::query_as(SHORT_HISTORIES).bind(plan.to_owned()).bind(before).bind(limit);
        let rows: Vec<(AccountId,)> =
            self.readers.all(query).await.map_err(failed_in("short_histories"))?;
        Ok(rows.into_iter().map(|(account,)| account).collect())
    }

    async fn prune_account(
        &self,
        account: AccountId,
        before: Timestamp,
        now: Timestamp,
        limit: u32,
    ) -> Result<u64> {
        self.write_rows("prune_account", limit as usize, move |connection| {
            Box::pin(prune_account(connection, account, before, now, limit))
        })
        .await
    }

    async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.write_rows("prune_keys", limit as usize, move |connection| {
            Box::pin(async move {
                let query =
                    sqlx::query(AssertSqlSafe(prune_keys(PASSING))).bind(before).bind(limit);
                Ok(query.execute(connection).await?.rows_affected())
            })
        })
        .await
    }

    async fn shard_records(&self, now: Timestamp) -> Result<Vec<ShardRecord>> {
        let query = sqlx::query_as(SHARD_RECORDS).bind(now);
        self.readers.all(query).await.map_err(failed_in("shard_records"))
    }

    async fn unfinished(&self, cap: u32) -> Result<u64> {
        let query = sqlx::query_as("SELECT count(*) FROM (SELECT 1 FROM runs LIMIT ?1)").bind(cap);
        let (count,): (i64,) = self.readers.one(query).await.map_err(failed_in("unfinished"))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    async fn waiting(&self, now: Timestamp, cap: u32) -> Result<Waiting> {
        let query = sqlx::query_as(WAITING).bind(now).bind(cap);
        self.readers.one(query).await.map_err(failed_in("waiting"))
    }
}
