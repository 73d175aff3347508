//! Removing what an account has, within a transaction, of both adapters: each has this file as a
//! module of its own, and beside it says in `erase` and `prune` how rows are found and removed.

use sqlx::AssertSqlSafe;

use super::account_lock::{PASSING, fence_change};
use super::erase::{JOBS, RUNS, is_alone, remove_schedules};
use super::error::Outcome;
use super::prune::{OLD_JOBS_OF, remove_jobs};
use super::{Connection, audit};
use crate::domain::audit::Action;
use crate::domain::{AccountId, AuditId, JobId, Timestamp};
use crate::store::life::{
    self, CLEARED, DELETE, DELETED_AT, GONE, NOTE, ROWS_COUNTED, SETTLED, clear, count_rows,
};
use crate::store::upkeep::{PRUNED, prune_account_log, prune_account_skips};
use crate::store::{Erased, INSTALLATION, Write};

/// Deletes an account and notes that it was.
pub(super) async fn delete_account(connection: &mut Connection, write: Write) -> Outcome<bool> {
    let account = write.account;
    let query = sqlx::query_scalar(DELETE).bind(account);
    let name: Option<String> = query.fetch_optional(&mut *connection).await?;
    let Some(name) = name else { return Ok(false) };
    fence_change(connection, account).await?;
    sqlx::query(NOTE)
        .bind(account)
        .bind(name)
        .bind(write.now)
        .bind(write.author.actor.to_string())
        .bind(write.author.origin.to_string())
        .execute(&mut *connection)
        .await?;
    // The account's own log goes with it.
    let write = Write { account: INSTALLATION, ..write };
    audit::record(connection, write, Action::AccountDeleted, [account]).await?;
    Ok(true)
}

/// How many rows an account has, counted to a number in each table.
pub(super) async fn rows_left(connection: &mut Connection, account: AccountId) -> Outcome<u64> {
    let query = sqlx::query_scalar(AssertSqlSafe(count_rows())).bind(account).bind(ROWS_COUNTED);
    let rows: i64 = query.fetch_one(connection).await?;
    Ok(rows.unsigned_abs())
}

/// Whether there are rows that were passed over because somebody holds them.
async fn has_rows(connection: &mut Connection, account: AccountId, table: &str) -> Outcome<bool> {
    let query = sqlx::query_scalar(AssertSqlSafe(life::has_rows(table))).bind(account);
    Ok(query.fetch_one(connection).await?)
}

/// Removes rows of one kind of a deleted account.
pub(super) async fn erase(
    connection: &mut Connection,
    account: AccountId,
    now: Timestamp,
    limit: u32,
) -> Outcome<Erased> {
    let is_alone = is_alone(connection, "erase").await?;
    let query = sqlx::query_scalar(DELETED_AT).bind(account);
    let deleted_at: Option<Timestamp> = query.fetch_optional(&mut *connection).await?;
    let Some(deleted_at) = deleted_at.filter(|_| is_alone) else { return Ok(Erased::default()) };
    let schedules = remove_schedules(connection, account, limit).await?;
    if !schedules.is_empty() {
        return Ok(Erased { rows: schedules.len() as u64, schedules, gone: false });
    }
    if has_rows(connection, account, "schedules").await? {
        return Ok(Erased::default());
    }
    let limit = i64::from(limit);
    for (table, statement) in [("runs", RUNS), ("jobs", JOBS)] {
        let query = sqlx::query_scalar(statement).bind(account).bind(limit);
        let jobs: Vec<JobId> = query.fetch_all(&mut *connection).await?;
        if !jobs.is_empty() {
            let rows = remove_jobs(connection, table, &jobs).await?;
            return Ok(Erased { rows, ..Erased::default() });
        }
        if has_rows(connection, account, table).await? {
            return Ok(Erased::default());
        }
    }
    for table in CLEARED {
        let statement = AssertSqlSafe(clear(table, PASSING));
        let query = sqlx::query(statement).bind(account).bind(limit);
        let rows = query.execute(&mut *connection).await?.rows_affected();
        if rows > 0 || has_rows(connection, account, table.0).await? {
            return Ok(Erased { rows, ..Erased::default() });
        }
    }
    let gone = now >= deleted_at.plus(SETTLED);
    if gone {
        sqlx::query(GONE).bind(account).bind(now).execute(connection).await?;
    }
    Ok(Erased { gone, ..Erased::default() })
}

/// Removes what is old of one account, row by row.
pub(super) async fn prune_account(
    connection: &mut Connection,
    account: AccountId,
    before: Timestamp,
    now: Timestamp,
    limit: u32,
) -> Outcome<u64> {
    if !is_alone(connection, "prune").await? {
        return Ok(0);
    }
    let limit = i64::from(limit);
    let jobs: Vec<JobId> = sqlx::query_scalar(OLD_JOBS_OF)
        .bind(account)
        .bind(JobId::new(before, 0))
        .bind(before)
        .bind(limit)
        .fetch_all(&mut *connection)
        .await?;
    remove_jobs(connection, "jobs", &jobs).await?;
    let skips = sqlx::query(AssertSqlSafe(prune_account_skips(PASSING)))
        .bind(account)
        .bind(before)
        .bind(limit);
    let skips = skips.execute(&mut *connection).await?.rows_affected();
    let oldest_kept = AuditId::new(before, 0);
    let log = sqlx::query(AssertSqlSafe(prune_account_log(PASSING)))
        .bind(account)
        .bind(oldest_kept)
        .bind(limit);
    let log = log.execute(&mut *connection).await?.rows_affected();
    let pruned = skips.max(log).max(jobs.len() as u64);
    if pruned < limit.unsigned_abs() {
        sqlx::query(PRUNED).bind(account).bind(now).execute(connection).await?;
    }
    Ok(pruned)
}
