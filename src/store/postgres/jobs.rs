//! Jobs: made, read and cancelled by users.

use async_trait::async_trait;
use sqlx::{FromRow, PgConnection};

use super::account_changes::admit;
use super::account_lock::BESIDE;
use super::audit;
use super::error::Outcome;
use super::overlap;
use super::partitions::days_of;
use super::quotas;
use super::trigger::trigger;
use super::{PostgresStore, Within};
use crate::domain::audit::Action;
use crate::domain::job::{Attempt, Job, JobStatus, Trigger};
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, JobId, ScheduleId};
use crate::store::ending::Ended;
use crate::store::rows::{JobAndLast, job_columns};
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
        let days = days_of([job.id]);
        if quota.is_none() && write.once.is_none() {
            return self
                .run_with_days(&self.api, "create_job", Within::Statement, days, {
                    move |connection| Box::pin(trigger(connection, write, job))
                })
                .await;
        }
        self.run_with_days(&self.api, "create_job", Within::Transaction, days, {
            move |connection| Box::pin(trigger_within(connection, write, job, quota))
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
        self.run_with_days(&self.api, "retry_job", Within::Transaction, days_of([id]), {
            move |connection| Box::pin(retry(connection, write, of, id, quota))
        })
        .await
    }

    async fn cancel_job(&self, write: &Write, id: JobId) -> Result<Cancelled> {
        let write = *write;
        self.api
            .run("cancel_job", Within::Transaction, move |connection| {
                Box::pin(cancel(connection, write, id))
            })
            .await
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
             INSERT INTO jobs (id, account_id, schedule_id, version_id, shard, status, trigger,
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
    admit(connection, write.account, BESIDE).await?;
    let triggered = create(connection, write, job, Trigger::Manual, quota).await?;
    if matches!(triggered, Triggered::Created(_)) {
        let action = Action::ScheduleTriggered;
        audit::record_making(connection, write, action, job.schedule, job.id).await?;
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
    admit(connection, write.account, BESIDE).await?;
    let found: Option<(JobStatus, ScheduleId)> =
        sqlx::query_as("SELECT status, schedule_id FROM jobs WHERE id = $1 AND account_id = $2")
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
    audit::record_making(connection, write, Action::JobRetried, of, id).await?;
    Ok(Retried::Created(ticket))
}

/// Whose state has to be locked before the job.
#[derive(FromRow)]
struct Belongs {
    shard: ShardId,
    schedule_id: ScheduleId,
}

async fn cancel(connection: &mut PgConnection, write: Write, id: JobId) -> Outcome<Cancelled> {
    admit(connection, write.account, BESIDE).await?;
    let belongs: Option<Belongs> =
        sqlx::query_as("SELECT shard, schedule_id FROM jobs WHERE id = $1 AND account_id = $2")
            .bind(id)
            .bind(write.account)
            .fetch_optional(&mut *connection)
            .await?;
    let Some(Belongs { shard, schedule_id: schedule }) = belongs else {
        return Ok(Cancelled::NotFound);
    };
    sqlx::query(
        "SELECT FROM schedule_state WHERE shard = $1 AND schedule_id = $2 FOR NO KEY UPDATE",
    )
    .bind(shard)
    .bind(schedule)
    .fetch_optional(&mut *connection)
    .await?;
    let status: Option<JobStatus> = sqlx::query_scalar(
        "SELECT status FROM jobs WHERE id = $1 AND account_id = $2 FOR NO KEY UPDATE",
    )
    .bind(id)
    .bind(write.account)
    .fetch_optional(&mut *connection)
    .await?;
    match status {
        None => Ok(Cancelled::NotFound),
        Some(JobStatus::Success | JobStatus::Failed) => Ok(Cancelled::Finished),
        Some(JobStatus::Running) => {
            let stopped = sqlx::query(
                "UPDATE jobs SET stop = 2, updated_at = $3
                 WHERE id = $1 AND account_id = $2 AND stop < 2",
            )
            .bind(id)
            .bind(write.account)
            .bind(write.now)
            .execute(&mut *connection)
            .await?;
            if stopped.rows_affected() > 0 {
                audit::record(connection, write, Action::JobCancelled, [id]).await?;
            }
            Ok(Cancelled::Done(Vec::new()))
        }
        Some(JobStatus::Pending) => {
            sqlx::query(
                "UPDATE jobs SET status = 3, completed_at = GREATEST($3, updated_at),
                     wake_at = NULL, updated_at = GREATEST($3, updated_at),
                     error_code = 'CANCELLED', error_message = 'the job was cancelled'
                 WHERE id = $1 AND account_id = $2",
            )
            .bind(id)
            .bind(write.account)
            .bind(write.now)
            .execute(&mut *connection)
            .await?;
            audit::record(connection, write, Action::JobCancelled, [id]).await?;
            let ended = Ended { shard, schedule, job: id };
            overlap::forget_held(connection, ended).await?;
            Ok(Cancelled::Done(overlap::release(connection, write.now, &[ended]).await?))
        }
    }
}

/// Reads job and attempts in one view of the store.
async fn read(
    snapshot: &mut PgConnection,
    vault: &Vault,
    account: AccountId,
    id: JobId,
) -> Outcome<Option<(Job, Vec<Attempt>)>> {
    let found: Option<JobAndLast> = sqlx::query_as(concat!(
        "SELECT ",
        job_columns!(),
        ", j.response, j.response_truncated, j.attempt_started_at, j.timings
         FROM jobs AS j JOIN schedule_versions AS v ON v.id = j.version_id
         WHERE j.id = $1 AND j.account_id = $2
           AND EXISTS (SELECT FROM accounts WHERE id = $2)"
    ))
    .bind(id)
    .bind(account)
    .fetch_optional(&mut *snapshot)
    .await?;
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
