//! The jobs whose attempts end, and the states of their schedules, locked.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};

use super::error::{Fault, Outcome};
use super::passing::{Busy, Locked, lock_followers, lock_free};
use super::values::{bounds, number};
use crate::domain::{JobId, ScheduleId};
use crate::runtime::faults::Defect;
use crate::store::ending::{Ending, Running};
use crate::store::{Completion, StoreErrorKind};

/// Taken before the jobs, as by everybody. Which schedule a job is of never changes, so it can be
/// read without a lock.
pub(super) const STATES: &str = "
    SELECT st.schedule_id, st.active_job_id, st.held_job_id
    FROM (SELECT DISTINCT shard, schedule_id FROM jobs
          WHERE id = ANY ($1) AND id BETWEEN $2 AND $3) AS of_jobs
    JOIN schedule_state AS st
        ON st.shard = of_jobs.shard AND st.schedule_id = of_jobs.schedule_id
    ORDER BY st.schedule_id FOR NO KEY UPDATE OF st";

/// The jobs that run the attempt under the claim that a completion names.
pub(super) const RUNNING: &str = "
    SELECT c.place, j.id, j.schedule_id, j.shard, j.max_attempts, j.started_at,
           j.attempt_started_at, j.stop
    FROM unnest($1::bigint[], $2::uuid[], $3::smallint[], $4::uuid[])
         AS c (place, job, attempt, executor)
    JOIN jobs AS j ON j.id = c.job
    WHERE j.id = ANY ($2) AND j.id BETWEEN $5 AND $6 AND j.status::integer = 1
      AND j.attempt_number = c.attempt AND j.claimed_by = c.executor
    ORDER BY j.id, c.place FOR NO KEY UPDATE OF j";

/// The jobs whoever has them: [`Defect::NoClaimCheck`].
static ANYBODYS: LazyLock<String> = LazyLock::new(|| {
    let others = RUNNING.replace("AND j.status::integer = 1", "AND c.executor IS NOT NULL");
    others.replace("AND j.attempt_number = c.attempt AND j.claimed_by = c.executor", "")
});

fn running() -> &'static str {
    if Defect::NoClaimCheck.is_there() { &ANYBODYS } else { RUNNING }
}

impl FromRow<'_, PgRow> for Running {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            place: number::<i64, _>(row, "place")?,
            schedule: row.try_get("schedule_id")?,
            shard: row.try_get("shard")?,
            max_attempts: number::<i16, _>(row, "max_attempts")?,
            started_at: row.try_get("started_at")?,
            attempt_started_at: row.try_get("attempt_started_at")?,
            stop: number::<i16, _>(row, "stop")?,
            is_active: false,
        })
    }
}

/// The state of a schedule of the batch, as far as its jobs follow each other.
#[derive(FromRow)]
pub(super) struct State {
    #[sqlx(rename = "schedule_id")]
    pub(super) schedule: ScheduleId,
    #[sqlx(rename = "active_job_id")]
    pub(super) active: Option<JobId>,
    #[sqlx(rename = "held_job_id")]
    pub(super) held: Option<JobId>,
}

/// What is stored of a batch.
pub(super) struct Rows {
    pub(super) states: Vec<State>,
    pub(super) running: Vec<Running>,
}

impl Rows {
    /// Reads them by [`STATES`] and [`RUNNING`], or by variants of the two.
    pub(super) async fn read(
        connection: &mut PgConnection,
        completions: &[Completion],
        states: &'static str,
        running: &'static str,
    ) -> Outcome<Self> {
        let jobs: Vec<JobId> = completions.iter().map(|completion| completion.job).collect();
        let (first, last) = bounds(jobs.iter().copied());
        let states = sqlx::query_as(states)
            .bind(&jobs)
            .bind(first)
            .bind(last)
            .fetch_all(&mut *connection)
            .await?;
        let running = sqlx::query_as(running)
            .bind((0_i64..).take(jobs.len()).collect::<Vec<_>>())
            .bind(&jobs)
            .bind(completions.iter().map(|c| i16::from(c.attempt)).collect::<Vec<_>>())
            .bind(completions.iter().map(|c| c.executor).collect::<Vec<_>>())
            .bind(first)
            .bind(last)
            .fetch_all(connection)
            .await?;
        Ok(Self { states, running })
    }
}

/// What becomes of the jobs, and the places of those that have to wait for others. Those whose
/// claim was lost are left out, and so is the second end of an attempt.
pub(super) async fn read(
    connection: &mut PgConnection,
    completions: &[Completion],
    locked: Locked,
) -> Outcome<(Vec<Ending>, Busy)> {
    let (rows, mut busy) = match locked {
        Locked::Awaited => {
            (Rows::read(connection, completions, STATES, running()).await?, Busy::new())
        }
        Locked::PassedOver => lock_free(connection, completions).await?,
    };
    let Rows { states, mut running } = rows;
    running.retain(|row| !busy.contains(&row.place));
    let active: HashMap<ScheduleId, Option<JobId>> =
        states.iter().map(|state| (state.schedule, state.active)).collect();
    // In the order of the batch: the streak of failures depends on it.
    running.sort_unstable_by_key(|row| row.place);
    let damaged = || Fault::new(StoreErrorKind::Internal, "an answer about nothing that was asked");
    let (mut endings, mut seen) = (Vec::with_capacity(running.len()), HashSet::new());
    for row in running {
        let completion = completions.get(row.place).ok_or_else(damaged)?;
        if seen.insert(completion.job) {
            let is_active = active.get(&row.schedule) == Some(&Some(completion.job));
            endings.push(Ending::new(&Running { is_active, ..row }, completion));
        }
    }
    if locked == Locked::PassedOver {
        let waiting = lock_followers(connection, &states, &endings).await?;
        endings.retain(|ending| !waiting.contains(&ending.place));
        busy.extend(waiting);
    }
    Ok((endings, busy))
}
