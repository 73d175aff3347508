//! Reads the data of accounts for exports, deletes accounts, and removes the rows of deleted ones.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde::Serialize;
use sqlx::AssertSqlSafe;

use crate::domain::audit::Action;
use crate::domain::schedule::UnreadableFields;
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::store::contract::deletion::SETTLED;
use crate::store::sql::account_lock::fence_change;
use crate::store::sql::accounts::erasure::{
    self, CLEARED, DELETE, DELETED, DELETED_AT, FIRST_DELETED, FIRST_SKIP, FIRST_VERSION,
    GOING_ACCOUNTS, GONE, MONTHS, NOTE, ROWS_COUNTED, SKIPS, VERSIONS, clear, count_rows, indexed,
};
use crate::store::sql::audit;
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::batch_rows::{ColumnType, json, json_ids};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::encoding::rows::{StoreRow, read_rows};
use crate::store::sql::error::SqlResult;
use crate::store::sql::history::old_rows::is_alone;
use crate::store::sql::history::remove_jobs;
use crate::store::{
    DeletedAccount, DeletedPosition, DeletionStore, ErasureResult, INSTALLATION, Result,
    SkipPosition, StoredMonth, StoredSkip, StoredVersion, WriteContext, sql,
};

read_rows! {
    DeletedAccount { id, name, deleted_at, actor, origin, gone_at }
    StoredMonth { month, reserved as i64, exhausted_at }
    StoredSkip { position by skip_position, schedule: "schedule_id", skip: _ }
    StoredVersion {
        id, schedule: "schedule_id", definition: _, unreadable = UnreadableFields::default(),
        created_at, retired_at,
    }
}

fn skip_position(row: &impl StoreRow) -> sqlx::Result<SkipPosition> {
    Ok((row.read("first_tick")?, row.read("id")?))
}

#[async_trait]
impl<D: Database> DeletionStore for D {
    async fn versions(
        &self,
        account: AccountId,
        after: Option<VersionId>,
        limit: u32,
    ) -> Result<Vec<StoredVersion>> {
        let query = sql::query_as(VERSIONS).bind(account);
        let query = query.bind(after.unwrap_or(FIRST_VERSION)).bind(i64::from(limit));
        let mut versions: Vec<StoredVersion> = self.api().all("versions", query).await?;
        versions
            .iter_mut()
            .for_each(|version| self.encrypted_fields().open_version(account, version));
        Ok(versions)
    }

    async fn skips_of(
        &self,
        account: AccountId,
        after: Option<SkipPosition>,
        limit: u32,
    ) -> Result<Vec<StoredSkip>> {
        let (first, id) = after.unwrap_or(FIRST_SKIP);
        let query = sql::query_as(SKIPS).bind(account).bind(first).bind(id).bind(i64::from(limit));
        self.api().all("skips_of", query).await
    }

    async fn months(&self, account: AccountId) -> Result<Vec<StoredMonth>> {
        self.api().all("months", sql::query_as(MONTHS).bind(account)).await
    }

    async fn delete_account(&self, write: &WriteContext) -> Result<bool> {
        let delete = call(delete_account, (*write,));
        let is_deleted = self.api().transaction("delete_account", delete).await?;
        if is_deleted && let Err(error) = self.fence_plan("delete_account", write.account).await {
            // The account is deleted already, so the call must not fail: a repeated call would find
            // no account.
            let account = write.account;
            tracing::warn!(
                %account,
                %error,
                "the account is deleted, but some leaders may still fire its schedules until its \
                 rows are removed"
            );
        }
        Ok(is_deleted)
    }

    async fn deleted_accounts(&self) -> Result<Vec<DeletedAccount>> {
        self.scheduler().all("deleted_accounts", sql::query_as(DELETED)).await
    }

    async fn accounts_to_erase(
        &self,
        after: Option<DeletedPosition>,
        limit: u32,
    ) -> Result<Vec<DeletedAccount>> {
        let (deleted_at, id) = after.unwrap_or(FIRST_DELETED);
        let query = sql::query_as(GOING_ACCOUNTS).bind(deleted_at).bind(id).bind(i64::from(limit));
        self.scheduler().all("accounts_to_erase", query).await
    }

    async fn rows_left(&self, account: AccountId) -> Result<u64> {
        self.scheduler().snapshot("rows_left", call(rows_left, (account,))).await
    }

    async fn erase(&self, account: AccountId, now: Timestamp, limit: u32) -> Result<ErasureResult> {
        self.fence_deleted(account).await?;
        self.scheduler().batch("erase", limit as usize, call(erase, (account, now, limit))).await
    }
}

/// Makes PostgreSQL plan each statement once per connection. Some tables have a partition for each
/// day, so planning a statement on them takes longer than running it.
async fn plan_once(connection: &mut Connection<'_>) -> SqlResult<()> {
    if connection.dialect() == Dialect::Postgres {
        let setting = "SET LOCAL plan_cache_mode = force_generic_plan";
        sql::query(setting).execute(connection).await?;
    }
    Ok(())
}

/// Deletes an account and records the deletion.
async fn delete_account(connection: &mut Connection<'_>, write: WriteContext) -> SqlResult<bool> {
    let account = write.account;
    let query = sql::query_scalar(DELETE).bind(account);
    let name: Option<String> = query.fetch_optional(&mut *connection).await?;
    let Some(name) = name else { return Ok(false) };
    fence_change(connection, account).await?;
    sql::query(NOTE)
        .bind(account)
        .bind(name)
        .bind(write.now)
        .bind(write.author.actor.to_string())
        .bind(write.author.origin.to_string())
        .execute(&mut *connection)
        .await?;
    // The account's own log is removed with it, so the entry belongs to the installation.
    let write = WriteContext { account: INSTALLATION, ..write };
    audit::record(connection, write, Action::AccountDeleted, [account]).await?;
    Ok(true)
}

/// Counts the rows of an account, in each table up to a limit.
async fn rows_left(connection: &mut Connection<'_>, account: AccountId) -> SqlResult<u64> {
    plan_once(connection).await?;
    let query = sql::query_scalar(AssertSqlSafe(count_rows())).bind(account).bind(ROWS_COUNTED);
    let rows: i64 = query.fetch_one(connection).await?;
    Ok(rows.unsigned_abs())
}

/// Returns `true` if an account has rows in a table. After a batch that found none to remove, these
/// are rows that another transaction has locked.
async fn has_rows(
    connection: &mut Connection<'_>,
    account: AccountId,
    table: &str,
) -> SqlResult<bool> {
    let query = sql::query_scalar(AssertSqlSafe(erasure::has_rows(table))).bind(account);
    query.fetch_one(connection).await
}

/// Removes a batch of rows of a deleted account: schedules first, then jobs, then other tables.
/// Each call removes rows of one kind. The next kind follows only when none of the previous kind
/// are left.
async fn erase(
    connection: &mut Connection<'_>,
    account: AccountId,
    now: Timestamp,
    limit: u32,
) -> SqlResult<ErasureResult> {
    plan_once(connection).await?;
    let is_alone = is_alone(connection, "erase").await?;
    let query = sql::query_scalar(DELETED_AT).bind(account);
    let deleted_at: Option<Timestamp> = query.fetch_optional(&mut *connection).await?;
    let Some(deleted_at) = deleted_at.filter(|_| is_alone) else {
        return Ok(ErasureResult::default());
    };
    let schedules = remove_schedules(connection, account, limit).await?;
    if !schedules.is_empty() {
        return Ok(ErasureResult { rows: schedules.len() as u64, schedules, gone: false });
    }
    if has_rows(connection, account, "schedules").await? {
        return Ok(ErasureResult::default());
    }
    let limit = i64::from(limit);
    for table in ["runs", "jobs"] {
        let skip_locked = connection.dialect().skip_locked();
        let statement = format!(
            "SELECT id FROM {table} WHERE account_id = $1 {} ORDER BY id LIMIT $2 {skip_locked}",
            indexed(table)
        );
        let query = sql::query_scalar(AssertSqlSafe(statement)).bind(account).bind(limit);
        let jobs: Vec<JobId> = query.fetch_all(&mut *connection).await?;
        if !jobs.is_empty() {
            let rows = remove_jobs(connection, table, &jobs).await?;
            return Ok(ErasureResult { rows, ..ErasureResult::default() });
        }
        if has_rows(connection, account, table).await? {
            return Ok(ErasureResult::default());
        }
    }
    for table in CLEARED {
        let statement = AssertSqlSafe(clear(table, connection.dialect().skip_locked()));
        let query = sql::query(statement).bind(account).bind(limit);
        let rows = query.execute(&mut *connection).await?;
        if rows > 0 || has_rows(connection, account, table.0).await? {
            return Ok(ErasureResult { rows, ..ErasureResult::default() });
        }
    }
    // Until then, calls that were under way at the deletion may still write rows.
    let gone = now >= deleted_at.plus(SETTLED);
    if gone {
        sql::query(GONE).bind(account).bind(now).execute(connection).await?;
    }
    Ok(ErasureResult { gone, ..ErasureResult::default() })
}

/// A schedule to remove, as a row of a batch.
#[derive(Serialize)]
struct RemovedSchedule {
    shard: u16,
    id: Hex,
}

/// Locks the states of schedules in the order of the batch, which is the order of the schedules'
/// ids. Parameter: the batch.
const LOCK_STATES: &str = "
    SELECT 1 FROM json_to_recordset($1::json) AS e (shard integer, id uuid)
    CROSS JOIN LATERAL (
        SELECT 1 FROM schedule_state AS st WHERE st.shard = e.shard AND st.schedule_id = e.id
        FOR UPDATE) AS locked";

/// Removes a batch of schedules of an account, with their states.
async fn remove_schedules(
    connection: &mut Connection<'_>,
    account: AccountId,
    limit: u32,
) -> SqlResult<Vec<(ShardId, ScheduleId)>> {
    let skip_locked = connection.dialect().skip_locked();
    let query = format!(
        "SELECT shard, id FROM schedules WHERE account_id = $1 ORDER BY id LIMIT $2 {skip_locked}"
    );
    let query = sql::query_as(AssertSqlSafe(query)).bind(account).bind(i64::from(limit));
    let schedules: Vec<(ShardId, ScheduleId)> = query.fetch_all(connection).await?;
    if schedules.is_empty() {
        return Ok(schedules);
    }
    if connection.dialect() == Dialect::Postgres {
        let row = |(shard, id): &(ShardId, ScheduleId)| RemovedSchedule {
            shard: shard.0,
            id: Hex(id.to_bytes()),
        };
        let rows: Vec<RemovedSchedule> = schedules.iter().map(row).collect();
        let query = sql::query_scalar::<i32>(LOCK_STATES).bind(json(&rows));
        query.fetch_all(connection).await?;
    }
    for shard in schedules.iter().map(|(shard, _)| *shard).collect::<BTreeSet<_>>() {
        let of_shard = schedules.iter().filter(|(of, _)| *of == shard);
        let is_removed = connection.dialect().among("schedule_id", ColumnType::Id, "$2");
        let statement = format!("DELETE FROM schedule_state WHERE shard = $1 AND {is_removed}");
        sql::query(AssertSqlSafe(statement))
            .bind(shard)
            .bind(json_ids(of_shard.map(|(_, id)| id.to_bytes())))
            .execute(connection)
            .await?;
    }
    let is_removed = connection.dialect().among("id", ColumnType::Id, "$2");
    let statement = format!("DELETE FROM schedules WHERE account_id = $1 AND {is_removed}");
    sql::query(AssertSqlSafe(statement))
        .bind(account)
        .bind(json_ids(schedules.iter().map(|(_, id)| id.to_bytes())))
        .execute(connection)
        .await?;
    Ok(schedules)
}
