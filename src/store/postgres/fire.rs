//! Firing a batch, in one statement.
//!
//! The fence's row is shared-locked and each state's row locked before anything is written. State
//! rows that somebody else holds are passed over, so that the others fire on time; a second
//! statement tells them from those that have changed. A row that was written after the statement
//! began is taken as it is now, if it still fits; all else is seen as it was at the beginning. So what decides is in the locked rows:
//! epoch, tick, version, switch (a disabled schedule has no tick), policy, active and held job, the
//! range of skips that may be extended. Two things are asked elsewhere, and neither can be wrong in
//! a way that matters:
//! - Whether a job exists already. One that was made while this statement waited is not made again
//!   by its key, and what was not made does not become active.
//! - The open range of skips. One that was begun in that time is not seen, one that somebody holds
//!   is passed over, and a new one begins.
//!
//! Array columns are paired by position: `jobs` and `skips` of a firing are slices of arrays that
//! hold those of all.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use sqlx::{FromRow, PgConnection};

use super::error::Outcome;
use super::skips::counted;
use super::values::bounds;
use crate::domain::job::Trigger;
use crate::domain::schedule::{SKIP_COUNT_CAP, SkipReason};
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::runtime::faults::Defect;
use crate::store::{Fence, Fired, Firing, TickRange};

/// A row of the answer: a firing that took place, and one of the jobs that may start.
#[derive(FromRow)]
struct Row {
    place: Option<i64>,
    job: Option<JobId>,
    account_id: Option<AccountId>,
    host_key: Option<HostKey>,
}

/// A batch as columns.
#[derive(Default)]
pub(super) struct Batch {
    places: Vec<i64>,
    schedules: Vec<ScheduleId>,
    versions: Vec<VersionId>,
    ticks: Vec<Timestamp>,
    next_ticks: Vec<Option<Timestamp>>,
    job_counts: Vec<i32>,
    jobs: Vec<JobId>,
    triggers: Vec<Trigger>,
    job_ticks: Vec<Timestamp>,
    skip_places: Vec<i64>,
    skips_from: Vec<Timestamp>,
    skips_to: Vec<Timestamp>,
    skip_counts: Vec<i32>,
    reasons: Vec<SkipReason>,
}

impl Batch {
    /// In the order of the schedules' ids. The second firing of the same schedule is left out: it
    /// is stale after the first.
    pub(super) fn new(firings: &[Firing]) -> Self {
        let (mut batch, mut seen) = (Self::default(), HashSet::with_capacity(firings.len()));
        let mut ordered: Vec<(i64, &Firing)> = (0..).zip(firings).collect();
        ordered.sort_by_key(|(_, firing)| firing.schedule);
        for (place, firing) in ordered {
            if !seen.insert(firing.schedule) {
                continue;
            }
            batch.places.push(place);
            batch.schedules.push(firing.schedule);
            batch.versions.push(firing.version);
            batch.ticks.push(firing.tick);
            batch.next_ticks.push(firing.next_tick);
            batch.job_counts.push(i32::try_from(firing.jobs.len()).unwrap_or(i32::MAX));
            for job in &firing.jobs {
                batch.jobs.push(job.id);
                batch.triggers.push(job.trigger);
                batch.job_ticks.push(job.id.timestamp());
            }
            for (range, reason) in merged(firing) {
                batch.skip_places.push(place);
                batch.skips_from.push(range.first);
                batch.skips_to.push(range.last);
                batch.skip_counts.push(counted(range.count));
                batch.reasons.push(reason);
            }
        }
        batch
    }
}

/// The skips of a firing, oldest first; consecutive ones of one reason are one range.
fn merged(firing: &Firing) -> Vec<(TickRange, SkipReason)> {
    let mut skips = firing.skips.clone();
    skips.sort_by_key(|(range, _)| range.first);
    let mut merged: Vec<(TickRange, SkipReason)> = Vec::with_capacity(skips.len());
    for (range, reason) in skips {
        let between = |last: Timestamp, job: Timestamp| last < job && job < range.first;
        match merged.last_mut() {
            Some((open, same))
                if *same == reason
                    && !firing.jobs.iter().any(|job| between(open.last, job.id.timestamp())) =>
            {
                open.last = range.last;
                open.count = open.count.saturating_add(range.count);
            }
            _ => merged.push((range, reason)),
        }
    }
    merged
}

/// `due` are the schedules that are as they were read. `placed` gives each of their jobs its turn:
/// with a policy other than `allow`, the first that is not there yet starts if none is active, the
/// next is held if there is room, the others are skips.
///
/// The state's rows are locked one by one, after the fence's, in the order of the batch, which is
/// that of their ids. When they are written they are joined by the shard of another row and not by
/// the parameter, although it is the same: otherwise the planner may read the whole shard.
const FIRE: &str = "
WITH fence AS MATERIALIZED (
    SELECT shard FROM shards WHERE shard = $1 AND epoch = $2 FOR SHARE
), due AS MATERIALIZED (
    SELECT w.place, w.next_tick, w.jobs_from, w.job_count, st.shard, st.schedule_id,
           st.account_id, st.version_id, st.host_key, st.max_attempts, st.overlap_policy, st.active_job_id,
           st.held_job_id, st.open_skip
    FROM fence
    CROSS JOIN (
        SELECT u.*, sum(u.job_count) OVER (ORDER BY u.n) - u.job_count AS jobs_from
        FROM unnest($4::bigint[], $5::uuid[], $6::uuid[], $7::bigint[], $8::bigint[],
                    $9::integer[]) WITH ORDINALITY
             AS u (place, schedule, version, tick, next_tick, job_count, n)
    ) AS w
    CROSS JOIN LATERAL (
        SELECT * FROM schedule_state AS s
        WHERE s.shard = fence.shard AND s.schedule_id = w.schedule AND s.next_tick = w.tick
          AND s.version_id = w.version AND s.next_tick <= $3
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS st
), wanted AS (
    SELECT d.*, ($10::uuid[])[n] AS id, ($11::smallint[])[n] AS trigger, ($12::bigint[])[n] AS tick
    FROM due AS d
    CROSS JOIN LATERAL generate_series(d.jobs_from::integer + 1,
                                       d.jobs_from::integer + d.job_count) AS n
), placed AS (
    SELECT w.*, 1 AS turn FROM wanted AS w WHERE w.overlap_policy = 'allow'
    UNION ALL
    SELECT w.*, row_number() OVER (PARTITION BY w.place ORDER BY w.id)
                + (w.active_job_id IS NOT NULL)::integer
    FROM wanted AS w
    WHERE w.overlap_policy <> 'allow'
      AND NOT EXISTS (SELECT FROM jobs AS j
                      WHERE j.id = w.id AND j.id = ANY ($10) AND j.id BETWEEN $13 AND $14)
), made AS (
    INSERT INTO jobs (id, account_id, schedule_id, version_id, shard, status, trigger,
                      max_attempts, wake_at, created_at, updated_at)
    SELECT p.id, p.account_id, p.schedule_id, p.version_id, $1, 0, p.trigger, p.max_attempts,
           CASE WHEN p.turn = 1 THEN $3 END, $3, $3
    FROM placed AS p
    WHERE p.turn = 1
       OR p.turn = 2 AND p.overlap_policy = 'queue_one' AND p.held_job_id IS NULL
    ON CONFLICT (id) DO NOTHING
    RETURNING id, schedule_id, wake_at
), skipped AS (
    SELECT d.schedule_id, d.account_id, d.open_skip, s.first_tick, s.last_tick, s.count, s.reason
    FROM unnest($15::bigint[], $16::bigint[], $17::bigint[], $18::integer[], $19::text[])
         AS s (place, first_tick, last_tick, count, reason)
    JOIN due AS d ON d.place = s.place
    UNION ALL
    SELECT p.schedule_id, p.account_id, p.open_skip, min(p.tick), max(p.tick),
           least(count(*), $20)::integer, 'overlap'
    FROM placed AS p
    WHERE p.turn > 2 OR p.turn = 2 AND (p.overlap_policy = 'skip' OR p.held_job_id IS NOT NULL)
    GROUP BY p.schedule_id, p.account_id, p.open_skip
), open AS MATERIALIZED (
    SELECT k.id FROM skips AS k WHERE k.id IN (SELECT open_skip FROM skipped)
    ORDER BY k.id FOR NO KEY UPDATE SKIP LOCKED
), extended AS (
    UPDATE skips AS k SET last_tick = s.last_tick, count = least(k.count + s.count, $20)
    FROM skipped AS s JOIN open ON open.id = s.open_skip
    WHERE k.id = open.id AND k.reason = s.reason AND k.last_tick < s.first_tick
      AND NOT EXISTS (SELECT FROM wanted AS w
                      WHERE w.schedule_id = s.schedule_id AND w.tick < s.first_tick)
      AND NOT EXISTS (SELECT FROM skipped AS e
                      WHERE e.schedule_id = s.schedule_id AND e.first_tick < s.first_tick)
    RETURNING k.id, k.schedule_id, s.first_tick
), begun AS (
    INSERT INTO skips (account_id, schedule_id, first_tick, last_tick, count, reason)
    SELECT s.account_id, s.schedule_id, s.first_tick, s.last_tick, s.count, s.reason
    FROM skipped AS s
    WHERE NOT EXISTS (SELECT FROM extended AS e
                      WHERE e.schedule_id = s.schedule_id AND e.first_tick = s.first_tick)
    ORDER BY s.schedule_id, s.first_tick
    RETURNING id, schedule_id, first_tick
), newest AS (
    SELECT DISTINCT ON (schedule_id) schedule_id, id, first_tick
    FROM (SELECT * FROM extended UNION ALL SELECT * FROM begun) AS skip
    ORDER BY schedule_id, first_tick DESC
), outcome AS (
    SELECT d.place, d.next_tick, d.shard, d.schedule_id, d.host_key, d.account_id, m.started, m.held,
           m.made, k.id AS open_skip, k.first_tick
    FROM due AS d
    LEFT JOIN (SELECT schedule_id, true AS made,
                      (array_agg(id) FILTER (WHERE wake_at IS NOT NULL))[1] AS started,
                      (array_agg(id) FILTER (WHERE wake_at IS NULL))[1] AS held
               FROM made GROUP BY schedule_id) AS m ON m.schedule_id = d.schedule_id
    LEFT JOIN newest AS k ON k.schedule_id = d.schedule_id
), advanced AS (
    UPDATE schedule_state AS st
    SET next_tick = o.next_tick,
        active_job_id = CASE WHEN st.overlap_policy = 'allow' THEN st.active_job_id
                             ELSE coalesce(st.active_job_id, o.started) END,
        held_job_id = coalesce(st.held_job_id, o.held),
        open_skip = CASE
            WHEN o.open_skip IS NOT NULL
                AND NOT EXISTS (SELECT FROM wanted AS w
                                WHERE w.schedule_id = o.schedule_id AND w.tick > o.first_tick
                                  AND EXISTS (SELECT FROM made WHERE made.id = w.id))
                THEN o.open_skip
            WHEN o.made THEN NULL
            ELSE st.open_skip END
    FROM outcome AS o
    WHERE st.shard = o.shard AND st.schedule_id = o.schedule_id
    RETURNING o.place, o.schedule_id, o.account_id, o.host_key
)
SELECT a.place, m.id AS job, a.account_id, a.host_key
FROM fence
LEFT JOIN (advanced AS a
           LEFT JOIN made AS m ON m.schedule_id = a.schedule_id AND m.wake_at IS NOT NULL) ON true
ORDER BY a.place, m.id";

/// Without the epoch: [`Defect::NoEpochCheck`].
static UNFENCED: LazyLock<String> =
    LazyLock::new(|| FIRE.replace("AND epoch = $2 FOR SHARE", "AND $2::bigint > 0 FOR SHARE"));

/// And without the tick: [`Defect::NoTickKey`].
static UNCHECKED: LazyLock<String> = LazyLock::new(|| {
    let by_any = UNFENCED.replace("AND s.next_tick = w.tick", "");
    by_any.replace("AND s.next_tick <= $3", "")
});

fn statement() -> &'static str {
    if Defect::NoTickKey.is_there() {
        &UNCHECKED
    } else if Defect::NoEpochCheck.is_there() {
        &UNFENCED
    } else {
        FIRE
    }
}

/// Fires a batch.
pub(super) async fn fire(
    connection: &mut PgConnection,
    fence: Fence,
    now: Timestamp,
    firings: Arc<[Firing]>,
) -> Outcome<Fired> {
    let batch = Batch::new(&firings);
    let (first, last) = bounds(batch.jobs.iter().copied());
    let rows: Vec<Row> = sqlx::query_as(statement())
        .bind(fence.shard)
        .bind(fence.epoch.0)
        .bind(now)
        .bind(&batch.places)
        .bind(&batch.schedules)
        .bind(&batch.versions)
        .bind(&batch.ticks)
        .bind(&batch.next_ticks)
        .bind(&batch.job_counts)
        .bind(&batch.jobs)
        .bind(&batch.triggers)
        .bind(&batch.job_ticks)
        .bind(first)
        .bind(last)
        .bind(&batch.skip_places)
        .bind(&batch.skips_from)
        .bind(&batch.skips_to)
        .bind(&batch.skip_counts)
        .bind(&batch.reasons)
        .bind(counted(SKIP_COUNT_CAP))
        .fetch_all(&mut *connection)
        .await?;
    match fired(fence, now, &firings, &rows) {
        Fired::Done { tickets, advanced, stale, .. } if !stale.is_empty() => {
            let passed: HashSet<_> =
                still_due(connection, fence, now, &batch).await?.into_iter().collect();
            let (busy, stale) = stale.into_iter().partition(|id| passed.contains(id));
            Ok(Fired::Done { tickets, advanced, stale, busy })
        }
        fired => Ok(fired),
    }
}

/// Those of the schedules that are as they were read: after firing, those that were passed over.
async fn still_due(
    connection: &mut PgConnection,
    fence: Fence,
    now: Timestamp,
    batch: &Batch,
) -> Outcome<Vec<ScheduleId>> {
    let due = sqlx::query_scalar(
        "SELECT st.schedule_id
         FROM unnest($2::uuid[], $3::uuid[], $4::bigint[]) AS w (schedule, version, tick)
         JOIN schedule_state AS st ON st.schedule_id = w.schedule
         WHERE st.shard = $1 AND st.schedule_id = ANY ($2) AND st.next_tick = w.tick
           AND st.version_id = w.version AND st.next_tick <= $5",
    )
    .bind(fence.shard)
    .bind(&batch.schedules)
    .bind(&batch.versions)
    .bind(&batch.ticks)
    .bind(now)
    .fetch_all(connection)
    .await?;
    Ok(due)
}

/// Without a row the fence did not hold.
fn fired(fence: Fence, now: Timestamp, firings: &[Firing], rows: &[Row]) -> Fired {
    if rows.is_empty() {
        return Fired::Fenced;
    }
    let (mut tickets, mut took_place) = (Vec::new(), vec![false; firings.len()]);
    for row in rows {
        let place = row.place.and_then(|place| usize::try_from(place).ok());
        if let Some(took_place) = place.and_then(|place| took_place.get_mut(place)) {
            *took_place = true;
        }
        if let (Some(job), Some(account), Some(host)) = (row.job, row.account_id, row.host_key) {
            tickets.push(Ticket { job, shard: fence.shard, account, host, start: now });
        }
    }
    let (mut advanced, mut stale) = (Vec::new(), Vec::new());
    for (firing, took_place) in firings.iter().zip(took_place) {
        if took_place {
            advanced.push((firing.schedule, firing.next_tick));
        } else {
            stale.push(firing.schedule);
        }
    }
    Fired::Done { tickets, advanced, stale, busy: Vec::new() }
}
