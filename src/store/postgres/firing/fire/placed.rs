//! Fires schedules whose jobs may have to wait for each other, or that have skips.
//!
//! Locks the due schedules, decides here what their ticks become, and writes that with few
//! statements for each table.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row as _};

use super::batch::FiringColumns;
use super::ranges::{BatchRanges, OpenRange};
use super::statements::LOCK_DUE;
use super::{FiredRow, FiringOrder};
use crate::domain::shard::ShardId;
use crate::domain::ticket::HostKey;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::runtime::faults;
use crate::store::postgres::connection::values::column;
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::sql::firing::placing::{OverlapState, PlacedTicks};
use crate::store::{Fence, Firing, StoreErrorKind, TickJob};

const INSERT: &str = "
    INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger, max_attempts,
                      wake_at, created_at, updated_at)
    SELECT j.id, j.account, j.schedule, j.version, j.shard, 0, j.trigger, j.max_attempts,
           CASE WHEN j.starts THEN $1 END, $1, $1
    FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::integer[], $7::smallint[],
                $8::smallint[], $9::boolean[])
         AS j (id, account, schedule, version, shard, trigger, max_attempts, starts)";

const ADVANCE: &str = "
    UPDATE schedule_state AS st
    SET next_tick = a.next_tick, fired_up_to = a.fired_up_to, active_job_id = a.active,
        held_job_id = a.held, open_skip = a.open_skip
    FROM unnest($1::integer[], $2::uuid[], $3::bigint[], $4::bigint[], $5::uuid[], $6::uuid[],
                $7::bigint[])
         AS a (shard, schedule, next_tick, fired_up_to, active, held, open_skip)
    WHERE st.shard = a.shard AND st.schedule_id = a.schedule";

/// A schedule that is due and as it was read. Its state is locked.
struct DueSchedule {
    position: i64,
    shard: ShardId,
    schedule: ScheduleId,
    account: AccountId,
    version: VersionId,
    host: HostKey,
    max_attempts: i16,
    overlap: OverlapState,
    open: Option<OpenRange>,
}

/// A shard whose fence holds, and one of its due schedules, if there is one.
struct LockedShard {
    shard: ShardId,
    due: Option<DueSchedule>,
}

impl FromRow<'_, PgRow> for LockedShard {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let shard = row.try_get("fenced_shard")?;
        let position: Option<i64> = row.try_get("position")?;
        let due = position.map(|position| DueSchedule::read(row, position)).transpose()?;
        Ok(Self { shard, due })
    }
}

impl DueSchedule {
    fn read(row: &PgRow, position: i64) -> sqlx::Result<Self> {
        let overlap = OverlapState {
            overlap_policy: row.try_get("overlap_policy")?,
            active: row.try_get("active_job_id")?,
            held: row.try_get("held_job_id")?,
            fired_up_to: row.try_get("fired_up_to")?,
        };
        let reason: Option<String> = row.try_get("open_reason")?;
        let open = |reason| {
            let (id, last) = (row.try_get("open_skip")?, row.try_get("open_last")?);
            Ok::<_, sqlx::Error>(OpenRange::Stored { id, reason, last })
        };
        Ok(Self {
            position,
            shard: row.try_get("fenced_shard")?,
            schedule: row.try_get("schedule_id")?,
            account: row.try_get("account_id")?,
            version: row.try_get("version_id")?,
            host: row.try_get("host_key")?,
            max_attempts: row.try_get("max_attempts")?,
            overlap,
            open: reason.map(open).transpose()?,
        })
    }
}

/// The rows that a batch writes.
#[derive(Default)]
struct PlacedRows<'a> {
    /// The schedules to advance, and their firings.
    advanced: Vec<(DueSchedule, &'a Firing)>,
    /// The jobs, each with the index of its schedule in `advanced`, and `true` if it starts now.
    jobs: Vec<(usize, TickJob, bool)>,
    ranges: BatchRanges,
    overlapped: u64,
}

/// Fires the firings, each of which has its position in the whole batch. Returns the rows of the
/// result, and the number of jobs that became skips.
pub(super) async fn fire(
    connection: &mut PgConnection,
    order: &FiringOrder,
    fences: &[Fence],
    firings: &[(i64, &Firing)],
) -> SqlResult<(Vec<FiredRow>, u64)> {
    let by_position: HashMap<i64, &Firing> = firings.iter().copied().collect();
    let (mut plan, mut rows) = (PlacedRows::default(), Vec::with_capacity(firings.len()));
    for LockedShard { shard, due } in lock(connection, order, fences, firings).await? {
        let Some(due) = due else {
            rows.push(FiredRow { shard, position: None, job: None, starts: false, ticket: None });
            continue;
        };
        let unasked = || SqlError::new(StoreErrorKind::Internal, "a row that was not asked for");
        let firing = by_position.get(&due.position).ok_or_else(unasked)?;
        plan.add(due, firing);
    }
    rows.extend(plan.rows());
    let overlapped = plan.overlapped;
    plan.write(connection, order.now).await?;
    Ok((rows, overlapped))
}

async fn lock(
    connection: &mut PgConnection,
    order: &FiringOrder,
    fences: &[Fence],
    firings: &[(i64, &Firing)],
) -> SqlResult<Vec<LockedShard>> {
    let batch = FiringColumns::new(firings);
    let query = sqlx::query_as(faults::statement("lock", LOCK_DUE))
        .bind(column(fences, |fence| fence.shard))
        .bind(column(fences, |fence| fence.epoch.0))
        .bind(order.now)
        .bind(&batch.positions)
        .bind(&batch.schedules)
        .bind(&batch.versions)
        .bind(&batch.ticks)
        .bind(&batch.suspensions)
        .bind(&batch.shards);
    Ok(query.fetch_all(connection).await?)
}

impl<'a> PlacedRows<'a> {
    fn add(&mut self, mut due: DueSchedule, firing: &'a Firing) {
        let PlacedTicks { jobs, skips, overlapped } = due.overlap.fire(firing);
        self.overlapped += overlapped;
        let (position, of) = (self.advanced.len(), (due.account, due.schedule));
        let mut jobs = jobs.into_iter().peekable();
        let mut ranges = skips.into_iter().peekable();
        // In the order of the ticks, because a job ends the range of skips before it.
        loop {
            let next_range = ranges.peek().map(|(range, _)| range.first);
            let is_before =
                |job: &(TickJob, bool)| next_range.is_none_or(|first| job.0.id.timestamp() < first);
            if let Some((job, starts)) = jobs.next_if(is_before) {
                self.jobs.push((position, job, starts));
                due.open = None;
            } else if let Some((ticks, reason)) = ranges.next() {
                due.open = Some(self.ranges.add(of, due.open.take(), ticks, reason));
            } else {
                break;
            }
        }
        self.advanced.push((due, firing));
    }

    /// Returns the rows of the result: one for each schedule, and one more for each job.
    fn rows(&self) -> impl Iterator<Item = FiredRow> {
        let row = |due: &DueSchedule, job: Option<(JobId, bool)>| FiredRow {
            shard: due.shard,
            position: Some(due.position),
            job: job.map(|(id, _)| id),
            starts: job.is_some_and(|(_, starts)| starts),
            ticket: Some((due.account, due.host)),
        };
        let advanced = self.advanced.iter().map(move |(due, _)| row(due, None));
        let jobs = self.jobs.iter().map(move |(position, job, starts)| {
            row(&self.advanced[*position].0, Some((job.id, *starts)))
        });
        advanced.chain(jobs)
    }

    async fn write(self, connection: &mut PgConnection, now: Timestamp) -> SqlResult<()> {
        let Self { advanced, jobs, ranges, .. } = self;
        if !jobs.is_empty() {
            let due = |(position, ..): &(usize, TickJob, bool)| &advanced[*position].0;
            let query = sqlx::query(INSERT)
                .bind(now)
                .bind(column(&jobs, |(_, job, _)| job.id))
                .bind(column(&jobs, |job| due(job).account))
                .bind(column(&jobs, |job| due(job).schedule))
                .bind(column(&jobs, |job| due(job).version))
                .bind(column(&jobs, |job| due(job).shard))
                .bind(column(&jobs, |(_, job, _)| job.trigger))
                .bind(column(&jobs, |job| due(job).max_attempts))
                .bind(column(&jobs, |(.., starts)| *starts));
            query.execute(&mut *connection).await?;
        }
        if advanced.is_empty() {
            return Ok(());
        }
        let ids = ranges.write(connection).await?;
        let open = |due: &DueSchedule| match &due.open {
            None => None,
            Some(OpenRange::Stored { id, .. }) => Some(*id),
            Some(OpenRange::New(position)) => ids[*position],
        };
        let query = sqlx::query(ADVANCE)
            .bind(column(&advanced, |(due, _)| due.shard))
            .bind(column(&advanced, |(due, _)| due.schedule))
            .bind(column(&advanced, |(_, firing)| firing.next_tick))
            .bind(column(&advanced, |(due, _)| due.overlap.fired_up_to))
            .bind(column(&advanced, |(due, _)| due.overlap.active))
            .bind(column(&advanced, |(due, _)| due.overlap.held))
            .bind(column(&advanced, |(due, _)| open(due)));
        query.execute(connection).await?;
        Ok(())
    }
}
