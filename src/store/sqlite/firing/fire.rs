//! Fires a batch: decides what its ticks become, and writes that.
//!
//! A write transaction excludes all others. So firing can read what it needs, decide here, and
//! write: nothing changes in between.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::job::Trigger;
use crate::domain::shard::ShardId;
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::store::corrupt_rows::CorruptRows;
use crate::store::sql::connection::Connection;
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::sql::firing::placing::{OverlapState, PlacedTicks};
use crate::store::sql::schedules::skips::{self, NewSkip};
use crate::store::sqlite::connection::bisect::Bisection;
use crate::store::sqlite::connection::values::{Hex, hex, json_rows, rows_of, trigger_code};
use crate::store::{ExecutorId, Fence, Fired, Firing, StoreErrorKind, sql};

/// A schedule as it is stored when it is fired.
struct StoredSchedule {
    id: ScheduleId,
    account: AccountId,
    version: VersionId,
    next_tick: Option<Timestamp>,
    overlap: OverlapState,
    host: HostKey,
    max_attempts: u8,
}

/// A row of `STORED`. `position` is the position of the firing that the row is for.
#[derive(Deserialize)]
struct StoredRow {
    position: usize,
    account: Hex,
    version: Hex,
    overlap: String,
    next_tick: Option<i64>,
    active: Option<Hex>,
    held: Option<Hex>,
    host: i64,
    max_attempts: u8,
    fired_up_to: Option<i64>,
}

impl StoredRow {
    fn stored(self, id: ScheduleId) -> Option<StoredSchedule> {
        Some(StoredSchedule {
            id,
            account: AccountId::from_bytes(self.account.0),
            version: VersionId::from_bytes(self.version.0),
            next_tick: self.next_tick.map(Timestamp::from_millis),
            overlap: OverlapState {
                overlap_policy: self.overlap.parse().ok()?,
                active: self.active.map(|job| JobId::from_bytes(job.0)),
                held: self.held.map(|job| JobId::from_bytes(job.0)),
                fired_up_to: self.fired_up_to.map(Timestamp::from_millis),
            },
            host: HostKey(self.host.cast_unsigned()),
            max_attempts: self.max_attempts,
        })
    }
}

pub(in crate::store::sqlite) const STORED: &str = "
    SELECT json_group_array(json_array(
        e.key, hex(s.account_id), hex(s.version_id), s.overlap_policy, st.next_tick,
        iif(st.active_job_id IS NULL, NULL, hex(st.active_job_id)),
        iif(st.held_job_id IS NULL, NULL, hex(st.held_job_id)), v.host_key, v.max_retries,
        st.fired_up_to))
    FROM json_each(?1) AS e CROSS JOIN schedules AS s CROSS JOIN schedule_state AS st
    CROSS JOIN schedule_versions AS v
    WHERE s.id = unhex(e.value ->> 1) AND s.shard = e.value ->> 0 AND s.is_enabled
      AND st.shard = e.value ->> 0 AND st.schedule_id = s.id AND v.id = s.version_id";

/// The shard is a column of each row. As a parameter of its own, it would make the planner scan the
/// whole shard.
pub(in crate::store::sqlite) const ADVANCE: &str = "
    UPDATE schedule_state
    SET next_tick = a.next_tick, active_job_id = a.active, held_job_id = a.held,
        fired_up_to = a.fired_up_to
    FROM (SELECT value ->> 0 AS shard, unhex(value ->> 1) AS schedule, value ->> 2 AS next_tick,
                 unhex(value ->> 3) AS active, unhex(value ->> 4) AS held,
                 value ->> 5 AS fired_up_to
          FROM jsonb_each(?1)) AS a
    WHERE schedule_state.shard = a.shard AND schedule_state.schedule_id = a.schedule";

/// If an executor is given, the jobs that can start are its claims from the beginning. So they are
/// written only once, and never enter the index of waiting jobs.
pub(in crate::store::sqlite) const INSERT: &str = "
    INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger,
                      attempt_number, max_attempts, wake_at, claimed_by, created_at, updated_at,
                      started_at, attempt_started_at)
    SELECT unhex(value ->> 0), unhex(value ->> 1), unhex(value ->> 2), unhex(value ->> 3),
           value ->> 7, claimed, value ->> 4, claimed, value ->> 5,
           iif(claimed, NULL, value ->> 6), iif(claimed, ?3, NULL), ?1, ?1,
           iif(claimed, ?1, NULL), iif(claimed, ?1, NULL)
    FROM (SELECT value, ?3 IS NOT NULL AND value ->> 6 IS NOT NULL AS claimed
          FROM jsonb_each(?2))";

/// The shards whose epoch is the caller's. Each has the number of changes of accounts, and the
/// accounts that were changed last.
pub(in crate::store::sqlite) const FENCES: &str = "
    SELECT json_group_array(json_array(shard, suspensions, json(changed)))
    FROM json_each(?1) AS e CROSS JOIN shards AS s
    WHERE s.shard = e.value ->> 0 AND s.epoch = e.value ->> 1";

/// The changes of accounts that a shard knows.
struct AccountChanges {
    count: i64,
    /// The accounts that were changed last, the newest first.
    newest: Vec<Hex>,
}

impl AccountChanges {
    /// Returns `true` if an account has not changed since the counter was `since`.
    fn spare(&self, account: AccountId, since: i64) -> bool {
        let newer = usize::try_from(self.count - since).ok();
        let newer = newer.and_then(|newer| self.newest.get(..newer));
        newer.is_some_and(|newer| !newer.contains(&hex(&account)))
    }
}

/// Fires a batch. If `executor` is given, it claims the jobs that can start.
pub(in crate::store::sqlite) async fn fire(
    connection: &mut Connection<'_>,
    fences: Arc<[Fence]>,
    now: Timestamp,
    firings: Arc<[Firing]>,
    executor: Option<ExecutorId>,
    corrupt_rows: Arc<CorruptRows>,
) -> SqlResult<Fired> {
    let held = held(connection, &fences).await?;
    let lost = fences.iter().map(|fence| fence.shard).filter(|shard| !held.contains_key(shard));
    let mut plan = FiringRows { fenced: lost.collect(), ..FiringRows::default() };
    let firings: Vec<&Firing> =
        firings.iter().filter(|firing| held.contains_key(&firing.shard)).collect();
    let StoredSchedules { mut stored, damaged } = read(connection, &firings, &corrupt_rows).await?;
    for firing in firings {
        let changes = &held[&firing.shard];
        // Taken out of the map, so that a second firing of the same schedule is stale.
        match stored.remove(&firing.schedule) {
            Some(schedule) if !is_current(&schedule, firing, now) => {
                stored.insert(firing.schedule, schedule);
                plan.stale.push(firing.schedule);
            }
            Some(schedule) if !changes.spare(schedule.account, firing.suspensions) => {
                plan.busy.push(firing.schedule);
            }
            Some(schedule) => plan.advance(now, schedule, firing),
            None if damaged.contains(&firing.schedule) => plan.busy.push(firing.schedule),
            None => plan.stale.push(firing.schedule),
        }
    }
    plan.write(connection, now, executor).await
}

/// Returns the shards whose fence holds.
async fn held(
    connection: &mut Connection<'_>,
    fences: &[Fence],
) -> SqlResult<HashMap<ShardId, AccountChanges>> {
    let wanted: Vec<_> = fences.iter().map(|fence| (fence.shard.0, fence.epoch.0)).collect();
    let rows: String =
        sql::query_scalar(FENCES).bind(json_rows(&wanted)).fetch_one(connection).await?;
    let rows = rows_of::<(u16, i64, Vec<Hex>)>(&rows)?.into_iter();
    Ok(rows
        .map(|(shard, count, newest)| (ShardId(shard), AccountChanges { count, newest }))
        .collect())
}

fn is_current(schedule: &StoredSchedule, firing: &Firing, now: Timestamp) -> bool {
    schedule.next_tick == Some(firing.tick)
        && schedule.version == firing.version
        && firing.tick <= now
}

/// The schedules of a batch, as they are stored.
struct StoredSchedules {
    stored: HashMap<ScheduleId, StoredSchedule>,
    /// The schedules whose rows cannot be read.
    damaged: HashSet<ScheduleId>,
}

async fn read(
    connection: &mut Connection<'_>,
    firings: &[&Firing],
    corrupt_rows: &CorruptRows,
) -> SqlResult<StoredSchedules> {
    let mut schedules = StoredSchedules { stored: HashMap::new(), damaged: HashSet::new() };
    let mut parts = Bisection::of(firings, firings.len().max(1));
    while let Some(part) = parts.next() {
        match read_part(connection, part).await {
            Ok(stored) => schedules.stored.extend(stored),
            Err(error) => {
                if let Some((firing, why)) = parts.halve(part, error)? {
                    corrupt_rows.log("schedules", &firing.schedule, &why);
                    schedules.damaged.insert(firing.schedule);
                }
            }
        }
    }
    Ok(schedules)
}

async fn read_part(
    connection: &mut Connection<'_>,
    firings: &[&Firing],
) -> SqlResult<HashMap<ScheduleId, StoredSchedule>> {
    let wanted = firings.iter().map(|firing| (firing.shard.0, hex(&firing.schedule)));
    let wanted: Vec<_> = wanted.collect();
    let rows: String =
        sql::query_scalar(STORED).bind(json_rows(&wanted)).fetch_one(connection).await?;
    let damaged = || SqlError::new(StoreErrorKind::Corrupt, "a schedule cannot be read back");
    let stored = rows_of::<StoredRow>(&rows)?.into_iter().map(|row| {
        let id = firings.get(row.position).ok_or_else(damaged)?.schedule;
        Ok((id, row.stored(id).ok_or_else(damaged)?))
    });
    stored.collect()
}

/// A job as a row in a JSON parameter: id, account, schedule, version, trigger, attempts, start,
/// shard.
#[derive(Serialize)]
struct FiredJobRow(Hex, Hex, Hex, Hex, u8, u8, Option<i64>, u16);

/// A state as a row in a JSON parameter: shard, schedule, next tick, active and held job, last
/// tick.
#[derive(Serialize)]
struct StateRow(u16, Hex, Option<i64>, Option<Hex>, Option<Hex>, Option<i64>);

/// The rows that a batch writes, and its result.
#[derive(Default)]
struct FiringRows {
    states: Vec<StateRow>,
    jobs: Vec<FiredJobRow>,
    skips: Vec<NewSkip>,
    tickets: Vec<Ticket>,
    held: Vec<JobId>,
    overlapped: u64,
    advanced: Vec<(ScheduleId, Option<Timestamp>)>,
    stale: Vec<ScheduleId>,
    busy: Vec<ScheduleId>,
    fenced: Vec<ShardId>,
}

impl FiringRows {
    /// Advances the next tick of a schedule, and places its jobs, oldest first.
    fn advance(&mut self, now: Timestamp, mut schedule: StoredSchedule, firing: &Firing) {
        let (account, shard) = (schedule.account, firing.shard);
        let PlacedTicks { jobs, skips, overlapped } = schedule.overlap.fire(firing);
        for (job, starts) in jobs {
            let start = starts.then_some(now);
            self.jobs.push(schedule.job_row(job.id, job.trigger, start, shard));
            match start {
                Some(start) => {
                    let host = schedule.host;
                    self.tickets.push(Ticket { job: job.id, shard, account, host, start });
                }
                None => self.held.push(job.id),
            }
        }
        self.overlapped += overlapped;
        let id = schedule.id;
        let skip = |(range, reason)| NewSkip { account, shard, schedule: id, range, reason };
        self.skips.extend(skips.into_iter().map(skip));
        let OverlapState { active, held, fired_up_to, .. } = &schedule.overlap;
        self.states.push(StateRow(
            shard.0,
            hex(&schedule.id),
            firing.next_tick.map(Timestamp::as_millis),
            active.as_ref().map(hex),
            held.as_ref().map(hex),
            fired_up_to.map(Timestamp::as_millis),
        ));
        self.advanced.push((schedule.id, firing.next_tick));
    }

    async fn write(
        self,
        connection: &mut Connection<'_>,
        now: Timestamp,
        executor: Option<ExecutorId>,
    ) -> SqlResult<Fired> {
        let Self { states, jobs, skips, tickets, held, overlapped, advanced, stale, busy, fenced } =
            self;
        if !states.is_empty() {
            sql::query(ADVANCE).bind(json_rows(&states)).execute(connection).await?;
        }
        if !jobs.is_empty() {
            let insert = sql::query(INSERT).bind(now).bind(json_rows(&jobs)).bind(executor);
            insert.execute(connection).await?;
        }
        for skip in skips {
            skips::record(connection, skip).await?;
        }
        Ok(Fired { tickets, held, overlapped, advanced, stale, busy, fenced })
    }
}

impl StoredSchedule {
    fn job_row(
        &self,
        id: JobId,
        trigger: Trigger,
        start: Option<Timestamp>,
        shard: ShardId,
    ) -> FiredJobRow {
        FiredJobRow(
            hex(&id),
            hex(&self.account),
            hex(&self.id),
            hex(&self.version),
            trigger_code(trigger),
            self.max_attempts,
            start.map(Timestamp::as_millis),
            shard.0,
        )
    }
}
