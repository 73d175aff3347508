//! The active and the held job of a schedule whose overlap policy is `skip` or `queue_one`.
//!
//! The two are columns of the schedule's state. The active job keeps ticks from starting. The held
//! job waits for its end: it is PENDING and has no start time. Every transaction that ends a job or
//! changes the policy uses this module, and has locked the state's row.

use sqlx::AssertSqlSafe;

use super::ending::EndedJob;
use super::tickets::tickets;
use crate::domain::shard::ShardId;
use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp};
use crate::store::sql;
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::batch_rows::{ColumnType, batch_row, json, json_ids};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::error::SqlResult;

batch_row! {
    /// A job that has ended.
    EndedRow { shard: u16, schedule: Hex, job: Hex }
}

/// Returns the statement that makes held jobs active if their active ones have ended.
pub(in crate::store) fn promote_held(dialect: Dialect) -> String {
    format!(
        "UPDATE schedule_state AS st SET active_job_id = held_job_id, held_job_id = NULL
         FROM {}
         WHERE st.shard = r.shard AND st.schedule_id = r.schedule AND st.active_job_id = r.job
         RETURNING active_job_id",
        dialect.rows::<EndedRow>("$1")
    )
}

/// Makes held jobs active if the active ones have ended. Returns the tickets of those that may
/// start now.
pub(in crate::store) async fn release(
    connection: &mut Connection<'_>,
    now: Timestamp,
    ended: &[EndedJob],
) -> SqlResult<Vec<Ticket>> {
    if ended.is_empty() {
        return Ok(Vec::new());
    }
    let row = |ended: &EndedJob| EndedRow {
        shard: ended.shard.0,
        schedule: Hex(ended.schedule.to_bytes()),
        job: Hex(ended.job.to_bytes()),
    };
    let rows = json(&ended.iter().map(row).collect::<Vec<_>>());
    let promote = sql::query_scalar(AssertSqlSafe(promote_held(connection.dialect()))).bind(rows);
    let followers: Vec<Option<JobId>> = promote.fetch_all(connection).await?;
    start(connection, now, &followers.into_iter().flatten().collect::<Vec<_>>()).await
}

/// Starts held jobs. `+ 0` keeps the planner from the indexes of waiting jobs, and PostgreSQL gets
/// the ids that it has locked as an array, as in the claims.
async fn start(
    connection: &mut Connection<'_>,
    now: Timestamp,
    held: &[JobId],
) -> SqlResult<Vec<Ticket>> {
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let dialect = connection.dialect();
    let start = format!(
        "WITH held AS MATERIALIZED (
             SELECT id FROM runs WHERE {} AND status + 0 = 0 AND wake_at + 0 IS NULL
             ORDER BY id {})
         UPDATE runs SET wake_at = $1, updated_at = $1 WHERE {} RETURNING id",
        dialect.among("id", ColumnType::Id, "$2"),
        dialect.removal_lock(),
        dialect.one_of("id", "SELECT id FROM held")
    );
    let start = sql::query_scalar(AssertSqlSafe(start)).bind(now);
    let start = start.bind(json_ids(held.iter().map(|job| job.to_bytes())));
    let started: Vec<JobId> = start.fetch_all(connection).await?;
    tickets(connection, &started).await
}

/// Removes a held job that was cancelled from the state.
pub(super) async fn forget_held(connection: &mut Connection<'_>, ended: EndedJob) -> SqlResult<()> {
    let forget = sql::query(
        "UPDATE schedule_state SET held_job_id = NULL
         WHERE shard = $1 AND schedule_id = $2 AND held_job_id = $3",
    );
    forget.bind(ended.shard).bind(ended.schedule).bind(ended.job).run(connection).await
}

/// Makes the newest unfinished job of a tick the active one, because ticks must not overlap any
/// more.
pub(in crate::store::sql) async fn find_active(
    connection: &mut Connection<'_>,
    account: AccountId,
    shard: ShardId,
    schedule: ScheduleId,
) -> SqlResult<()> {
    let find = format!(
        "UPDATE schedule_state SET active_job_id =
             (SELECT id FROM runs {}
              WHERE account_id = $3 AND schedule_id = $2 AND status < 2 AND trigger IN (0, 2)
              ORDER BY id DESC LIMIT 1)
         WHERE shard = $1 AND schedule_id = $2",
        connection.dialect().indexed_by("runs_account")
    );
    let find = sql::query(AssertSqlSafe(find)).bind(shard).bind(schedule).bind(account);
    find.run(connection).await
}

/// Allows ticks to overlap: no job is active any more, and a held job starts.
pub(in crate::store::sql) async fn allow(
    connection: &mut Connection<'_>,
    now: Timestamp,
    shard: ShardId,
    schedule: ScheduleId,
    held: Option<JobId>,
) -> SqlResult<Vec<Ticket>> {
    let allow = sql::query(
        "UPDATE schedule_state SET active_job_id = NULL, held_job_id = NULL
         WHERE shard = $1 AND schedule_id = $2",
    );
    allow.bind(shard).bind(schedule).execute(connection).await?;
    start(connection, now, held.as_slice()).await
}
