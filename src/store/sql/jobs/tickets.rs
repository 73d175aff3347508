//! Tickets of stored jobs.

use sqlx::AssertSqlSafe;

use crate::domain::JobId;
use crate::domain::ticket::Ticket;
use crate::store::sql;
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::batch_rows::{ColumnType, json_ids};
use crate::store::sql::error::SqlResult;

/// Returns the statement that reads the tickets of jobs. `+ 0` keeps the planner from the indexes
/// of waiting jobs.
pub(in crate::store) fn read(dialect: Dialect) -> String {
    format!(
        "SELECT j.id, j.shard, j.account_id, v.host_key, j.wake_at
         FROM runs AS j {} schedule_versions AS v ON v.id = j.version_id
         WHERE {} AND j.status + 0 = 0 AND j.wake_at + 0 IS NOT NULL",
        dialect.ordered_join(),
        dialect.among("j.id", ColumnType::Id, "$1")
    )
}

/// Returns the tickets of those jobs that wait for an attempt and are not held, in the order of
/// their ids.
pub(in crate::store) async fn tickets(
    connection: &mut Connection<'_>,
    jobs: &[JobId],
) -> SqlResult<Vec<Ticket>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let query = sql::query_as(AssertSqlSafe(read(connection.dialect())));
    let query = query.bind(json_ids(jobs.iter().map(|job| job.to_bytes())));
    let mut tickets: Vec<Ticket> = query.fetch_all(connection).await?;
    tickets.sort_unstable_by_key(|ticket| ticket.job);
    Ok(tickets)
}
