//! Prunes history in small batches.

use crate::domain::{JobId, Timestamp};
use crate::store::sql::connection::Connection;
use crate::store::sql::error::SqlResult;
use crate::store::sql::history::RETIRING_MS;
use crate::store::sql::history::remove_jobs;
use crate::store::sqlite::connection::values::key_from;
use crate::store::{PrunedRows, sql};

pub(in crate::store::sqlite) async fn prune(
    connection: &mut Connection<'_>,
    before: Timestamp,
    limit: u32,
) -> SqlResult<PrunedRows> {
    let jobs = prune_jobs(connection, before, limit).await?;
    let skips = sql::query(
        "DELETE FROM skips WHERE id IN
             (SELECT id FROM skips WHERE last_tick < ?1 ORDER BY last_tick LIMIT ?2)",
    )
    .bind(before)
    .bind(i64::from(limit))
    .execute(connection)
    .await?;
    let versions = sql::query(PRUNE_VERSIONS)
        .bind(before)
        .bind(i64::from(limit))
        .bind(RETIRING_MS)
        .execute(connection)
        .await?;
    Ok(PrunedRows { days: 0, jobs, skips, versions })
}

/// Removes retired versions that no job uses. Looks only at jobs from before the version was
/// retired: most of these are gone, while the schedule may have any number of newer ones.
/// Parameters: time, number of rows, margin in milliseconds.
pub(in crate::store::sqlite) const PRUNE_VERSIONS: &str = "
    DELETE FROM schedule_versions WHERE id IN
        (SELECT v.id FROM schedule_versions AS v
         WHERE v.retired_at < ?1
           AND NOT EXISTS
               (SELECT 1 FROM jobs AS j
                WHERE j.schedule_id = v.schedule_id AND j.version_id = v.id
                  AND j.id < unhex(printf('%012x', v.retired_at + ?3) || '00000000000000000000'))
           AND NOT EXISTS
               (SELECT 1 FROM runs AS r
                WHERE r.account_id = v.account_id AND r.schedule_id = v.schedule_id
                  AND r.version_id = v.id)
         ORDER BY v.retired_at LIMIT ?2)";

/// Finds the jobs that ended before a time. No job ends before the time in its id, so they are at
/// the lower end of the key. Parameters: lowest id that stays, time, number of rows.
pub(in crate::store::sqlite) const OLD_JOBS: &str = "
    SELECT id FROM jobs WHERE id < ?1 AND completed_at < ?2
    ORDER BY id LIMIT ?3";

async fn prune_jobs(
    connection: &mut Connection<'_>,
    before: Timestamp,
    limit: u32,
) -> SqlResult<u64> {
    let jobs: Vec<JobId> = sql::query_scalar(OLD_JOBS)
        .bind(key_from(before))
        .bind(before)
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?;
    remove_jobs(connection, "jobs", &jobs).await
}
