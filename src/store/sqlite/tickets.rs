//! Tickets of stored jobs.

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row, SqliteConnection};

use super::values::json_ids;
use crate::domain::JobId;
use crate::domain::ticket::Ticket;
use crate::store::sql::fault::Outcome;

impl FromRow<'_, SqliteRow> for Ticket {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            job: row.try_get("id")?,
            shard: row.try_get("shard")?,
            account: row.try_get("account_id")?,
            host: row.try_get("host_key")?,
            start: row.try_get("wake_at")?,
        })
    }
}

pub(super) const TICKETS: &str = "
    SELECT j.id, j.shard, j.account_id, v.host_key, j.wake_at
    FROM json_each(?1) AS e CROSS JOIN runs AS j CROSS JOIN schedule_versions AS v
    WHERE j.id = unhex(e.value) AND j.status = 0 AND j.wake_at IS NOT NULL
      AND v.id = j.version_id";

/// The tickets of those of the jobs that wait for an attempt and may have one.
pub(super) async fn tickets(
    connection: &mut SqliteConnection,
    jobs: &[JobId],
) -> Outcome<Vec<Ticket>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let tickets = sqlx::query_as(TICKETS).bind(json_ids(jobs)).fetch_all(connection).await?;
    Ok(tickets)
}
