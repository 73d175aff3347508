//! What accounts have, whole, and their end.

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::account_lock::SUSPENSIONS;
use super::error::Outcome;
use super::upkeep::remove_jobs;
use super::values::json_ids;
use super::{SqliteStore, failed_in};
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
impl LifeStore for SqliteStore {
    async fn versions(
        &self,
        account: AccountId,
        after: Option<VersionId>,
        limit: u32,
    ) -> Result<Vec<StoredVersion>> {
        let query = sqlx::query_as(VERSIONS).bind(account);
        let query = query.bind(after.unwrap_or(FIRST_VERSION)).bind(limit);
        let mut versions: Vec<StoredVersion> =
            self.readers.all(query).await.map_err(failed_in("versions"))?;
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
        let query = sqlx::query_as(SKIPS).bind(account).bind(first).bind(id).bind(limit);
        self.readers.all(query).await.map_err(failed_in("skips_of"))
    }

    async fn months(&self, account: AccountId) -> Result<Vec<StoredMonth>> {
        let query = sqlx::query_as(MONTHS).bind(account);
        self.readers.all(query).await.map_err(failed_in("months"))
    }

    async fn delete_account(&self, write: &Write) -> Result<bool> {
        let write = *write;
        self.write("delete_account", move |connection| Box::pin(delete(connection, write))).await
    }

    async fn deleted_accounts(&self) -> Result<Vec<DeletedAccount>> {
        self.readers.all(sqlx::query_as(DELETED)).await.map_err(failed_in("deleted_accounts"))
    }

    async fn rows_left(&self, account: AccountId) -> Result<u64> {
        let sql = AssertSqlSafe(count_rows());
        let query = sqlx::query_as(sql).bind(account).bind(ROWS_COUNTED);
        let (rows,): (i64,) = self.readers.one(query).await.map_err(failed_in("rows_left"))?;
        Ok(rows.unsigned_abs())
    }

    async fn erase(&self, account: AccountId, now: Timestamp, limit: u32) -> Result<Erased> {
        self.write_rows("erase", limit as usize, move |connection| {
            Box::pin(erase(connection, account, now, limit))
        })
        .await
    }
}

async fn delete(connection: &mut SqliteConnection, write: Write) -> Outcome<bool> {
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

async fn erase(
    connection: &mut SqliteConnection,
    account: AccountId,
    now: Timestamp,
    limit: u32,
) -> Outcome<Erased> {
    let query = sqlx::query_scalar(DELETED_AT).bind(account);
    let deleted_at: Option<Timestamp> = query.fetch_optional(&mut *connection).await?;
    let Some(deleted_at) = deleted_at else { return Ok(Erased::default()) };
    let schedules = erase_schedules(connection, account, limit).await?;
    if !schedules.is_empty() {
        return Ok(Erased { rows: schedules.len() as u64, schedules, gone: false });
    }
    let jobs: Vec<JobId> =
        sqlx::query_scalar("SELECT id FROM jobs WHERE account_id = ?1 ORDER BY id LIMIT ?2")
            .bind(account)
            .bind(limit)
            .fetch_all(&mut *connection)
            .await?;
    if !jobs.is_empty() {
        let rows = remove_jobs(connection, &jobs).await?;
        return Ok(Erased { rows, ..Erased::default() });
    }
    for (_, statement) in CLEARED {
        let query = sqlx::query(statement).bind(account).bind(limit);
        let rows = query.execute(&mut *connection).await?.rows_affected();
        if rows > 0 {
            return Ok(Erased { rows, ..Erased::default() });
        }
    }
    let gone = now >= deleted_at.plus(SETTLED);
    if gone {
        sqlx::query(GONE).bind(account).bind(now).execute(connection).await?;
    }
    Ok(Erased { gone, ..Erased::default() })
}

async fn erase_schedules(
    connection: &mut SqliteConnection,
    account: AccountId,
    limit: u32,
) -> Outcome<Vec<(ShardId, ScheduleId)>> {
    let schedules: Vec<(ShardId, ScheduleId)> = sqlx::query_as(
        "DELETE FROM schedules WHERE id IN
             (SELECT id FROM schedules WHERE account_id = ?1 LIMIT ?2)
         RETURNING shard, id",
    )
    .bind(account)
    .bind(limit)
    .fetch_all(&mut *connection)
    .await?;
    if schedules.is_empty() {
        return Ok(schedules);
    }
    // A schedule's shard is the same in both rows.
    for shard in
        schedules.iter().map(|(shard, _)| *shard).collect::<std::collections::BTreeSet<_>>()
    {
        let of_shard = schedules.iter().filter(|(of, _)| *of == shard).map(|(_, id)| id);
        sqlx::query(
            "DELETE FROM schedule_state WHERE shard = ?1
               AND schedule_id IN (SELECT unhex(value) FROM json_each(?2))",
        )
        .bind(shard)
        .bind(json_ids(of_shard))
        .execute(&mut *connection)
        .await?;
    }
    Ok(schedules)
}
