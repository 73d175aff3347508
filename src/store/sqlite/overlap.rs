//! The active and the held job of a schedule whose overlap policy is `skip` or `queue_one`.
//!
//! The two are columns of the schedule's state. The active job is the one that keeps ticks from
//! starting; the held one waits for its end, PENDING without a start. Whatever ends a job or
//! changes the policy goes through here.

use sqlx::SqliteConnection;

use super::tickets::tickets;
use super::values::{hex, json_ids, json_rows};
use crate::domain::shard::ShardId;
use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp};
use crate::store::ending::Ended;
use crate::store::sql::fault::Outcome;

/// Lets held jobs follow the active ones that have ended; returns the tickets of those that may
/// start now.
pub(super) async fn release(
    connection: &mut SqliteConnection,
    now: Timestamp,
    ended: &[Ended],
) -> Outcome<Vec<Ticket>> {
    if ended.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<_> = ended.iter().map(|e| (e.shard.0, hex(&e.schedule), hex(&e.job))).collect();
    let followers: Vec<Option<JobId>> =
        sqlx::query_scalar(RELEASE).bind(json_rows(&rows)).fetch_all(&mut *connection).await?;
    start(connection, now, &followers.into_iter().flatten().collect::<Vec<_>>()).await
}

pub(super) const RELEASE: &str = "
    UPDATE schedule_state SET active_job_id = held_job_id, held_job_id = NULL
    FROM (SELECT value ->> 0 AS shard, unhex(value ->> 1) AS schedule, unhex(value ->> 2) AS job
          FROM jsonb_each(?1)) AS ended
    WHERE schedule_state.shard = ended.shard AND schedule_state.schedule_id = ended.schedule
      AND schedule_state.active_job_id = ended.job
    RETURNING active_job_id";

/// Lets a held job start.
pub(super) async fn start(
    connection: &mut SqliteConnection,
    now: Timestamp,
    held: &[JobId],
) -> Outcome<Vec<Ticket>> {
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let started: Vec<JobId> = sqlx::query_scalar(
        "UPDATE runs SET wake_at = ?1, updated_at = ?1
         WHERE id IN (SELECT unhex(value) FROM json_each(?2)) AND +status = 0 AND +wake_at IS NULL
         RETURNING id",
    )
    .bind(now)
    .bind(json_ids(held))
    .fetch_all(&mut *connection)
    .await?;
    tickets(connection, &started).await
}

/// Forgets a held job that was cancelled.
pub(super) async fn forget_held(connection: &mut SqliteConnection, ended: Ended) -> Outcome<()> {
    sqlx::query(
        "UPDATE schedule_state SET held_job_id = NULL
         WHERE shard = ?1 AND schedule_id = ?2 AND held_job_id = ?3",
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
    connection: &mut SqliteConnection,
    account: AccountId,
    shard: ShardId,
    schedule: ScheduleId,
) -> Outcome<()> {
    sqlx::query(
        "UPDATE schedule_state SET active_job_id =
             (SELECT id FROM runs INDEXED BY runs_account
              WHERE account_id = ?3 AND schedule_id = ?2 AND trigger IN (0, 2)
              ORDER BY id DESC LIMIT 1)
         WHERE shard = ?1 AND schedule_id = ?2",
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
    connection: &mut SqliteConnection,
    now: Timestamp,
    shard: ShardId,
    schedule: ScheduleId,
    held: Option<JobId>,
) -> Outcome<Vec<Ticket>> {
    sqlx::query(
        "UPDATE schedule_state SET active_job_id = NULL, held_job_id = NULL
         WHERE shard = ?1 AND schedule_id = ?2",
    )
    .bind(shard)
    .bind(schedule)
    .execute(&mut *connection)
    .await?;
    start(connection, now, held.as_slice()).await
}
