//! Removes jobs, and the old history of accounts.

pub(in crate::store) mod old_rows;

use sqlx::AssertSqlSafe;

use crate::domain::{AccountId, AuditId, JobId, Timestamp};
use crate::store::sql;
use crate::store::sql::connection::Connection;
use crate::store::sql::encoding::batch_rows::{ColumnType, json_ids};
use crate::store::sql::error::SqlResult;
use old_rows::is_alone;

/// Records that the history of an account was pruned. Parameters: account, instant.
const PRUNED: &str = "UPDATE accounts SET pruned_at = $2 WHERE id = $1";

/// The time after the retirement of a version until which its jobs may have been made, in
/// milliseconds. Only a call that was under way at the retirement still makes one, so an hour is
/// more than enough.
pub(in crate::store) const RETIRING_MS: i64 = 3_600_000;

/// Removes jobs from `table`, which is `runs` or `jobs`, with their attempts. Returns the number of
/// removed jobs. `jobs` must be in the order of the ids.
pub(in crate::store) async fn remove_jobs(
    connection: &mut Connection<'_>,
    table: &str,
    jobs: &[JobId],
) -> SqlResult<u64> {
    let (Some(first), Some(last)) = (jobs.first(), jobs.last()) else { return Ok(0) };
    let ids = json_ids(jobs.iter().map(|id| id.to_bytes()));
    let mut removed = 0;
    for (table, column) in [("attempts", "job_id"), (table, "id")] {
        // The bounds tell PostgreSQL which partitions hold the rows. An array does not.
        let is_removed = connection.dialect().among(column, ColumnType::Id, "$1");
        let statement =
            format!("DELETE FROM {table} WHERE {is_removed} AND {column} BETWEEN $2 AND $3");
        let query = sql::query(AssertSqlSafe(statement)).bind(ids.clone()).bind(*first);
        removed = query.bind(*last).execute(connection).await?;
    }
    Ok(removed)
}

/// Finds the jobs of an account that ended before a time. Parameters: account, lowest id that
/// stays, time, number of rows.
pub(in crate::store) const OLD_JOBS_OF: &str = "
    SELECT id FROM jobs WHERE account_id = $1 AND id < $2 AND completed_at < $3
    ORDER BY id LIMIT $4";

/// Removes the old history of one account, row by row: jobs, skips and entries of the audit log.
/// Returns the largest of the three numbers of rows. If it is less than `limit`, records that the
/// account was pruned at `now`.
pub(in crate::store) async fn prune_account(
    connection: &mut Connection<'_>,
    account: AccountId,
    before: Timestamp,
    now: Timestamp,
    limit: u32,
) -> SqlResult<u64> {
    if !is_alone(connection, "prune").await? {
        return Ok(0);
    }
    let limit = i64::from(limit);
    let skip_locked = connection.dialect().skip_locked();
    let old_jobs = format!("{OLD_JOBS_OF} {skip_locked}");
    let jobs: Vec<JobId> = sql::query_scalar(AssertSqlSafe(old_jobs))
        .bind(account)
        .bind(JobId::new(before, 0))
        .bind(before)
        .bind(limit)
        .fetch_all(&mut *connection)
        .await?;
    remove_jobs(connection, "jobs", &jobs).await?;
    let skips = sql::query(AssertSqlSafe(prune_account_skips(skip_locked)))
        .bind(account)
        .bind(before)
        .bind(limit);
    let skips = skips.execute(&mut *connection).await?;
    let oldest_kept = AuditId::new(before, 0);
    let log = sql::query(AssertSqlSafe(prune_account_log(skip_locked)))
        .bind(account)
        .bind(oldest_kept)
        .bind(limit);
    let log = log.execute(&mut *connection).await?;
    let pruned = skips.max(log).max(jobs.len() as u64);
    if pruned < limit.unsigned_abs() {
        sql::query(PRUNED).bind(account).bind(now).execute(connection).await?;
    }
    Ok(pruned)
}

/// Returns the statement that deletes old skips of an account. `passing` is the clause that skips
/// locked rows. Parameters: account, instant, number of rows.
pub(in crate::store) fn prune_account_skips(passing: &str) -> String {
    format!(
        "DELETE FROM skips WHERE account_id = $1 AND id IN
             (SELECT id FROM skips WHERE account_id = $1 AND first_tick < $2 AND last_tick < $2
              ORDER BY first_tick, id LIMIT $3 {passing})"
    )
}

/// Returns the statement that deletes old entries of an account's audit log. `passing` is the
/// clause that skips locked rows. Parameters: account, lowest id that stays, number of rows.
pub(in crate::store) fn prune_account_log(passing: &str) -> String {
    format!(
        "DELETE FROM audit_log WHERE account_id = $1 AND id IN
             (SELECT id FROM audit_log WHERE account_id = $1 AND id < $2 ORDER BY id LIMIT $3
              {passing})"
    )
}
