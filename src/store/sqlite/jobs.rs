//! Jobs: made, read and cancelled by users.

use async_trait::async_trait;
use sqlx::{Connection as _, FromRow, SqliteConnection};

use super::overlap;
use super::quotas;
use super::tickets::tickets;
use super::values::json_ids;
use super::{SqliteStore, failed_in};
use crate::domain::audit::Action;
use crate::domain::job::{Attempt, Job, JobStatus, Trigger};
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, JobId, ScheduleId};
use crate::store::ending::Ended;
use crate::store::job_rows::{HAS_ENDED, JOB, JobAndLast, STATUS, history_columns};
use crate::store::sql::account_lock::admit;
use crate::store::sql::audit;
use crate::store::sql::connection::Connection;
use crate::store::sql::fault::{Fault, Outcome};
use crate::store::vault::Vault;
use crate::store::{
    Cancelled, JobPage, JobQuery, JobStore, NewJob, Result, Retried, StoreErrorKind, Triggered,
    Write,
};

#[async_trait]
impl JobStore for SqliteStore {
    async fn create_job(
        &self,
        write: &Write,
        job: &NewJob,
        quota: Option<u64>,
    ) -> Result<Triggered> {
        let (write, job) = (*write, *job);
        self.write("create_job", move |connection| Box::pin(trigger(connection, write, job, quota)))
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
        self.write("retry_job", move |connection| Box::pin(retry(connection, write, of, id, quota)))
            .await
    }

    async fn cancel_job(&self, write: &Write, id: JobId) -> Result<Cancelled> {
        let write = *write;
        self.write("cancel_job", move |connection| Box::pin(cancel(connection, write, id))).await
    }

    async fn job(&self, account: AccountId, id: JobId) -> Result<Option<(Job, Vec<Attempt>)>> {
        self.read_job(account, id).await.map_err(failed_in("job"))
    }

    async fn jobs(&self, account: AccountId, query: &JobQuery) -> Result<JobPage> {
        self.list_jobs(account, query).await.map_err(failed_in("jobs"))
    }
}

async fn create(
    connection: &mut SqliteConnection,
    write: Write,
    job: NewJob,
    trigger: Trigger,
    quota: Option<u64>,
) -> Outcome<Triggered> {
    if let Some(quota) = quota {
        let known = "SELECT EXISTS (SELECT 1 FROM schedules WHERE id = ?1 AND account_id = ?2)";
        let query = sqlx::query_scalar(known).bind(job.schedule).bind(write.account);
        if !query.fetch_one(&mut *connection).await? {
            return Ok(Triggered::NoSuchSchedule);
        }
        if let Some(refused) = quotas::take_one(connection, write, quota).await? {
            return Ok(refused);
        }
    }
    let made = sqlx::query(
        "INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger,
                           max_attempts, wake_at, created_at, updated_at)
         SELECT ?1, s.account_id, s.id, s.version_id, s.shard, 0, ?4, v.max_retries, ?5, ?5, ?5
         FROM schedules AS s JOIN schedule_versions AS v ON v.id = s.version_id
         WHERE s.id = ?2 AND s.account_id = ?3",
    )
    .bind(job.id)
    .bind(job.schedule)
    .bind(write.account)
    .bind(trigger)
    .bind(write.now)
    .execute(&mut *connection)
    .await?;
    if made.rows_affected() == 0 {
        return Ok(Triggered::NoSuchSchedule);
    }
    let made = || Fault::new(StoreErrorKind::Internal, "a job that was made is not there");
    Ok(Triggered::Created(tickets(connection, &[job.id]).await?.pop().ok_or_else(made)?))
}

async fn trigger(
    connection: &mut SqliteConnection,
    write: Write,
    job: NewJob,
    quota: Option<u64>,
) -> Outcome<Triggered> {
    admit(&mut Connection::from(&mut *connection), write.account, "").await?;
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
    connection: &mut SqliteConnection,
    write: Write,
    of: JobId,
    id: JobId,
    quota: Option<u64>,
) -> Outcome<Retried> {
    admit(&mut Connection::from(&mut *connection), write.account, "").await?;
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

/// What cancelling has to know of a job.
#[derive(FromRow)]
struct Standing {
    status: JobStatus,
    shard: ShardId,
    schedule_id: ScheduleId,
}

async fn cancel(connection: &mut SqliteConnection, write: Write, id: JobId) -> Outcome<Cancelled> {
    admit(&mut Connection::from(&mut *connection), write.account, "").await?;
    let standing: Option<Standing> = sqlx::query_as(
        "SELECT status, shard, schedule_id FROM runs WHERE id = ?1 AND account_id = ?2",
    )
    .bind(id)
    .bind(write.account)
    .fetch_optional(&mut *connection)
    .await?;
    let Some(standing) = standing else {
        let query = sqlx::query_scalar(HAS_ENDED).bind(id).bind(write.account);
        let is_there: bool = query.fetch_one(connection).await?;
        return Ok(if is_there { Cancelled::Finished } else { Cancelled::NotFound });
    };
    match standing.status {
        JobStatus::Success | JobStatus::Failed => Ok(Cancelled::Finished),
        JobStatus::Running => {
            let stopped = sqlx::query(
                "UPDATE runs SET stop = 2, updated_at = ?3
                 WHERE id = ?1 AND account_id = ?2 AND stop < 2",
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
        JobStatus::Pending => {
            cancel_waiting(connection, write, &[id], "the job was cancelled").await?;
            audit::record(
                &mut Connection::from(&mut *connection),
                write,
                Action::JobCancelled,
                [id],
            )
            .await?;
            let ended = Ended { shard: standing.shard, schedule: standing.schedule_id, job: id };
            overlap::forget_held(connection, ended).await?;
            Ok(Cancelled::Done(overlap::release(connection, write.now, &[ended]).await?))
        }
    }
}

/// Ends waiting jobs of an account. What the last attempt of one has brought stays what the job shows.
pub(super) async fn cancel_waiting(
    connection: &mut SqliteConnection,
    write: Write,
    jobs: &[JobId],
    why: &str,
) -> Outcome<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let ids = json_ids(jobs);
    let query = sqlx::query(CANCEL).bind(&ids).bind(write.account).bind(write.now).bind(why);
    query.execute(&mut *connection).await?;
    let query = "DELETE FROM runs
         WHERE id IN (SELECT unhex(value) FROM json_each(?1)) AND account_id = ?2";
    sqlx::query(query).bind(&ids).bind(write.account).execute(connection).await?;
    Ok(())
}

const CANCEL: &str = concat!(
    "
    INSERT INTO jobs (id, account_id, ",
    history_columns!(),
    ")
    SELECT r.id, r.account_id, r.schedule_id, r.version_id, r.created_at, max(?3, r.updated_at),
           r.started_at, max(?3, r.updated_at), r.attempt_started_at, 3, r.trigger,
           r.attempt_number, r.max_attempts, 'CANCELLED', ?4, a.duration_ms, a.timings,
           a.status_code, coalesce(a.response_truncated, 0), a.response_headers, a.response
    FROM runs AS r LEFT JOIN attempts AS a ON a.job_id = r.id AND a.number = r.attempt_number
    WHERE r.id IN (SELECT unhex(value) FROM json_each(?1)) AND r.account_id = ?2"
);

impl SqliteStore {
    async fn read_job(
        &self,
        account: AccountId,
        id: JobId,
    ) -> Outcome<Option<(Job, Vec<Attempt>)>> {
        let mut reader = self.connections.readers.take().await?;
        let outcome = read(&mut reader, &self.vault, account, id).await;
        reader.done(outcome)
    }
}

/// Reads job and attempts in one view of the store.
async fn read(
    connection: &mut SqliteConnection,
    vault: &Vault,
    account: AccountId,
    id: JobId,
) -> Outcome<Option<(Job, Vec<Attempt>)>> {
    let mut snapshot = connection.begin().await?;
    let found: Option<JobAndLast> =
        sqlx::query_as(JOB).bind(id).bind(account).fetch_optional(&mut *snapshot).await?;
    let Some(JobAndLast { version, mut job, last }) = found else {
        return Ok(None);
    };
    vault.open_job(account, version, &mut job);
    let mut attempts: Vec<Attempt> = sqlx::query_as(
        "SELECT number, started_at, completed_at, duration_ms, status_code, error_code,
             error_message, timings
         FROM attempts WHERE job_id = ?1 ORDER BY number",
    )
    .bind(id)
    .fetch_all(&mut *snapshot)
    .await?;
    let recorded = attempts.last().map_or(0, |attempt| attempt.number);
    attempts.extend(last.filter(|last| last.number > recorded));
    Ok(Some((job, attempts)))
}
