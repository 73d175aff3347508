//! The rows that a batch of ends of attempts is about.

use sqlx::PgConnection;

use crate::domain::{JobId, ScheduleId};
use crate::store::Completion;
use crate::store::postgres::connection::values::column;
use crate::store::sql::ending::Running;
use crate::store::sql::fault::Outcome;
use crate::store::sql::rows::read_rows;

/// Locked before the jobs, as by everybody. Which schedule a job is of never changes, so it can be
/// read without a lock.
pub(in super::super) const STATES: &str = "
    SELECT st.schedule_id, st.active_job_id, st.held_job_id
    FROM (SELECT DISTINCT shard, schedule_id FROM runs WHERE id = ANY ($1)) AS of_jobs
    JOIN schedule_state AS st
        ON st.shard = of_jobs.shard AND st.schedule_id = of_jobs.schedule_id
    ORDER BY st.schedule_id FOR NO KEY UPDATE OF st";

/// The jobs that run the attempt under the claim that a completion names, looked up one by one in
/// the order of their ids.
pub(in super::super) const RUNNING: &str = "
    SELECT c.place, j.*
    FROM (SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::smallint[], $4::uuid[])
                        AS c (place, job, attempt, executor) ORDER BY job, place) AS c
    CROSS JOIN LATERAL (
        SELECT j.id, j.schedule_id, j.shard, j.max_attempts, j.started_at, j.attempt_started_at,
               j.stop
        FROM runs AS j
        WHERE j.id = c.job AND j.status::integer = 1
          AND j.attempt_number = c.attempt AND j.claimed_by = c.executor
        OFFSET 0
    ) AS j";

/// The state of a schedule of the batch, as far as its jobs follow each other.
pub(in super::super) struct State {
    pub(in super::super) schedule: ScheduleId,
    pub(in super::super) active: Option<JobId>,
    pub(in super::super) held: Option<JobId>,
}

read_rows! {
    Running {
        place as i64, schedule: "schedule_id", shard, max_attempts as i16, started_at,
        attempt_started_at, stop as i16,
    }
    State { schedule: "schedule_id", active: "active_job_id", held: "held_job_id" }
}

/// What is stored of a batch.
pub(in super::super) struct Rows {
    pub(in super::super) states: Vec<State>,
    pub(in super::super) running: Vec<Running>,
}

impl Rows {
    /// Reads them by variants of [`STATES`] and [`RUNNING`].
    pub(in super::super) async fn read(
        connection: &mut PgConnection,
        completions: &[Completion],
        states_by: &'static str,
        running_by: &'static str,
    ) -> Outcome<Self> {
        let states = states(connection, completions, states_by).await?;
        let all: Vec<_> = completions.iter().enumerate().collect();
        let running = running(connection, &all, running_by).await?;
        Ok(Self { states, running })
    }
}

/// The states of the jobs' schedules, by a variant of [`STATES`].
pub(in super::super) async fn states(
    connection: &mut PgConnection,
    completions: &[Completion],
    query: &'static str,
) -> Outcome<Vec<State>> {
    let jobs: Vec<JobId> = completions.iter().map(|completion| completion.job).collect();
    let query = sqlx::query_as(query).bind(&jobs);
    Ok(query.fetch_all(connection).await?)
}

/// The jobs that completions, which are at these places of a batch, are for; by a variant of
/// [`RUNNING`].
pub(in super::super) async fn running(
    connection: &mut PgConnection,
    completions: &[(usize, &Completion)],
    query: &'static str,
) -> Outcome<Vec<Running>> {
    if completions.is_empty() {
        return Ok(Vec::new());
    }
    let query = sqlx::query_as(query)
        .bind(column(completions, |(place, _)| i64::try_from(*place).unwrap_or(i64::MAX)))
        .bind(column(completions, |(_, completion)| completion.job))
        .bind(column(completions, |(_, completion)| i16::from(completion.attempt)))
        .bind(column(completions, |(_, completion)| completion.executor));
    Ok(query.fetch_all(connection).await?)
}
