//! The ranges of skips that a batch of firings extends or begins.
//!
//! A transaction that records a skip has locked the state of the schedule. The state names the open
//! range, which can be extended as long as the reason is the same and no tick becomes a job.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;

use crate::domain::schedule::{SKIP_COUNT_CAP, SkipReason};
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::store::TickRange;
use crate::store::postgres::connection::values::column;
use crate::store::sql::error::SqlResult;
use crate::store::sql::schedules::skips::counted;

/// A range that another transaction has locked, or that was pruned, is not extended: a new one
/// begins.
const EXTEND: &str = "
    WITH open AS MATERIALIZED (
        SELECT id FROM skips WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE skips AS k SET last_tick = e.last_tick, count = least(k.count + e.count, $4)
    FROM unnest($1::bigint[], $2::bigint[], $3::integer[]) AS e (id, last_tick, count)
    WHERE k.id = e.id AND k.id IN (SELECT id FROM open)
    RETURNING k.id";

const BEGIN: &str = "
    INSERT INTO skips (account_id, schedule_id, first_tick, last_tick, count, reason)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::integer[],
                         $6::text[]) AS s (account, schedule, first_tick, last_tick, count, reason)
    ORDER BY schedule, first_tick
    RETURNING id, schedule_id, first_tick";

/// The open range of a schedule: its newest one, which may be extended.
#[derive(Clone)]
pub(super) enum OpenRange {
    /// It is in the store.
    Stored { id: i64, reason: String, last: Timestamp },
    /// It is in this batch, at this index.
    New(usize),
}

/// A range of this batch.
struct BatchRange {
    account: AccountId,
    schedule: ScheduleId,
    ticks: TickRange,
    reason: SkipReason,
    /// The stored range that this one extends.
    extends: Option<i64>,
}

/// The ranges of a batch.
#[derive(Default)]
pub(super) struct BatchRanges(Vec<BatchRange>);

impl BatchRanges {
    /// Adds skipped ticks of a schedule after its open range. Returns the range that they are in,
    /// which is the open one now.
    pub(super) fn add(
        &mut self,
        (account, schedule): (AccountId, ScheduleId),
        open: Option<OpenRange>,
        ticks: TickRange,
        reason: SkipReason,
    ) -> OpenRange {
        let mut extends = None;
        match open {
            Some(OpenRange::New(position)) if self.goes_on(position, ticks, reason) => {
                let range = &mut self.0[position].ticks;
                range.last = ticks.last;
                range.count = range.count.saturating_add(ticks.count);
                return OpenRange::New(position);
            }
            Some(OpenRange::Stored { id, reason: stored, last })
                if stored == reason.as_str() && last < ticks.first =>
            {
                extends = Some(id);
            }
            _ => {}
        }
        self.0.push(BatchRange { account, schedule, ticks, reason, extends });
        OpenRange::New(self.0.len() - 1)
    }

    fn goes_on(&self, position: usize, ticks: TickRange, reason: SkipReason) -> bool {
        let range = &self.0[position];
        range.reason == reason && range.ticks.last < ticks.first
    }

    /// Writes the ranges. Returns their ids, in the same order.
    pub(super) async fn write(self, connection: &mut PgConnection) -> SqlResult<Vec<Option<i64>>> {
        let extended = extend(connection, &self.0).await?;
        let is_extended =
            |range: &BatchRange| range.extends.is_some_and(|id| extended.contains(&id));
        let new: Vec<&BatchRange> = self.0.iter().filter(|range| !is_extended(range)).collect();
        let begun = begin(connection, &new).await?;
        let id = |range: &BatchRange| match is_extended(range) {
            true => range.extends,
            false => begun.get(&(range.schedule, range.ticks.first)).copied(),
        };
        Ok(self.0.iter().map(id).collect())
    }
}

/// Extends stored ranges. Returns the ids of those that were extended.
async fn extend(connection: &mut PgConnection, ranges: &[BatchRange]) -> SqlResult<HashSet<i64>> {
    let extended = ranges.iter().filter_map(|range| Some((range.extends?, range.ticks)));
    let extended: Vec<(i64, TickRange)> = extended.collect();
    if extended.is_empty() {
        return Ok(HashSet::new());
    }
    let query = sqlx::query_scalar(EXTEND)
        .bind(column(&extended, |(id, _)| *id))
        .bind(column(&extended, |(_, ticks)| ticks.last))
        .bind(column(&extended, |(_, ticks)| counted(ticks.count)))
        .bind(counted(SKIP_COUNT_CAP));
    Ok(query.fetch_all(connection).await?.into_iter().collect())
}

async fn begin(
    connection: &mut PgConnection,
    ranges: &[&BatchRange],
) -> SqlResult<HashMap<(ScheduleId, Timestamp), i64>> {
    if ranges.is_empty() {
        return Ok(HashMap::new());
    }
    let query = sqlx::query_as(BEGIN)
        .bind(column(ranges, |range| range.account))
        .bind(column(ranges, |range| range.schedule))
        .bind(column(ranges, |range| range.ticks.first))
        .bind(column(ranges, |range| range.ticks.last))
        .bind(column(ranges, |range| counted(range.ticks.count)))
        .bind(column(ranges, |range| range.reason));
    let rows: Vec<(i64, ScheduleId, Timestamp)> = query.fetch_all(connection).await?;
    Ok(rows.into_iter().map(|(id, schedule, first)| ((schedule, first), id)).collect())
}
