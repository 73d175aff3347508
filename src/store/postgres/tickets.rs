//! Tickets of stored jobs.

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};

use crate::domain::JobId;
use crate::domain::ticket::Ticket;
use crate::store::sql::fault::Outcome;

impl FromRow<'_, PgRow> for Ticket {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            job: row.try_get("id")?,
            shard: row.try_get("shard")?,
            account: row.try_get("account_id")?,
            host: row.try_get("host_key")?,
            start: row.try_get("wake_at")?,
        })
    }
}

/// The tickets of those of the jobs that wait for an attempt and may have one.
pub(super) async fn tickets(connection: &mut PgConnection, jobs: &[JobId]) -> Outcome<Vec<Ticket>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let tickets = sqlx::query_as(
        "SELECT j.id, j.shard, j.account_id, v.host_key, j.wake_at
         FROM runs AS j JOIN schedule_versions AS v ON v.id = j.version_id
         WHERE j.id = ANY ($1) AND j.status::integer = 0 AND j.wake_at IS NOT NULL
         ORDER BY j.id",
    )
    .bind(jobs)
    .fetch_all(connection)
    .await?;
    Ok(tickets)
}
