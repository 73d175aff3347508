//! Reads and locks the rows that a batch of ended attempts concerns.

use sqlx::PgConnection;

use crate::domain::{JobId, ScheduleId};
use crate::store::Completion;
use crate::store::postgres::connection::values::column;
use crate::store::sql::encoding::rows::read_rows;
use crate::store::sql::error::SqlResult;
use crate::store::sql::jobs::ending::RunningJob;

/// Locks the states of the jobs' schedules, in the order of the schedules' ids. Like every
/// transaction, a commit locks states before jobs. The schedule of a job never changes, so it is
/// read without a lock. Parameter: jobs.
pub(in crate::store::postgres) const STATES: &str = "
    SELECT st.schedule_id, st.active_job_id, st.held_job_id
    FROM (SELECT DISTINCT shard, schedule_id FROM runs WHERE id = ANY ($1)) AS of_jobs
    JOIN schedule_state AS st
        ON st.shard = of_jobs.shard AND st.schedule_id = of_jobs.schedule_id
    ORDER BY st.schedule_id FOR NO KEY UPDATE OF st";

/// Reads the jobs that run the attempt that a completion names, under the claim that it names. They
/// are looked up one by one, in the order of their ids. Parameters: positions of the completions,
/// jobs, attempts, executors.
pub(in crate::store::postgres) const RUNNING: &str = "
    SELECT c.position, j.*
    FROM (SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::smallint[], $4::uuid[])
                        AS c (position, job, attempt, executor) ORDER BY job, position) AS c
    CROSS JOIN LATERAL (
        SELECT j.id, j.schedule_id, j.shard, j.max_attempts, j.started_at, j.attempt_started_at,
               j.stop
        FROM runs AS j
        WHERE j.id = c.job AND j.status::integer = 1
          AND j.attempt_number = c.attempt AND j.claimed_by = c.executor
        OFFSET 0
    ) AS j";

/// The state of a schedule of the batch: its active job, and the held job that may follow.
pub(in crate::store::postgres) struct LockedState {
    pub(in crate::store::postgres) schedule: ScheduleId,
    pub(in crate::store::postgres) active: Option<JobId>,
    pub(in crate::store::postgres) held: Option<JobId>,
}

read_rows! {
    RunningJob {
        position as i64, schedule: "schedule_id", shard, max_attempts as i16, started_at,
        attempt_started_at, stop as i16,
    }
    LockedState { schedule: "schedule_id", active: "active_job_id", held: "held_job_id" }
}

/// The stored rows of a batch.
pub(in crate::store::postgres) struct StoredRows {
    pub(in crate::store::postgres) states: Vec<LockedState>,
    pub(in crate::store::postgres) running: Vec<RunningJob>,
}

impl StoredRows {
    /// Reads the rows with variants of [`STATES`] and [`RUNNING`].
    pub(in crate::store::postgres) async fn read(
        connection: &mut PgConnection,
        completions: &[Completion],
        states_by: &'static str,
        running_by: &'static str,
    ) -> SqlResult<Self> {
        let states = states(connection, completions, states_by).await?;
        let all: Vec<_> = completions.iter().enumerate().collect();
        let running = running(connection, &all, running_by).await?;
        Ok(Self { states, running })
    }
}

/// Reads the states of the jobs' schedules with a variant of [`STATES`].
pub(in crate::store::postgres) async fn states(
    connection: &mut PgConnection,
    completions: &[Completion],
    query: &'static str,
) -> SqlResult<Vec<LockedState>> {
    let jobs: Vec<JobId> = completions.iter().map(|completion| completion.job).collect();
    let query = sqlx::query_as(query).bind(&jobs);
    Ok(query.fetch_all(connection).await?)
}

/// Reads the jobs of completions with a variant of [`RUNNING`]. Each completion comes with its
/// position in the batch.
pub(in crate::store::postgres) async fn running(
    connection: &mut PgConnection,
    completions: &[(usize, &Completion)],
    query: &'static str,
) -> SqlResult<Vec<RunningJob>> {
    if completions.is_empty() {
        return Ok(Vec::new());
    }
    let query = sqlx::query_as(query)
        .bind(column(completions, |(position, _)| i64::try_from(*position).unwrap_or(i64::MAX)))
        .bind(column(completions, |(_, completion)| completion.job))
        .bind(column(completions, |(_, completion)| i16::from(completion.attempt)))
        .bind(column(completions, |(_, completion)| completion.executor));
    Ok(query.fetch_all(connection).await?)
}
