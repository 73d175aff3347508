//! Creates the jobs that users ask for.

use sqlx::{AssertSqlSafe, FromRow};

use super::rows::STATUS;
use crate::domain::audit::Action;
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::ticket::Ticket;
use crate::domain::{JobId, ScheduleId, Timestamp};
use crate::runtime::faults;
use crate::store::sql::account_lock::{admit, judge};
use crate::store::sql::connection::Connection;
use crate::store::sql::encoding::rows::StoreRow;
use crate::store::sql::error::{Remedy, SqlError, SqlResult};
use crate::store::sql::{self, audit, quotas};
use crate::store::{NewJob, RetryResult, StoreErrorKind, TriggerResult, WriteContext};

/// Creates a job of a schedule.
pub(super) async fn trigger(
    connection: &mut Connection<'_>,
    write: WriteContext,
    job: NewJob,
    quota: Option<u64>,
) -> SqlResult<TriggerResult> {
    admit(connection, write.account, connection.dialect().shared_lock()).await?;
    let triggered = create(connection, write, job, Trigger::Manual, quota).await?;
    if matches!(triggered, TriggerResult::Created(_)) {
        let action = Action::ScheduleTriggered;
        audit::record_making(connection, write, action, job.schedule, job.id).await?;
    }
    Ok(triggered)
}

/// Creates a new job of the schedule of a finished one.
pub(super) async fn retry(
    connection: &mut Connection<'_>,
    write: WriteContext,
    of: JobId,
    id: JobId,
    quota: Option<u64>,
) -> SqlResult<RetryResult> {
    admit(connection, write.account, connection.dialect().shared_lock()).await?;
    let found = sql::query_as(STATUS).bind(of).bind(write.account);
    let found: Option<(JobStatus, ScheduleId)> = found.fetch_optional(connection).await?;
    let Some((status, schedule)) = found else {
        return Ok(RetryResult::NotFound);
    };
    if !status.is_final() {
        return Ok(RetryResult::Unfinished);
    }
    let job = NewJob { id, schedule };
    let ticket = match create(connection, write, job, Trigger::Retry, quota).await? {
        TriggerResult::Created(ticket) => ticket,
        TriggerResult::NoSuchSchedule => return Ok(RetryResult::ScheduleGone),
        TriggerResult::UsedUp(used_up) => return Ok(RetryResult::UsedUp(used_up)),
        TriggerResult::Uncounted => return Ok(RetryResult::Uncounted),
    };
    audit::record_making(connection, write, Action::JobRetried, of, id).await?;
    Ok(RetryResult::Created(ticket))
}

/// Creates a job. A separate statement locks the schedule's row, so that the next one sees the
/// current version, and a delete happens completely before or after. The account's counter is
/// locked last, so that it is locked for a short time only. Only jobs that are created are counted.
async fn create(
    connection: &mut Connection<'_>,
    write: WriteContext,
    job: NewJob,
    trigger: Trigger,
    quota: Option<u64>,
) -> SqlResult<TriggerResult> {
    let lock = connection.dialect().shared_lock();
    let lock = format!("SELECT 1 FROM schedules WHERE id = $1 AND account_id = $2 {lock}");
    let lock = sql::query_scalar(AssertSqlSafe(lock)).bind(job.schedule).bind(write.account);
    let locked: Option<i32> = lock.fetch_optional(connection).await?;
    if locked.is_none() {
        return Ok(TriggerResult::NoSuchSchedule);
    }
    if let Some(quota) = quota
        && let Some(refused) = quotas::take_one(connection, write, quota).await?
    {
        return Ok(refused);
    }
    let insert = sql::query_as(
        "INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger,
                           max_attempts, wake_at, created_at, updated_at)
         SELECT $1, s.account_id, s.id, s.version_id, s.shard, 0, $4, v.max_retries, $5, $5, $5
         FROM schedules AS s JOIN schedule_versions AS v ON v.id = s.version_id
         WHERE s.id = $2 AND s.account_id = $3
         RETURNING id, shard, account_id, wake_at,
             (SELECT v.host_key FROM schedule_versions AS v WHERE v.id = runs.version_id)
                 AS host_key",
    );
    let insert = insert.bind(job.id).bind(job.schedule).bind(write.account).bind(trigger);
    Ok(TriggerResult::Created(insert.bind(write.now).fetch_one(connection).await?))
}

/// Creates a job of a schedule in one statement of PostgreSQL. Most calls can use it: it needs no
/// decision in between, because the account has no quota to count and the call has no reservation
/// to mark.
///
/// It locks rows in the order that all transactions use: the account's row before the schedule's.
/// If the account was suspended or the schedule changed after the statement began, the statement
/// may see the old row: then the job counts as asked for before that.
const TRIGGER: &str = "
    WITH admitted AS MATERIALIZED (
        SELECT suspended_at FROM accounts WHERE id = $3 FOR KEY SHARE
    ), found AS MATERIALIZED (
        SELECT id, version_id, shard FROM schedules
        WHERE id = $2 AND account_id = $3 AND (SELECT suspended_at IS NULL FROM admitted)
        FOR KEY SHARE
    ), made AS (
        INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger,
                          max_attempts, wake_at, created_at, updated_at)
        SELECT $1, $3, f.id, v.id, f.shard, 0, $4, v.max_retries, $5, $5, $5
        FROM found AS f JOIN schedule_versions AS v ON v.id = f.version_id
        RETURNING id, shard, account_id, version_id, wake_at
    ), entered AS (
        INSERT INTO audit_log (id, account_id, actor, action, object, origin)
        SELECT $6, $3, $7, $8, $9, $10 FROM made
    )
    SELECT a.suspended_at, EXISTS (SELECT FROM found) AS is_found,
           m.id, m.shard, m.account_id, v.host_key, m.wake_at
    FROM admitted AS a
    LEFT JOIN (made AS m JOIN schedule_versions AS v ON v.id = m.version_id) ON true";

/// A row of [`TRIGGER`].
struct TriggeredRow {
    suspended_at: Option<Timestamp>,
    is_found: bool,
    ticket: Option<Ticket>,
}

impl<R: StoreRow> FromRow<'_, R> for TriggeredRow {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        let wake_at: Option<Timestamp> = row.read("wake_at")?;
        Ok(Self {
            suspended_at: row.read("suspended_at")?,
            is_found: row.read("is_found")?,
            ticket: wake_at.map(|_| Ticket::from_row(row)).transpose()?,
        })
    }
}

/// Runs [`TRIGGER`].
pub(super) async fn trigger_at_once(
    connection: &mut Connection<'_>,
    write: WriteContext,
    job: NewJob,
) -> SqlResult<TriggerResult> {
    let attempted: Option<TriggeredRow> = sql::query_as(faults::statement("trigger", TRIGGER))
        .bind(job.id)
        .bind(job.schedule)
        .bind(write.account)
        .bind(Trigger::Manual)
        .bind(write.now)
        .bind(write.entry)
        .bind(write.author.actor.to_string())
        .bind(Action::ScheduleTriggered)
        .bind(job.schedule.to_string())
        .bind(write.author.origin.to_string())
        .fetch_optional(connection)
        .await?;
    judge(attempted.as_ref().map(|attempted| attempted.suspended_at))?;
    match attempted {
        Some(TriggeredRow { ticket: Some(ticket), .. }) => Ok(TriggerResult::Created(ticket)),
        Some(TriggeredRow { is_found: true, .. }) => {
            // The statement waited for the schedule's row, and does not see its new version.
            let message = "the schedule was changed while it was triggered";
            Err(SqlError::new(StoreErrorKind::Unavailable, message).with(Remedy::Repeat))
        }
        _ => Ok(TriggerResult::NoSuchSchedule),
    }
}
