//! What accounts have, whole, and their end.

use std::collections::BTreeSet;
use std::future::{Future, ready};

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::error::Outcome;
use super::removing::{delete_account, erase, rows_left};
use super::values::json_ids;
use super::{SqliteStore, failed_in};
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
        self.write("delete_account", move |connection| Box::pin(delete_account(connection, write)))
            .await
    }

    async fn deleted_accounts(&self) -> Result<Vec<DeletedAccount>> {
        self.readers.all(sqlx::query_as(DELETED)).await.map_err(failed_in("deleted_accounts"))
    }

    async fn going_accounts(
        &self,
        after: Option<DeletedPlace>,
        limit: u32,
    ) -> Result<Vec<DeletedAccount>> {
        let (deleted_at, id) = after.unwrap_or(FIRST_DELETED);
        let query = sqlx::query_as(GOING_ACCOUNTS).bind(deleted_at).bind(id).bind(limit);
        self.readers.all(query).await.map_err(failed_in("going_accounts"))
    }

    async fn rows_left(&self, account: AccountId) -> Result<u64> {
        let mut reader = self.readers.take().await.map_err(failed_in("rows_left"))?;
        let rows = rows_left(&mut reader, account).await;
        reader.done(rows).map_err(failed_in("rows_left"))
    }

    async fn erase(&self, account: AccountId, now: Timestamp, limit: u32) -> Result<Erased> {
        self.write_rows("erase", limit as usize, move |connection| {
            Box::pin(erase(connection, account, now, limit))
        })
        .await
    }
}

/// Nobody else writes.
pub(super) fn is_alone(_: &mut SqliteConnection, _: &str) -> impl Future<Output = Outcome<bool>> {
    ready(Ok(true))
}

/// Account, number of rows.
pub(super) const RUNS: &str = "SELECT id FROM runs WHERE account_id = ?1 ORDER BY id LIMIT ?2";

/// Account, number of rows.
pub(super) const JOBS: &str = "SELECT id FROM jobs WHERE account_id = ?1 ORDER BY id LIMIT ?2";

pub(super) async fn remove_schedules(
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
    for shard in schedules.iter().map(|(shard, _)| *shard).collect::<BTreeSet<_>>() {
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
