//! What accounts have, whole, and their end.

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, PgConnection};

use super::account_lock::SUSPENSIONS;
use super::error::Outcome;
use super::prune::remove_jobs;
use super::values::count;
use super::{PostgresStore, Within};
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::store::life::{
    CLEARED, DELETE, DELETED, DELETED_AT, FIRST_SKIP, FIRST_VERSION, GONE, MONTHS, NOTE,
    ROWS_COUNTED, SETTLED, SKIPS, VERSIONS, count_rows,
};
use crate::store::{
    DeletedAccount, Erased, LifeStore, Result, SkipPlace, StoredMonth, StoredSkip, StoredVersion,
    Write,
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
        self.api
            .run("delete_account", Within::Transaction, move |connection| {
                Box::pin(delete(connection, write))
            })
            .await
    }

    async fn deleted_accounts(&self) -> Result<Vec<DeletedAccount>> {
        self.scheduler
            .run("deleted_accounts", Within::Statement, |connection| {
                Box::pin(async move { Ok(sqlx::query_as(DELETED).fetch_all(connection).await?) })
            })
            .await
    }

    async fn rows_left(&self, account: AccountId) -> Result<u64> {
        self.scheduler
            .run("rows_left", Within::AllDays, move |connection| {
                Box::pin(rows_left(connection, account, ROWS_COUNTED))
            })
            .await
    }

    async fn erase(&self, account: AccountId, now: Timestamp, limit: u32) -> Result<Erased> {
        self.scheduler
            .run("erase", Within::AllDays, move |connection| {
                Box::pin(erase(connection, account, now, limit))
            })
            .await
    }
}

async fn delete(connection: &mut PgConnection, write: Write) -> Outcome<bool> {
    let query = sqlx::query_scalar(DELETE).bind(write.account);
    let name: Option<String> = query.fetch_optional(&mut *connection).await?;
    let Some(name) = name else { return Ok(false) };
    sqlx::query(SUSPENSIONS).execute(&mut *connection).await?;
    sqlx::query(NOTE)
        .bind(write.account)
        .bind(name)
        .bind(write.now)
        .bind(write.author.actor.to_string())
        .bind(write.author.origin.to_string())
        .execute(connection)
        .await?;
    Ok(true)
}

async fn rows_left(connection: &mut PgConnection, id: AccountId, most: i64) -> Outcome<u64> {
    let query = sqlx::query_scalar(AssertSqlSafe(count_rows())).bind(id).bind(most);
    Ok(count(query.fetch_one(connection).await?))
}

async fn erase(
    connection: &mut PgConnection,
    account: AccountId,
    now: Timestamp,
    limit: u32,
) -> Outcome<Erased> {
    // One replica at a time: the others would wait for its rows, or find nothing.
    let alone: bool = sqlx::query_scalar(
        "SELECT pg_try_advisory_xact_lock(hashtextextended('punctual erase', 0))",
    )
    .fetch_one(&mut *connection)
    .await?;
    let query = sqlx::query_scalar(DELETED_AT).bind(account);
    let deleted_at: Option<Timestamp> = query.fetch_optional(&mut *connection).await?;
    let Some(deleted_at) = deleted_at.filter(|_| alone) else { return Ok(Erased::default()) };
    let schedules = erase_schedules(connection, account, limit).await?;
    if !schedules.is_empty() {
        return Ok(Erased { rows: schedules.len() as u64, schedules, gone: false });
    }
    let jobs: Vec<JobId> = sqlx::query_scalar(
        "SELECT id FROM jobs WHERE account_id = $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED",
    )
    .bind(account)
    .bind(i64::from(limit))
    .fetch_all(&mut *connection)
    .await?;
    if !jobs.is_empty() {
        let rows = remove_jobs(connection, &jobs).await?;
        return Ok(Erased { rows, ..Erased::default() });
    }
    for (_, statement) in CLEARED {
        let query = sqlx::query(statement).bind(account).bind(i64::from(limit));
        let rows = query.execute(&mut *connection).await?.rows_affected();
        if rows > 0 {
            return Ok(Erased { rows, ..Erased::default() });
        }
    }
    let gone = now >= deleted_at.plus(SETTLED) && rows_left(connection, account, 1).await? == 0;
    if gone {
        sqlx::query(GONE).bind(account).bind(now).execute(connection).await?;
    }
    Ok(Erased { gone, ..Erased::default() })
}

/// The rows are locked in the order of the adapter: schedules, then their states, each by id.
async fn erase_schedules(
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
