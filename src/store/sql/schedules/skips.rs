//! Skips: ranges of ticks that did not become jobs.
//!
//! A transaction that records a skip has locked the schedule's state.

use crate::domain::schedule::{SKIP_COUNT_CAP, SkipReason};
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::rows::ListedSkip;
use crate::store::sql::encoding::values::{key_above, key_from};
use crate::store::sql::error::SqlResult;
use crate::store::{SkipQuery, TickRange, sql};

/// A skip to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct NewSkip {
    pub(in crate::store) account: AccountId,
    pub(in crate::store) shard: ShardId,
    pub(in crate::store) schedule: ScheduleId,
    pub(in crate::store) range: TickRange,
    pub(in crate::store) reason: SkipReason,
}

/// Returns the stored form of a number of ticks.
pub(in crate::store) fn counted(count: u32) -> i32 {
    count.min(SKIP_COUNT_CAP).cast_signed()
}

/// Records a skip. It extends the schedule's newest skip instead if that has the same reason and no
/// job of a tick lies in between.
pub(in crate::store) async fn record(
    connection: &mut Connection<'_>,
    skip: NewSkip,
) -> SqlResult<()> {
    let dialect = connection.dialect();
    let extends = match dialect {
        Dialect::Postgres => extend_open(skip).execute(connection).await? > 0,
        Dialect::Sqlite => extend_newest(connection, skip).await?,
    };
    if extends {
        return Ok(());
    }
    let insert = sql::query(match dialect {
        Dialect::Postgres => {
            "WITH begun AS (
                 INSERT INTO skips (account_id, schedule_id, first_tick, last_tick, count, reason)
                 VALUES ($1, $2, $3, $4, $5, $6) RETURNING id)
             UPDATE schedule_state SET open_skip = begun.id FROM begun
             WHERE schedule_id = $2 AND shard = $7"
        }
        Dialect::Sqlite => {
            "INSERT INTO skips (account_id, schedule_id, first_tick, last_tick, count, reason)
             VALUES ($1, $2, $3, $4, $5, $6)"
        }
    });
    let insert = insert.bind(skip.account).bind(skip.schedule).bind(skip.range.first);
    let insert = insert.bind(skip.range.last).bind(counted(skip.range.count)).bind(skip.reason);
    let insert = match dialect {
        Dialect::Postgres => insert.bind(skip.shard),
        Dialect::Sqlite => insert,
    };
    insert.run(connection).await
}

/// Returns the statement that extends a skip in PostgreSQL, where the state contains the id of the
/// skip that may be extended.
fn extend_open(skip: NewSkip) -> sql::Query {
    sql::query(
        "UPDATE skips AS k SET last_tick = $3, count = least(k.count + $4, $5)
         FROM schedule_state AS st
         WHERE st.shard = $1 AND st.schedule_id = $2 AND k.id = st.open_skip AND k.reason = $6
           AND k.last_tick < $7",
    )
    .bind(skip.shard)
    .bind(skip.schedule)
    .bind(skip.range.last)
    .bind(counted(skip.range.count))
    .bind(counted(SKIP_COUNT_CAP))
    .bind(skip.reason)
    .bind(skip.range.first)
}

/// Extends the newest skip in SQLite, unless a job of a tick lies in between.
async fn extend_newest(connection: &mut Connection<'_>, skip: NewSkip) -> SqlResult<bool> {
    let newest = sql::query_as(
        "SELECT id, last_tick, reason FROM skips WHERE schedule_id = $1
         ORDER BY first_tick DESC, id DESC LIMIT 1",
    );
    let newest = newest.bind(skip.schedule).fetch_optional(connection).await?;
    let Some((id, last_tick, reason)): Option<(i64, Timestamp, String)> = newest else {
        return Ok(false);
    };
    if reason != skip.reason.as_str()
        || last_tick >= skip.range.first
        || has_job_between(skip, last_tick).fetch_one(connection).await?
    {
        return Ok(false);
    }
    sql::query("UPDATE skips SET last_tick = $2, count = min(count + $3, $4) WHERE id = $1")
        .bind(id)
        .bind(skip.range.last)
        .bind(counted(skip.range.count))
        .bind(counted(SKIP_COUNT_CAP))
        .execute(connection)
        .await?;
    Ok(true)
}

fn has_job_between(skip: NewSkip, after: Timestamp) -> sql::ScalarQuery<bool> {
    sql::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM jobs
             WHERE schedule_id = $1 AND id >= $2 AND id < $3 AND trigger IN (0, 2))
             OR EXISTS (SELECT 1 FROM runs INDEXED BY runs_account
             WHERE account_id = $4 AND schedule_id = $1 AND id >= $2 AND id < $3
               AND trigger IN (0, 2))",
    )
    .bind(skip.schedule)
    .bind(key_above(after))
    .bind(key_from(skip.range.first))
    .bind(skip.account)
}

/// Returns the statement that reads a page of a schedule's skips and one more, newest first.
pub(super) fn listed(
    account: AccountId,
    schedule: ScheduleId,
    wanted: &SkipQuery,
) -> sql::Query<ListedSkip> {
    let (after_first, after_row) =
        wanted.after.map_or((i64::MAX, i64::MAX), |(first, row)| (first.as_millis(), row));
    sql::query_as(
        "SELECT id, first_tick, last_tick, count, reason FROM skips
         WHERE schedule_id = $1 AND account_id = $2
           AND (first_tick, id) < ($3, $4) AND first_tick <= $5 AND last_tick >= $6
           AND EXISTS (SELECT 1 FROM schedules WHERE id = $1 AND account_id = $2)
           AND EXISTS (SELECT 1 FROM accounts WHERE id = $2)
         ORDER BY first_tick DESC, id DESC LIMIT $7",
    )
    .bind(schedule)
    .bind(account)
    .bind(after_first)
    .bind(after_row)
    .bind(wanted.to.map_or(i64::MAX, Timestamp::as_millis))
    .bind(wanted.from.unwrap_or_default())
    .bind(i64::from(wanted.limit) + 1)
}
