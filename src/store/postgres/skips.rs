//! Skips: ranges of ticks that became no jobs.
//!
//! Whoever records one has locked the schedule's state, which names the range that may be extended.

use std::sync::Arc;

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};

use super::error::Outcome;
use super::values::number;
use crate::domain::schedule::{SKIP_COUNT_CAP, Skip, SkipReason};
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::store::{SkipPage, SkipQuery, TickRange};

/// Records a skip. If the schedule's newest one has the same reason and no job of a tick has
/// followed it, it is extended.
pub(super) async fn record(
    connection: &mut PgConnection,
    account: AccountId,
    (shard, schedule): (ShardId, ScheduleId),
    range: TickRange,
    reason: SkipReason,
) -> Outcome<()> {
    let extended = sqlx::query(
        "UPDATE skips AS k SET last_tick = $3, count = least(k.count + $4, $5)
         FROM schedule_state AS st
         WHERE st.shard = $1 AND st.schedule_id = $2 AND k.id = st.open_skip AND k.reason = $6
           AND k.last_tick < $7",
    )
    .bind(shard)
    .bind(schedule)
    .bind(range.last)
    .bind(counted(range.count))
    .bind(counted(SKIP_COUNT_CAP))
    .bind(reason)
    .bind(range.first)
    .execute(&mut *connection)
    .await?;
    if extended.rows_affected() > 0 {
        return Ok(());
    }
    sqlx::query(
        "WITH begun AS (
             INSERT INTO skips (account_id, schedule_id, first_tick, last_tick, count, reason)
             VALUES ($1, $3, $4, $5, $6, $7) RETURNING id)
         UPDATE schedule_state SET open_skip = begun.id FROM begun
         WHERE shard = $2 AND schedule_id = $3",
    )
    .bind(account)
    .bind(shard)
    .bind(schedule)
    .bind(range.first)
    .bind(range.last)
    .bind(counted(range.count))
    .bind(reason)
    .execute(connection)
    .await?;
    Ok(())
}

/// A number of ticks as it is stored.
pub(super) fn counted(count: u32) -> i32 {
    count.min(SKIP_COUNT_CAP).cast_signed()
}

struct Listed {
    id: i64,
    skip: Skip,
}

impl FromRow<'_, PgRow> for Listed {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let skip = Skip {
            first: row.try_get("first_tick")?,
            last: row.try_get("last_tick")?,
            count: number::<i32, _>(row, "count")?,
            reason: row.try_get("reason")?,
        };
        Ok(Self { id: row.try_get("id")?, skip })
    }
}

pub(super) async fn list(
    connection: &mut PgConnection,
    account: AccountId,
    schedule: ScheduleId,
    wanted: Arc<SkipQuery>,
) -> Outcome<SkipPage> {
    let (after_first, after_row) =
        wanted.after.map_or((i64::MAX, i64::MAX), |(first, row)| (first.as_millis(), row));
    let mut rows: Vec<Listed> = sqlx::query_as(
        "SELECT id, first_tick, last_tick, count, reason FROM skips
         WHERE schedule_id = $1 AND account_id = $2
           AND (first_tick, id) < ($3, $4) AND first_tick <= $5 AND last_tick >= $6
           AND EXISTS (SELECT FROM schedules WHERE id = $1 AND account_id = $2)
         ORDER BY first_tick DESC, id DESC LIMIT $7",
    )
    .bind(schedule)
    .bind(account)
    .bind(after_first)
    .bind(after_row)
    .bind(wanted.to.map_or(i64::MAX, Timestamp::as_millis))
    .bind(wanted.from.unwrap_or_default())
    .bind(i64::from(wanted.limit) + 1)
    .fetch_all(connection)
    .await?;
    let limit = usize::try_from(wanted.limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| has_more).map(|row| (row.skip.first, row.id));
    Ok(SkipPage { skips: rows.into_iter().map(|row| row.skip).collect(), next })
}
