//! What accounts have, whole, and their end.

use std::sync::PoisonError;

use async_trait::async_trait;
use sqlx::PgConnection;

use super::error::Outcome;
use super::removing::{delete_account, erase, rows_left};
use super::{PostgresStore, Within};
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, ScheduleId, Timestamp, VersionId};
use crate::store::life::{
    DELETED, FIRST_DELETED, FIRST_SKIP, FIRST_VERSION, GOING_ACCOUNTS, MONTHS, SKIPS, VERSIONS,
};
use crate::store::{
    DeletedAccount, DeletedPlace, Erased, LifeStore, Result, SkipPlace, StoredMonth, StoredSkip,
    StoredVersion, Write,
};

#[async_trait]
impl LifeStore for PostgresStore {
    async fn versions(
        &self,
        account: AccountId,
        after: Option<VersionId>,
        limit: u32,
    ) -> Result<Vec<StoredVersion>> {
        let after = after.unwrap_or(FIRST_VERSION);
        let versions = self.api.run("versions", Within::Statement, move |connection| {
            Box::pin(async move {
                let query = sqlx::query_as(VERSIONS).bind(account).bind(after);
                Ok(query.bind(i64::from(limit)).fetch_all(connection).await?)
            })
        });
        let mut versions: Vec<StoredVersion> = versions.await?;
        versions.iter_mut().for_each(|version| self.vault.open_version(account, version));
        Ok(versions)
    }

    async fn skips_of(
        &self,
        account: AccountId,
        after: Option<SkipPlace>,
        limit: u32,
    ) -> Result<Vec<StoredSkip>> {
        let (first, id) = after.unwrap_or(FIRST_SKIP);
        self.api
            .run("skips_of", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_as(SKIPS).bind(account).bind(first).bind(id);
                    Ok(query.bind(i64::from(limit)).fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn months(&self, account: AccountId) -> Result<Vec<StoredMonth>> {
        self.api
            .run("months", Within::Statement, move |connection| {
                let query = sqlx::query_as(MONTHS).bind(account);
                Box::pin(async move { Ok(query.fetch_all(connection).await?) })
            })
            .await
    }

    async fn delete_account(&self, write: &Write) -> Result<bool> {
        let write = *write;
        let deleted = self.api.run("delete_account", Within::Transaction, move |connection| {
            Box::pin(delete_account(connection, write))
        });
        let deleted = deleted.await?;
        // It is deleted, whatever follows: who was told otherwise could not even call again.
        if deleted && let Err(error) = self.fence_shards("delete_account", write.account).await {
            let account = write.account;
            tracing::warn!(
                %account,
                %error,
                "the account is deleted, but not all leaders were waited for: what they have read \
                 of it before may become jobs until a server removes what it had"
            );
        }
        Ok(deleted)
    }

    async fn deleted_accounts(&self) -> Result<Vec<DeletedAccount>> {
        self.scheduler
            .run("deleted_accounts", Within::Statement, |connection| {
                Box::pin(async move { Ok(sqlx::query_as(DELETED).fetch_all(connection).await?) })
            })
            .await
    }

    async fn going_accounts(
        &self,
        after: Option<DeletedPlace>,
        limit: u32,
    ) -> Result<Vec<DeletedAccount>> {
        let (deleted_at, id) = after.unwrap_or(FIRST_DELETED);
        self.scheduler
            .run("going_accounts", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_as(GOING_ACCOUNTS).bind(deleted_at).bind(id);
                    let query = query.bind(i64::from(limit));
                    Ok(query.fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn rows_left(&self, account: AccountId) -> Result<u64> {
        self.scheduler
            .run("rows_left", Within::AllDays, move |connection| {
                Box::pin(rows_left(connection, account))
            })
            .await
    }

    async fn erase(&self, account: AccountId, now: Timestamp, limit: u32) -> Result<Erased> {
        self.fence_deleted(account).await?;
        self.scheduler
            .run("erase", Within::AllDays, move |connection| {
                Box::pin(erase(connection, account, now, limit))
            })
            .await
    }
}

impl PostgresStore {
    /// Sees to it that what leaders have read of a deleted account does not fire, before any of it is
    /// removed: who deleted it may have died before. Done once by each replica that removes it.
    async fn fence_deleted(&self, account: AccountId) -> Result<()> {
        let fenced = || self.fenced.lock().unwrap_or_else(PoisonError::into_inner);
        if fenced().contains(&account) {
            return Ok(());
        }
        self.fence_shards("erase", account).await?;
        fenced().insert(account);
        Ok(())
    }
}

/// Whether this replica is the one that does `work` now, until the end of the transaction: the others
/// would wait for its rows, or find nothing.
pub(super) async fn is_alone(connection: &mut PgConnection, work: &str) -> Outcome<bool> {
    let query = "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))";
    let query = sqlx::query_scalar(query).bind(format!("punctual {work}"));
    Ok(query.fetch_one(connection).await?)
}

/// Account, number of rows.
pub(super) const RUNS: &str =
    "SELECT id FROM runs WHERE account_id = $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED";

/// Account, number of rows.
pub(super) const JOBS: &str =
    "SELECT id FROM jobs WHERE account_id = $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED";

/// The rows are locked in the order of the adapter: schedules, then their states, each by id.
pub(super) async fn remove_schedules(
    connection: &mut PgConnection,
    account: AccountId,
    limit: u32,
) -> Outcome<Vec<(ShardId, ScheduleId)>> {
    let schedules: Vec<(ShardId, ScheduleId)> = sqlx::query_as(
        "SELECT shard, id FROM schedules WHERE account_id = $1
         ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED",
    )
    .bind(account)
    .bind(i64::from(limit))
    .fetch_all(&mut *connection)
    .await?;
    if schedules.is_empty() {
        return Ok(schedules);
    }
    let (shards, ids): (Vec<ShardId>, Vec<ScheduleId>) = schedules.iter().copied().unzip();
    for statement in [LOCK_STATES, DELETE_STATES] {
        sqlx::query(statement).bind(&shards).bind(&ids).execute(&mut *connection).await?;
    }
    sqlx::query("DELETE FROM schedules WHERE account_id = $1 AND id = ANY ($2)")
        .bind(account)
        .bind(&ids)
        .execute(connection)
        .await?;
    Ok(schedules)
}

const LOCK_STATES: &str = "
    SELECT FROM unnest($1::integer[], $2::uuid[]) AS e (shard, id)
    CROSS JOIN LATERAL (
        SELECT FROM schedule_state AS st WHERE st.shard = e.shard AND st.schedule_id = e.id
        FOR UPDATE) AS held";

const DELETE_STATES: &str = "
    DELETE FROM schedule_state AS st USING unnest($1::integer[], $2::uuid[]) AS e (shard, id)
    WHERE st.shard = e.shard AND st.schedule_id = e.id";
