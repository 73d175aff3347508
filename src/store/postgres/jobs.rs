//! Jobs: made, read and cancelled by users.

use async_trait::async_trait;
use sqlx::{FromRow, PgConnection};

use super::overlap;
use super::quotas;
use super::trigger::trigger;
use super::{PostgresStore, Within, failed_in};
use crate::domain::audit::Action;
use crate::domain::job::{Attempt, Job, JobStatus, Trigger};
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, JobId, ScheduleId};
use crate::store::ending::Ended;
use crate::store::job_rows::{HAS_ENDED, JOB, JobAndLast, STATUS, history_columns};
use crate::store::sql::account_lock::admit;
use crate::store::sql::audit;
use crate::store::sql::connection::Connection;
use crate::store::sql::fault::Outcome;
use crate::store::vault::Vault;
use crate::store::{
    Cancelled, JobPage, JobQuery, JobStore, NewJob, Result, Retried, Triggered, Write,
};

#[async_trait]
impl JobStore for PostgresStore {
    async fn create_job(
        &self,
        write: &Write,
        job: &NewJob,
        quota: Option<u64>,
    ) -> Result<Triggered> {
        let (write, job) = (*write, *job);
        if quota.is_none() && write.once.is_none() {
            let work = self.api.run("create_job", Within::Statement, move |connection| {
                Box::pin(trigger(connection, write, job))
            });
            return work.await;
        }
        self.api
            .run("create_job", Within::Transaction, move |connection| {
                Box::pin(trigger_within(connection, write, job, quota))
            })
            .await
    }

    async fn retry_job(
        &self,
        write: &Write,
        of: JobId,
        id: JobId,
        quota: Option<u64>,
    ) -> Result<Retried> {
        let write = *write;
        self.api
            .run("retry_job", Within::Transaction, move |connection| {
                Box::pin(retry(connection, write, of, id, quota))
            })
            .await
    }

    async fn cancel_job(&self, write: &Write, id: JobId) -> Result<Cancelled> {
        let write = *write;
        let cancelled = self.run_with_days(&self.api, Within::Transaction, move |connection| {
            Box::pin(cancel(connection, write, id))
        });
        cancelled.await.map_err(failed_in("cancel_job"))
    }

    async fn job(&self, account: AccountId, id: JobId) -> Result<Option<(Job, Vec<Attempt>)>> {
        let vault = self.vault.clone();
        self.api
            .run("job", Within::Snapshot, move |connection| {
                let vault = vault.clone();
                Box::pin(async move { read(connection, &vault, account, id).await })
            })
            .await
    }

    async fn jobs(&self, account: AccountId, query: &JobQuery) -> Result<JobPage> {
        self.list_jobs(account, query).await
    }
}

/// The schedule's row is locked by a statement of its own, so that the next one sees the version
/// that is current then, and a delete comes wholly before or after. The account's counter is taken
/// last, so that it is held for a short time, and nothing is counted that is not made.
async fn create(
    connection: &mut PgConnection,
    write: Write,
    job: NewJob,
    trigger: Trigger,
    quota: Option<u64>,
) -> Outcome<Triggered> {
    let locked =
        sqlx::query("SELECT FROM schedules WHERE id = $1 AND account_id = $2 FOR KEY SHARE")
            .bind(job.schedule)
            .bind(write.account)
            .fetch_optional(&mut *connection)
            .await?;
    if locked.is_none() {
        return Ok(Triggered::NoSuchSchedule);
    }
    if let Some(quota) = quota
        && let Some(refused) = quotas::take_one(connection, write, quota).await?
    {
        return Ok(refused);
    }
    let ticket = sqlx::query_as(
        "WITH made AS (
             INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger,
                               max_attempts, wake_at, created_at, updated_at)
             SELECT $1, s.account_id, s.id, s.version_id, s.shard, 0, $4, v.max_retries, $5, $5, $5
             FROM schedules AS s JOIN schedule_versions AS v ON v.id = s.version_id
             WHERE s.id = $2 AND s.account_id = $3
             RETURNING id, shard, account_id, version_id, wake_at)
         SELECT m.id, m.shard, m.account_id, v.host_key, m.wake_at
         FROM made AS m JOIN schedule_versions AS v ON v.id = m.version_id",
    )
    .bind(job.id)
    .bind(job.schedule)
    .bind(write.account)
    .bind(trigger)
    .bind(write.now)
    .fetch_one(&mut *connection)
    .await?;
    Ok(Triggered::Created(ticket))
}

async fn trigger_within(
    connection: &mut PgConnection,
    write: Write,
    job: NewJob,
    quota: Option<u64>,
) -> Outcome<Triggered> {
    admit(&mut Connection::from(&mut *connection), write.account, "FOR KEY SHARE").await?;
    let triggered = create(connection, write, job, Trigger::Manual, quota).await?;
    if matches!(triggered, Triggered::Created(_)) {
        let action = Action::ScheduleTriggered;
        audit::record_making(
            &mut Connection::from(&mut *connection),
            write,
            action,
            job.schedule,
            job.id,
        )
        .await?;
    }
    Ok(triggered)
}

async fn retry(
    connection: &mut PgConnection,
    write: Write,
    of: JobId,
    id: JobId,
    quota: Option<u64>,
) -> Outcome<Retried> {
    admit(&mut Connection::from(&mut *connection), write.account, "FOR KEY SHARE").await?;
    let found: Option<(JobStatus, ScheduleId)> = sqlx::query_as(STATUS)
        .bind(of)
        .bind(write.account)
        .fetch_optional(&mut *connection)
        .await?;
    let Some((status, schedule)) = found else {
        return Ok(Retried::NotFound);
    };
    if !status.is_final() {
        return Ok(Retried::Unfinished);
    }
    let job = NewJob { id, schedule };
    let ticket = match create(connection, write, job, Trigger::Retry, quota).await? {
        Triggered::Created(ticket) => ticket,
        Triggered::NoSuchSchedule => return Ok(Retried::ScheduleGone),
        Triggered::UsedUp(used_up) => return Ok(Retried::UsedUp(used_up)),
        Triggered::Uncounted => return Ok(Retried::Uncounted),
    };
    audit::record_making(
        &mut Connection::from(&mut *connection),
        write,
        Action::JobRetried,
        of,
        id,
    )
    .await?;
    Ok(Retried::Created(ticket))
}

/// Whose state has to be locked before the job.
#[derive(FromRow)]
struct Belongs {
    shard: ShardId,
    schedule_id: ScheduleId,
}

async fn cancel(connection: &mut PgConnection, write: Write, id: JobId) -> Outcome<Cancelled> {
    admit(&mut Connection::from(&mut *connection), write.account, "FOR KEY SHARE").await?;
    let belongs: Option<Belongs> =
        sqlx::query_as("SELECT shard, schedule_id FROM runs WHERE id = $1 AND account_id = $2")
            .bind(id)
            .bind(write.account)
            .fetch_optional(&mut *connection)
            .await?;
    let Some(Belongs { shard, schedule_id: schedule }) = belongs else {
        return over(connection, write, id).await;
    };
    sqlx::query(
        "SELECT FROM schedule_state WHERE shard = $1 AND schedule_id = $2 FOR NO KEY UPDATE",
    )
    .bind(shard)
    .bind(schedule)
    .fetch_optional(&mut *connection)
    .await?;
    let status: Option<JobStatus> =
        sqlx::query_scalar("SELECT status FROM runs WHERE id = $1 AND account_id = $2 FOR UPDATE")
            .bind(id)
            .bind(write.account)
            .fetch_optional(&mut *connection)
            .await?;
    match status {
        None | Some(JobStatus::Success | JobStatus::Failed) => over(connection, write, id).await,
        Some(JobStatus::Running) => {
            let stopped = sqlx::query(
                "UPDATE runs SET stop = 2, updated_at = $3
                 WHERE id = $1 AND account_id = $2 AND stop < 2",
            )
            .bind(id)
            .bind(write.account)
            .bind(write.now)
            .execute(&mut *connection)
            .await?;
            if stopped.rows_affected() > 0 {
                audit::record(
                    &mut Connection::from(&mut *connection),
                    write,
                    Action::JobCancelled,
                    [id],
                )
                .await?;
            }
            Ok(Cancelled::Done(Vec::new()))
        }
        Some(JobStatus::Pending) => {
            cancel_waiting(connection, write, &[id], "the job was cancelled").await?;
            audit::record(
                &mut Connection::from(&mut *connection),
                write,
                Action::JobCancelled,
                [id],
            )
            .await?;
            let ended = Ended { shard, schedule, job: id };
            overlap::forget_held(connection, ended).await?;
            Ok(Cancelled::Done(overlap::release(connection, write.now, &[ended]).await?))
        }
    }
}

/// What cancelling a job comes to that is not among the unfinished ones.
async fn over(connection: &mut PgConnection, write: Write, id: JobId) -> Outcome<Cancelled> {
    let query = sqlx::query_scalar(HAS_ENDED).bind(id).bind(write.account);
    let is_there: bool = query.fetch_one(connection).await?;
    Ok(if is_there { Cancelled::Finished } else { Cancelled::NotFound })
}

/// Ends waiting jobs of an account, which are locked. What the last attempt of one has brought stays
/// what the job shows.
pub(super) async fn cancel_waiting(
    connection: &mut PgConnection,
    write: Write,
    jobs: &[JobId],
    why: &str,
) -> Outcome<()> {
    sqlx::query(CANCEL)
        .bind(jobs)
        .bind(write.account)
        .bind(write.now)
        .bind(why)
        .execute(connection)
        .await?;
    Ok(())
}

const CANCEL: &str = concat!(
    "
    WITH ended AS (DELETE FROM runs WHERE id = ANY ($1) AND account_id = $2 RETURNING *)
    INSERT INTO jobs (id, account_id, ",
    history_columns!(),
    ")
    SELECT r.id, r.account_id, r.schedule_id, r.version_id, r.created_at,
           greatest($3, r.updated_at), r.started_at, greatest($3, r.updated_at),
           r.attempt_started_at, 3, r.trigger, r.attempt_number, r.max_attempts, 'CANCELLED', $4,
           a.duration_ms, a.timings, a.status_code, coalesce(a.response_truncated, false),
           a.response_headers, a.response
    FROM ended AS r LEFT JOIN LATERAL (
        SELECT * FROM attempts WHERE job_id = r.id AND number = r.attempt_number OFFSET 0
    ) AS a ON true"
);

/// Reads job and attempts in one view of the store.
async fn read(
    snapshot: &mut PgConnection,
    vault: &Vault,
    account: AccountId,
    id: JobId,
) -> Outcome<Option<(Job, Vec<Attempt>)>> {
    let found: Option<JobAndLast> =
        sqlx::query_as(JOB).bind(id).bind(account).fetch_optional(&mut *snapshot).await?;
    let Some(JobAndLast { version, mut job, last }) = found else {
        return Ok(None);
    };
    vault.open_job(account, version, &mut job);
    let mut attempts: Vec<Attempt> = sqlx::query_as(
        "SELECT number, started_at, completed_at, duration_ms, status_code, error_code,
             error_message, timings
         FROM attempts WHERE job_id = $1 ORDER BY number",
    )
    .bind(id)
    .fetch_all(&mut *snapshot)
    .await?;
    let recorded = attempts.last().map_or(0, |attempt| attempt.number);
    attempts.extend(last.filter(|last| last.number > recorded));
    Ok(Some((job, attempts)))
}
