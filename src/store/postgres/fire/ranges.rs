//! The ranges of skips that a batch of firings makes longer or begins.
//!
//! Whoever records a skip has locked the state of its schedule, which names the range that may go on. It
//! goes on as long as the reason is the same and no job is made of a tick.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;

use crate::domain::schedule::{SKIP_COUNT_CAP, SkipReason};
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::store::TickRange;
use crate::store::postgres::values::column;
use crate::store::sql::fault::Outcome;
use crate::store::sql::schedules::skips::counted;

/// One that somebody holds, or that was pruned, is left alone, and a new one begins.
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

/// Where a schedule's newest range is that may go on.
#[derive(Clone)]
pub(super) enum Open {
    /// In the store.
    Stored { id: i64, reason: String, last: Timestamp },
    /// Among those of this batch.
    New(usize),
}

/// A range of this batch.
struct Range {
    account: AccountId,
    schedule: ScheduleId,
    ticks: TickRange,
    reason: SkipReason,
    /// The stored one that it goes on with.
    extends: Option<i64>,
}

/// The ranges of a batch.
#[derive(Default)]
pub(super) struct Ranges(Vec<Range>);

impl Ranges {
    /// Adds skipped ticks of a schedule behind its newest range; says where they are.
    pub(super) fn add(
        &mut self,
        (account, schedule): (AccountId, ScheduleId),
        open: Option<Open>,
        ticks: TickRange,
        reason: SkipReason,
    ) -> Open {
        let mut extends = None;
        match open {
            Some(Open::New(place)) if self.goes_on(place, ticks, reason) => {
                let range = &mut self.0[place].ticks;
                range.last = ticks.last;
                range.count = range.count.saturating_add(ticks.count);
                return Open::New(place);
            }
            Some(Open::Stored { id, reason: stored, last })
                if stored == reason.as_str() && last < ticks.first =>
            {
                extends = Some(id);
            }
            _ => {}
        }
        self.0.push(Range { account, schedule, ticks, reason, extends });
        Open::New(self.0.len() - 1)
    }

    fn goes_on(&self, place: usize, ticks: TickRange, reason: SkipReason) -> bool {
        let range = &self.0[place];
        range.reason == reason && range.ticks.last < ticks.first
    }

    /// Writes them. Returns their ids.
    pub(super) async fn write(self, connection: &mut PgConnection) -> Outcome<Vec<Option<i64>>> {
        let extended = extend(connection, &self.0).await?;
        let is_extended = |range: &Range| range.extends.is_some_and(|id| extended.contains(&id));
        let new: Vec<&Range> = self.0.iter().filter(|range| !is_extended(range)).collect();
        let begun = begin(connection, &new).await?;
        let id = |range: &Range| match is_extended(range) {
            true => range.extends,
            false => begun.get(&(range.schedule, range.ticks.first)).copied(),
        };
        Ok(self.0.iter().map(id).collect())
    }
}

/// Returns the ids of those that were there.
async fn extend(connection: &mut PgConnection, ranges: &[Range]) -> Outcome<HashSet<i64>> {
    let known = ranges.iter().filter_map(|range| Some((range.extends?, range.ticks)));
    let known: Vec<(i64, TickRange)> = known.collect();
    if known.is_empty() {
        return Ok(HashSet::new());
    }
    let query = sqlx::query_scalar(EXTEND)
        .bind(column(&known, |(id, _)| *id))
        .bind(column(&known, |(_, ticks)| ticks.last))
        .bind(column(&known, |(_, ticks)| counted(ticks.count)))
        .bind(counted(SKIP_COUNT_CAP));
    Ok(query.fetch_all(connection).await?.into_iter().collect())
}

async fn begin(
    connection: &mut PgConnection,
    ranges: &[&Range],
) -> Outcome<HashMap<(ScheduleId, Timestamp), i64>> {
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
