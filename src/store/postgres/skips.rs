//! Skips: ranges of ticks that became no jobs.
//!
//! Whoever records one has locked the schedule's state, which names the range that may be extended.

use std::sync::Arc;

use sqlx::PgConnection;

use crate::domain::schedule::{SKIP_COUNT_CAP, SkipReason};
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::store::paging::skip_page;
use crate::store::rows::ListedSkip;
use crate::store::sql::fault::Outcome;
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

pub(super) async fn list(
    connection: &mut PgConnection,
    account: AccountId,
    schedule: ScheduleId,
    wanted: Arc<SkipQuery>,
) -> Outcome<SkipPage> {
    let (after_first, after_row) =
        wanted.after.map_or((i64::MAX, i64::MAX), |(first, row)| (first.as_millis(), row));
    let rows: Vec<ListedSkip> = sqlx::query_as(
        "SELECT id, first_tick, last_tick, count, reason FROM skips
         WHERE schedule_id = $1 AND account_id = $2
           AND (first_tick, id) < ($3, $4) AND first_tick <= $5 AND last_tick >= $6
           AND EXISTS (SELECT FROM schedules WHERE id = $1 AND account_id = $2)
               AND EXISTS (SELECT FROM accounts WHERE id = $2)
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
    Ok(skip_page(rows, wanted.limit))
}
