//! Health checks, counts, and the deletion of old rows.

use std::future::Future;

use async_trait::async_trait;

use crate::domain::shard::Epoch;
use crate::domain::{AccountId, Timestamp};
use crate::store::sql::connection::Dialect;
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::encoding::rows::{StoreRow, read_rows};
use crate::store::sql::history::old_rows::{OldRows, prune};
use crate::store::sql::history::prune_account;
use crate::store::sql::leadership::all_shards;
use crate::store::{CurrentLeader, PrunedRows, Result, ShardRecord, UpkeepStore, WaitingJobs, sql};

/// Reads the accounts of a plan whose history was last pruned before an instant, the longest ago
/// first. Parameters: plan, instant, number of rows.
pub(in crate::store) const SHORT_HISTORIES: &str =
    "SELECT id FROM accounts WHERE plan = $1 AND pruned_at < $2 ORDER BY pruned_at, id LIMIT $3";

const SHARD_RECORDS: &str = concat!(
    all_shards!(),
    "SELECT n.shard, s.replica, s.epoch, s.led_at, t.since AS due_since, j.since AS waiting_since
     FROM n
     LEFT JOIN shards AS s ON s.shard = n.shard
     LEFT JOIN (SELECT shard, min(next_tick) AS since FROM schedule_state
                WHERE next_tick <= $1 GROUP BY shard) AS t ON t.shard = n.shard
     LEFT JOIN (SELECT shard, min(wake_at) AS since FROM runs
                WHERE status = 0 AND wake_at <= $1 GROUP BY shard) AS j ON j.shard = n.shard
     ORDER BY n.shard"
);

pub(in crate::store) const OLD_KEYS: OldRows = OldRows {
    table: "api_keys",
    condition: "coalesce(revoked_at, expires_at) < $1",
    order: "coalesce(revoked_at, expires_at)",
};

/// The part of the upkeep that depends on the database.
pub(in crate::store) trait DatabaseUpkeep: Database {
    /// Returns an error unless the store can be written to.
    fn check_writable(&self) -> impl Future<Output = Result<()>> + Send;
    /// Returns the time of the database's own clock, if it has one.
    fn own_time(&self) -> impl Future<Output = Result<Option<Timestamp>>> + Send;
    /// Creates the partitions of the days around `now`, if the database has partitions.
    fn make_partitions(&self, now: Timestamp) -> impl Future<Output = Result<()>> + Send;
    /// Deletes history that ended before `before`.
    fn prune_history(
        &self,
        before: Timestamp,
        limit: u32,
    ) -> impl Future<Output = Result<PrunedRows>> + Send;
}

read_rows! {
    ShardRecord { shard, leader by led_by, due_since, waiting_since }
    WaitingJobs { jobs as i64, since }
}

fn led_by(row: &impl StoreRow) -> sqlx::Result<Option<CurrentLeader>> {
    let (replica, epoch): (Option<String>, Option<i64>) =
        (row.read("replica")?, row.read("epoch")?);
    let leader = replica.zip(epoch).zip(row.read("led_at")?);
    Ok(leader.map(|((replica, epoch), at)| CurrentLeader { replica, epoch: Epoch(epoch), at }))
}

#[async_trait]
impl<D: DatabaseUpkeep> UpkeepStore for D {
    async fn ping(&self) -> Result<()> {
        self.check_writable().await
    }

    async fn time(&self) -> Result<Option<Timestamp>> {
        self.own_time().await
    }

    async fn prepare(&self, now: Timestamp) -> Result<()> {
        self.make_partitions(now).await
    }

    async fn prune(&self, before: Timestamp, limit: u32) -> Result<PrunedRows> {
        self.prune_history(before, limit).await
    }

    async fn short_histories(
        &self,
        plan: &str,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<AccountId>> {
        let accounts = sql::query_scalar(SHORT_HISTORIES).bind(plan.to_owned());
        let accounts = accounts.bind(before).bind(i64::from(limit));
        self.scheduler().scalars("short_histories", accounts).await
    }

    async fn prune_account(
        &self,
        account: AccountId,
        before: Timestamp,
        now: Timestamp,
        limit: u32,
    ) -> Result<u64> {
        let prune = call(prune_account, (account, before, now, limit));
        self.scheduler().batch("prune_account", limit as usize, prune).await
    }

    async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64> {
        prune(self, "prune_keys", before, limit, OLD_KEYS).await
    }

    async fn shard_records(&self, now: Timestamp) -> Result<Vec<ShardRecord>> {
        self.scheduler().all("shard_records", sql::query_as(SHARD_RECORDS).bind(now)).await
    }

    async fn unfinished(&self, cap: u32) -> Result<u64> {
        let query = "SELECT count(*) FROM (SELECT 1 AS one FROM runs LIMIT $1) AS counted";
        let query = sql::query_scalar::<i64>(query).bind(i64::from(cap));
        Ok(self.scheduler().scalar("unfinished", query).await?.unwrap_or(0).unsigned_abs())
    }

    async fn waiting(&self, now: Timestamp, cap: u32) -> Result<WaitingJobs> {
        let query = sql::query_as(waiting(D::DIALECT)).bind(now).bind(i64::from(cap));
        self.scheduler().one("waiting", query).await
    }
}

/// Returns the statement that counts the jobs that wait. Parameters: instant, number of rows.
pub(in crate::store) fn waiting(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => {
            "SELECT count(*) AS jobs, min(wake_at) AS since FROM
                 (SELECT wake_at FROM runs WHERE status = 0 AND wake_at <= $1
                  ORDER BY wake_at LIMIT $2) AS counted"
        }
        Dialect::Sqlite => {
            "SELECT count(*) AS jobs, min(wake_at) AS since FROM
                 (SELECT wake_at FROM runs INDEXED BY runs_wake
                  WHERE status = 0 AND wake_at <= $1 ORDER BY wake_at LIMIT $2)"
        }
    }
}
