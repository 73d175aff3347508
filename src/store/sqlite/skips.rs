//! Skips: ranges of ticks that became no jobs.

use sqlx::{FromRow, SqliteConnection};

use super::SqliteStore;
use super::values::{key_above, key_from};
use crate::domain::schedule::{SKIP_COUNT_CAP, SkipReason};
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::store::paging::skip_page;
use crate::store::rows::ListedSkip;
use crate::store::sql::fault::Outcome;
use crate::store::{SkipPage, SkipQuery, TickRange};

/// A skip to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NewSkip {
    pub(super) account: AccountId,
    pub(super) schedule: ScheduleId,
    pub(super) range: TickRange,
    pub(super) reason: SkipReason,
}

#[derive(FromRow)]
struct Newest {
    id: i64,
    last_tick: Timestamp,
    reason: String,
}

/// Records a skip. If the schedule's newest one has the same reason and no job of a tick lies
/// between the two, it is extended.
pub(super) async fn record(connection: &mut SqliteConnection, skip: NewSkip) -> Outcome<()> {
    let newest: Option<Newest> = sqlx::query_as(
        "SELECT id, last_tick, reason FROM skips WHERE schedule_id = ?1
         ORDER BY first_tick DESC, id DESC LIMIT 1",
    )
    .bind(skip.schedule)
    .fetch_optional(&mut *connection)
    .await?;
    if let Some(newest) = newest
        && newest.reason == skip.reason.as_str()
        && newest.last_tick < skip.range.first
        && !has_job_between(connection, &skip, newest.last_tick).await?
    {
        sqlx::query("UPDATE skips SET last_tick = ?2, count = min(count + ?3, ?4) WHERE id = ?1")
            .bind(newest.id)
            .bind(skip.range.last)
            .bind(skip.range.count)
            .bind(SKIP_COUNT_CAP)
            .execute(connection)
            .await?;
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO skips (account_id, schedule_id, first_tick, last_tick, count, reason)
         VALUES (?1, ?2, ?3, ?4, min(?5, ?6), ?7)",
    )
    .bind(skip.account)
    .bind(skip.schedule)
    .bind(skip.range.first)
    .bind(skip.range.last)
    .bind(skip.range.count)
    .bind(SKIP_COUNT_CAP)
    .bind(skip.reason)
    .execute(connection)
    .await?;
    Ok(())
}

async fn has_job_between(
    connection: &mut SqliteConnection,
    skip: &NewSkip,
    after: Timestamp,
) -> Outcome<bool> {
    let found = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM jobs
             WHERE schedule_id = ?1 AND id >= ?2 AND id < ?3 AND trigger IN (0, 2))
             OR EXISTS (SELECT 1 FROM runs INDEXED BY runs_account
             WHERE account_id = ?4 AND schedule_id = ?1 AND id >= ?2 AND id < ?3
               AND trigger IN (0, 2))",
    )
    .bind(skip.schedule)
    .bind(key_above(after))
    .bind(key_from(skip.range.first))
    .bind(skip.account)
    .fetch_one(connection)
    .await?;
    Ok(found)
}

impl SqliteStore {
    pub(super) async fn list_skips(
        &self,
        account: AccountId,
        schedule: ScheduleId,
        wanted: &SkipQuery,
    ) -> Outcome<SkipPage> {
        let (after_first, after_row) =
            wanted.after.map_or((i64::MAX, i64::MAX), |(first, row)| (first.as_millis(), row));
        let query = sqlx::query_as(
            "SELECT id, first_tick, last_tick, count, reason FROM skips
             WHERE schedule_id = ?1 AND account_id = ?2
               AND (first_tick, id) < (?3, ?4) AND first_tick <= ?5 AND last_tick >= ?6
               AND EXISTS (SELECT 1 FROM schedules WHERE id = ?1 AND account_id = ?2)
               AND EXISTS (SELECT 1 FROM accounts WHERE id = ?2)
             ORDER BY first_tick DESC, id DESC LIMIT ?7",
        )
        .bind(schedule)
        .bind(account)
        .bind(after_first)
        .bind(after_row)
        .bind(wanted.to.map_or(i64::MAX, Timestamp::as_millis))
        .bind(wanted.from.unwrap_or_default())
        .bind(i64::from(wanted.limit) + 1);
        let rows: Vec<ListedSkip> = self.connections.readers.all(query).await?;
        Ok(skip_page(rows, wanted.limit))
    }
}
