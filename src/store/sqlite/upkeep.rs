//! Health, and the end of history.

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::error::Outcome;
use super::values::{json_ids, key_from};
use super::{SqliteStore, failed_in};
use crate::domain::shard::{Epoch, ShardId};
use crate::domain::{AccountId, AuditId, JobId, Timestamp};
use crate::store::upkeep::{PRUNE_ACCOUNT_LOG, PRUNE_ACCOUNT_SKIPS, PRUNE_KEYS};
use crate::store::{LedBy, Result, ShardRecord, Upkeep, UpkeepStore};

/// Number, leader, epoch and since when; the oldest due tick, the oldest waiting job.
type RecordRow =
    (ShardId, Option<String>, Option<i64>, Option<Timestamp>, Option<Timestamp>, Option<Timestamp>);

const SHARD_RECORDS: &str = "
    WITH RECURSIVE n (shard) AS (
        SELECT 0 FROM meta WHERE name = 'shards'
        UNION ALL
        SELECT shard + 1 FROM n
        WHERE shard + 1 < (SELECT value FROM meta WHERE name = 'shards'))
    SELECT n.shard, s.replica, s.epoch, s.led_at, t.since, j.since
    FROM n
    LEFT JOIN shards AS s ON s.shard = n.shard
    LEFT JOIN (SELECT shard, min(next_tick) AS since FROM schedule_state
               WHERE next_tick <= ?1 GROUP BY shard) AS t ON t.shard = n.shard
    LEFT JOIN (SELECT shard, min(wake_at) AS since FROM jobs
               WHERE status = 0 AND wake_at <= ?1 GROUP BY shard) AS j ON j.shard = n.shard
    ORDER BY n.shard";

fn record((shard, replica, epoch, at, due_since, waiting_since): RecordRow) -> ShardRecord {
    let led = replica.zip(epoch).zip(at);
    let led = led.map(|((replica, epoch), at)| LedBy { replica, epoch: Epoch(epoch), at });
    ShardRecord { shard, led, due_since, waiting_since }
}

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

    async fn prune_account(
        &self,
        account: AccountId,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64> {
        self.write_rows("prune_account", limit as usize, move |connection| {
            Box::pin(prune_account(connection, account, before, limit))
        })
        .await
    }

    async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.write_rows("prune_keys", limit as usize, move |connection| {
            Box::pin(async move {
                let query = sqlx::query(PRUNE_KEYS).bind(before).bind(limit);
                Ok(query.execute(connection).await?.rows_affected())
            })
        })
        .await
    }

    async fn shard_records(&self, now: Timestamp) -> Result<Vec<ShardRecord>> {
        let query = sqlx::query_as(SHARD_RECORDS).bind(now);
        let rows = self.readers.all::<RecordRow>(query).await;
        let rows = rows.map_err(failed_in("shard_records"))?;
        Ok(rows.into_iter().map(record).collect())
    }

    async fn unfinished(&self, cap: u32) -> Result<u64> {
        let query = sqlx::query_as(
            "SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_unfinished
                 WHERE status < 2 LIMIT ?1)",
        )
        .bind(cap);
        let (count,): (i64,) = self.readers.one(query).await.map_err(failed_in("unfinished"))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

async fn prune(
    connection: &mut SqliteConnection,
    before: Timestamp,
    limit: u32,
) -> Outcome<Upkeep> {
    let jobs = prune_jobs(connection, before, limit).await?;
    let skips = sqlx::query(
        "DELETE FROM skips WHERE id IN
             (SELECT id FROM skips WHERE last_tick < ?1 ORDER BY last_tick LIMIT ?2)",
    )
    .bind(before)
    .bind(limit)
    .execute(&mut *connection)
    .await?
    .rows_affected();
    let versions = sqlx::query(PRUNE_VERSIONS)
        .bind(before)
        .bind(limit)
        .bind(RETIRING_MS)
        .execute(connection)
        .await?
        .rows_affected();
    Ok(Upkeep { jobs, skips, versions })
}

/// A version's jobs are made before it is retired, give or take the time that a call is under way;
/// this many milliseconds are more than enough for that.
const RETIRING_MS: i64 = 3_600_000;

/// Looks only at the jobs up to the time at which the version was retired: most of those are gone,
/// while the schedule may have any number of newer ones.
pub(super) const PRUNE_VERSIONS: &str = "
    DELETE FROM schedule_versions WHERE id IN
        (SELECT v.id FROM schedule_versions AS v
         WHERE v.retired_at < ?1
           AND NOT EXISTS
               (SELECT 1 FROM jobs AS j
                WHERE j.schedule_id = v.schedule_id AND j.version_id = v.id
                  AND j.id < unhex(printf('%012x', v.retired_at + ?3) || '00000000000000000000'))
         ORDER BY v.retired_at LIMIT ?2)";

/// No job has ended before its run was due, so the old ones are at the lower end of the key.
pub(super) const OLD_JOBS: &str = "
    SELECT id FROM jobs WHERE id < ?1 AND status >= 2 AND completed_at < ?2
    ORDER BY id LIMIT ?3";

async fn prune_account(
    connection: &mut SqliteConnection,
    account: AccountId,
    before: Timestamp,
    limit: u32,
) -> Outcome<u64> {
    let jobs: Vec<JobId> = sqlx::query_scalar(OLD_JOBS_OF)
        .bind(account)
        .bind(key_from(before))
        .bind(before)
        .bind(limit)
        .fetch_all(&mut *connection)
        .await?;
    remove_jobs(connection, &jobs).await?;
    let skips = sqlx::query(PRUNE_ACCOUNT_SKIPS).bind(account).bind(before).bind(limit);
    let skips = skips.execute(&mut *connection).await?.rows_affected();
    let log =
        sqlx::query(PRUNE_ACCOUNT_LOG).bind(account).bind(AuditId::new(before, 0)).bind(limit);
    let log = log.execute(connection).await?.rows_affected();
    Ok(skips.max(log).max(jobs.len() as u64))
}

pub(super) const OLD_JOBS_OF: &str = "
    SELECT id FROM jobs WHERE account_id = ?1 AND id < ?2 AND status >= 2 AND completed_at < ?3
    ORDER BY id LIMIT ?4";

async fn prune_jobs(
    connection: &mut SqliteConnection,
    before: Timestamp,
    limit: u32,
) -> Outcome<u64> {
    let jobs: Vec<JobId> = sqlx::query_scalar(OLD_JOBS)
        .bind(key_from(before))
        .bind(before)
        .bind(limit)
        .fetch_all(&mut *connection)
        .await?;
    remove_jobs(connection, &jobs).await
}

/// Removes jobs with their attempts. Returns how many jobs there were.
pub(super) async fn remove_jobs(connection: &mut SqliteConnection, jobs: &[JobId]) -> Outcome<u64> {
    if jobs.is_empty() {
        return Ok(0);
    }
    let ids = json_ids(jobs);
    sqlx::query("DELETE FROM attempts WHERE job_id IN (SELECT unhex(value) FROM json_each(?1))")
        .bind(&ids)
        .execute(&mut *connection)
        .await?;
    let pruned =
        sqlx::query("DELETE FROM jobs WHERE id IN (SELECT unhex(value) FROM json_each(?1))")
            .bind(&ids)
            .execute(connection)
            .await?;
    Ok(pruned.rows_affected())
}
