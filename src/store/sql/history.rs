//! Removes jobs, and the old history of accounts.

use sqlx::AssertSqlSafe;

use super::batch_rows::{Of, json_ids};
use super::connection::Connection;
use super::fault::SqlResult;
use super::maintenance::is_alone;
use crate::domain::{AccountId, AuditId, JobId, Timestamp};
use crate::store::contract::upkeep::{PRUNED, prune_account_log, prune_account_skips};
use crate::store::sql;

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
        let is_removed = connection.dialect().among(column, Of::Id, "$1");
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
