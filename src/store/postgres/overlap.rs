//! The active and the held job of a schedule whose overlap policy is `skip` or `queue_one`.
//!
//! The two are columns of the schedule's state. The active job is the one that keeps ticks from
//! starting; the held one waits for its end, PENDING without a start. Whatever ends a job or
//! changes the policy goes through here, and has locked the state's row.

use sqlx::PgConnection;

use super::tickets::tickets;
use crate::domain::shard::ShardId;
use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp};
use crate::store::ending::Ended;
use crate::store::sql::fault::Outcome;

/// Lets held jobs follow the active ones that have ended; returns the tickets of those that may
/// start now.
pub(super) async fn release(
    connection: &mut PgConnection,
    now: Timestamp,
    ended: &[Ended],
) -> Outcome<Vec<Ticket>> {
    if ended.is_empty() {
        return Ok(Vec::new());
    }
    let followers: Vec<Option<JobId>> = sqlx::query_scalar(
        "UPDATE schedule_state AS st SET active_job_id = st.held_job_id, held_job_id = NULL
         FROM unnest($1::integer[], $2::uuid[], $3::uuid[]) AS ended (shard, schedule, job)
         WHERE st.shard = ended.shard AND st.schedule_id = ended.schedule
           AND st.active_job_id = ended.job
         RETURNING st.active_job_id",
    )
    .bind(ended.iter().map(|ended| ended.shard).collect::<Vec<_>>())
    .bind(ended.iter().map(|ended| ended.schedule).collect::<Vec<_>>())
    .bind(ended.iter().map(|ended| ended.job).collect::<Vec<_>>())
    .fetch_all(&mut *connection)
    .await?;
    start(connection, now, followers.into_iter().flatten().collect()).await
}

/// Lets held jobs start. Their ids are handed on as an array: see the claims.
pub(super) async fn start(
    connection: &mut PgConnection,
    now: Timestamp,
    held: Vec<JobId>,
) -> Outcome<Vec<Ticket>> {
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let started: Vec<JobId> = sqlx::query_scalar(
        "WITH held AS MATERIALIZED (
             SELECT id FROM runs
             WHERE id = ANY ($2) AND status::integer = 0 AND wake_at IS NULL
             ORDER BY id FOR UPDATE)
         UPDATE runs SET wake_at = $1, updated_at = $1
         WHERE id = ANY (ARRAY (SELECT id FROM held))
         RETURNING id",
    )
    .bind(now)
    .bind(&held)
    .fetch_all(&mut *connection)
    .await?;
    tickets(connection, &started).await
}

/// Forgets a held job that was cancelled.
pub(super) async fn forget_held(connection: &mut PgConnection, ended: Ended) -> Outcome<()> {
    sqlx::query(
        "UPDATE schedule_state SET held_job_id = NULL
         WHERE shard = $1 AND schedule_id = $2 AND held_job_id = $3",
    )
    .bind(ended.shard)
    .bind(ended.schedule)
    .bind(ended.job)
    .execute(connection)
    .await?;
    Ok(())
}

/// Makes the newest unfinished job of a tick the active one: ticks overlap no longer.
pub(super) async fn find_active(
    connection: &mut PgConnection,
    account: AccountId,
    shard: ShardId,
    schedule: ScheduleId,
) -> Outcome<()> {
    sqlx::query(
        "UPDATE schedule_state SET active_job_id =
             (SELECT id FROM runs
              WHERE account_id = $3 AND schedule_id = $2 AND trigger IN (0, 2)
              ORDER BY id DESC LIMIT 1)
         WHERE shard = $1 AND schedule_id = $2",
    )
    .bind(shard)
    .bind(schedule)
    .bind(account)
    .execute(connection)
    .await?;
    Ok(())
}

/// Lets ticks overlap: nothing is active any more, a held job starts.
pub(super) async fn allow(
    connection: &mut PgConnection,
    now: Timestamp,
    shard: ShardId,
    schedule: ScheduleId,
    held: Option<JobId>,
) -> Outcome<Vec<Ticket>> {
    sqlx::query(
        "UPDATE schedule_state SET active_job_id = NULL, held_job_id = NULL
         WHERE shard = $1 AND schedule_id = $2",
    )
    .bind(shard)
    .bind(schedule)
    .execute(&mut *connection)
    .await?;
    start(connection, now, held.into_iter().collect()).await
}
