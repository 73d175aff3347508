//! Making a job by hand in one statement: where its account has no quota to be counted and its call
//! no reservation to be marked, as nearly always, there is nothing to decide in between.

use sqlx::{FromRow, PgConnection, Row};

use crate::domain::Timestamp;
use crate::domain::audit::Action;
use crate::domain::job::Trigger;
use crate::domain::ticket::Ticket;
use crate::store::sql::account_lock::judge;
use crate::store::sql::fault::{Fault, Outcome, Remedy};
use crate::store::{NewJob, StoreErrorKind, Triggered, Write};

/// What is locked is locked in the order of all others: the schedule's row is not looked at before
/// the account's. The row of an account that was suspended, or of a schedule that was changed, after
/// the statement began may be seen as it was before: then the job was asked for before that.
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

/// Makes the job, unless the account may not or has no such schedule.
pub(super) async fn trigger(
    connection: &mut PgConnection,
    write: Write,
    job: NewJob,
) -> Outcome<Triggered> {
    let row = sqlx::query(TRIGGER)
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
    let suspended = |row| Row::try_get(row, "suspended_at");
    let suspended: Option<Option<Timestamp>> = row.as_ref().map(suspended).transpose()?;
    judge(suspended)?;
    let Some(row) = row.filter(|row| row.get("is_found")) else {
        return Ok(Triggered::NoSuchSchedule);
    };
    if row.try_get::<Option<i64>, _>("wake_at")?.is_none() {
        // It waited for the schedule, and does not see what that has become.
        let message = "the schedule was changed while it was triggered";
        return Err(Fault::new(StoreErrorKind::Unavailable, message).with(Remedy::Repeat));
    }
    Ok(Triggered::Created(Ticket::from_row(&row)?))
}
