//! Jobs that end because a user cancels them or deletes their schedule.

use sqlx::AssertSqlSafe;

use super::ending::EndedJob;
use super::overlap;
use super::rows::{HAS_ENDED, history_columns};
use crate::domain::audit::Action;
use crate::domain::job::JobStatus;
use crate::domain::shard::ShardId;
use crate::domain::{JobId, ScheduleId, Timestamp};
use crate::store::sql::account_lock::admit;
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::batch_rows::{ColumnType, json_ids};
use crate::store::sql::error::SqlResult;
use crate::store::sql::hours::count_cancelled;
use crate::store::sql::{self, audit};
use crate::store::{Cancelled, WriteContext};

/// Cancels a job. It locks the schedule's state before the job, in the order that all transactions
/// use.
pub(super) async fn cancel(
    connection: &mut Connection<'_>,
    write: WriteContext,
    id: JobId,
) -> SqlResult<Cancelled> {
    let dialect = connection.dialect();
    admit(connection, write.account, dialect.shared_lock()).await?;
    let found =
        sql::query_as("SELECT shard, schedule_id FROM runs WHERE id = $1 AND account_id = $2");
    let found = found.bind(id).bind(write.account).fetch_optional(connection).await?;
    let Some((shard, schedule)): Option<(ShardId, ScheduleId)> = found else {
        return finished_or_unknown(connection, write, id).await;
    };
    let lock = format!(
        "SELECT 1 FROM schedule_state WHERE shard = $1 AND schedule_id = $2 {}",
        dialect.exclusive_lock()
    );
    let lock = sql::query_scalar::<i32>(AssertSqlSafe(lock)).bind(shard).bind(schedule);
    lock.fetch_optional(connection).await?;
    let status = format!(
        "SELECT status FROM runs WHERE id = $1 AND account_id = $2 {}",
        dialect.removal_lock()
    );
    let status = sql::query_scalar(AssertSqlSafe(status)).bind(id).bind(write.account);
    match status.fetch_optional(connection).await? {
        None | Some(JobStatus::Success | JobStatus::Failed) => {
            finished_or_unknown(connection, write, id).await
        }
        Some(JobStatus::Running) => {
            let stop = sql::query(
                "UPDATE runs SET stop = 2, updated_at = $3
                 WHERE id = $1 AND account_id = $2 AND stop < 2",
            );
            let stop = stop.bind(id).bind(write.account).bind(write.now);
            if stop.execute(connection).await? > 0 {
                audit::record(connection, write, Action::JobCancelled, [id]).await?;
            }
            Ok(Cancelled::Done(Vec::new()))
        }
        Some(JobStatus::Pending) => {
            end_waiting(connection, write, &[id], "the job was cancelled").await?;
            audit::record(connection, write, Action::JobCancelled, [id]).await?;
            let ended = EndedJob { shard, schedule, job: id };
            overlap::forget_held(connection, ended).await?;
            Ok(Cancelled::Done(overlap::release(connection, write.now, &[ended]).await?))
        }
    }
}

/// Returns the result for a job that is not unfinished.
async fn finished_or_unknown(
    connection: &mut Connection<'_>,
    write: WriteContext,
    id: JobId,
) -> SqlResult<Cancelled> {
    let has_ended = sql::query_scalar(HAS_ENDED).bind(id).bind(write.account);
    let has_ended: bool = has_ended.fetch_one(connection).await?;
    Ok(if has_ended { Cancelled::Finished } else { Cancelled::NotFound })
}

/// Ends the waiting jobs of a schedule that was deleted, and forbids retries of its running ones.
/// All are locked at once, so that none starts to run or to wait in between.
pub(in crate::store::sql) async fn end_jobs_of(
    connection: &mut Connection<'_>,
    write: WriteContext,
    schedule: ScheduleId,
) -> SqlResult<()> {
    let dialect = connection.dialect();
    let unfinished = format!(
        "SELECT id, status FROM runs
         WHERE account_id = $2 AND schedule_id = $1 AND status < 2 ORDER BY id {}",
        dialect.removal_lock()
    );
    let unfinished = sql::query_as(AssertSqlSafe(unfinished)).bind(schedule).bind(write.account);
    let unfinished: Vec<(JobId, JobStatus)> = unfinished.fetch_all(connection).await?;
    let (waiting, running): (Vec<_>, Vec<_>) =
        unfinished.into_iter().partition(|(_, status)| *status == JobStatus::Pending);
    let waiting: Vec<JobId> = waiting.into_iter().map(|(job, _)| job).collect();
    end_waiting(connection, write, &waiting, "the schedule was deleted").await?;
    let forbid = format!(
        "UPDATE runs SET stop = 1, updated_at = $3 WHERE {} AND account_id = $2 AND stop < 1",
        dialect.among("id", ColumnType::Id, "$1")
    );
    sql::query(AssertSqlSafe(forbid))
        .bind(json_ids(running.into_iter().map(|(job, _)| job.to_bytes())))
        .bind(write.account)
        .bind(write.now)
        .run(connection)
        .await
}

/// Ends waiting jobs of an account, which are locked. A job keeps the result of its last attempt.
async fn end_waiting(
    connection: &mut Connection<'_>,
    write: WriteContext,
    jobs: &[JobId],
    why: &'static str,
) -> SqlResult<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let dialect = connection.dialect();
    let jobs = json_ids(jobs.iter().map(|job| job.to_bytes()));
    let among = dialect.among("r.id", ColumnType::Id, "$1");
    let record = format!(
        "{} WHERE {among} AND r.account_id = $2 RETURNING id, started_at, completed_at",
        record(dialect)
    );
    let ended: Vec<(JobId, Option<Timestamp>, Timestamp)> = sql::query_as(AssertSqlSafe(record))
        .bind(jobs.clone())
        .bind(write.account)
        .bind(write.now)
        .bind(why)
        .fetch_all(connection)
        .await?;
    sql::query(AssertSqlSafe(format!("DELETE FROM runs AS r WHERE {among} AND r.account_id = $2")))
        .bind(jobs)
        .bind(write.account)
        .execute(connection)
        .await?;
    count_cancelled(connection, write.account, &ended).await
}

/// Returns the statement that adds cancelled jobs to the history, without its condition.
fn record(dialect: Dialect) -> String {
    let last_attempt = match dialect {
        // `OFFSET 0` prevents flattening, so each job looks its attempt up in one partition.
        Dialect::Postgres => {
            "LEFT JOIN LATERAL (
                 SELECT * FROM attempts WHERE job_id = r.id AND number = r.attempt_number OFFSET 0
             ) AS a ON true"
        }
        Dialect::Sqlite => {
            "LEFT JOIN attempts AS a ON a.job_id = r.id AND a.number = r.attempt_number"
        }
    };
    format!(
        concat!(
            "INSERT INTO jobs (id, account_id, ",
            history_columns!(),
            ")
             SELECT r.id, r.account_id, r.schedule_id, r.version_id, r.created_at,
                    {greatest}($3, r.updated_at), r.started_at, {greatest}($3, r.updated_at),
                    r.attempt_started_at, 3, r.trigger, r.attempt_number, r.max_attempts,
                    'CANCELLED', $4, a.duration_ms, a.timings, a.status_code,
                    coalesce(a.response_truncated, false), a.response_headers, a.response
             FROM runs AS r {last_attempt}"
        ),
        greatest = dialect.greatest(),
        last_attempt = last_attempt
    )
}
