//! What the end of an attempt makes of its job.

use serde::Deserialize;
use sqlx::SqliteConnection;

use super::error::{Fault, Outcome};
use super::overlap::Ended;
use super::values::{Hex, hex, json_rows, rows_of};
use crate::domain::job::JobStatus;
use crate::domain::outcome::{ErrorCode, Failure};
use crate::domain::shard::ShardId;
use crate::domain::{JobId, ScheduleId, Timestamp};
use crate::store::{Completion, End, StoreErrorKind};

/// A row of `RUNNING`; the first number says which of the completions it is for.
#[derive(Deserialize)]
struct RunningRow(usize, Hex, u16, u8, i64, i64, u8, u8);

/// The jobs that run the attempt under the claim that a completion names.
pub(super) const RUNNING: &str = "
    SELECT json_group_array(json_array(
        e.key, hex(j.schedule_id), j.shard, j.max_attempts, j.started_at, j.attempt_started_at,
        j.stop, coalesce(st.active_job_id = j.id, 0)))
    FROM jsonb_each(?1) AS e CROSS JOIN jobs AS j
    LEFT JOIN schedule_state AS st ON st.shard = j.shard AND st.schedule_id = j.schedule_id
    WHERE j.id = unhex(e.value ->> 0) AND j.status = 1 AND j.attempt_number = e.value ->> 1
      AND j.claimed_by = unhex(e.value ->> 2)";

/// A job whose attempt has ended, and what becomes of it.
pub(super) struct Ending {
    pub(super) place: usize,
    pub(super) job: JobId,
    pub(super) schedule: ScheduleId,
    pub(super) shard: ShardId,
    pub(super) started_at: Timestamp,
    pub(super) attempt_started_at: Timestamp,
    pub(super) status: JobStatus,
    pub(super) failure: Option<Failure>,
    pub(super) retry_at: Option<Timestamp>,
    is_active: bool,
}

impl Ending {
    fn new(row: &RunningRow, completion: &Completion) -> Self {
        let &RunningRow(place, schedule, shard, max, started, attempt_started, stop, active) = row;
        let (status, failure, retry_at) = match &completion.end {
            End::Succeeded => (JobStatus::Success, None, None),
            End::Failed(failure) => (JobStatus::Failed, Some(failure.clone()), None),
            End::Retry(..) if stop > 0 => (JobStatus::Failed, Some(cancelled(stop)), None),
            // Whatever the caller thinks: there is none left (JOB-1), and waiting for it would
            // have no end (JOB-3).
            End::Retry(failure, _) if completion.attempt >= max => {
                (JobStatus::Failed, Some(failure.clone()), None)
            }
            End::Retry(failure, at) => (JobStatus::Pending, Some(failure.clone()), Some(*at)),
        };
        Self {
            place,
            job: completion.job,
            schedule: ScheduleId::from_bytes(schedule.0),
            shard: ShardId(shard),
            started_at: Timestamp::from_millis(started),
            attempt_started_at: Timestamp::from_millis(attempt_started),
            status,
            failure,
            retry_at,
            is_active: active != 0,
        }
    }

    /// The job, if others may wait for its end.
    pub(super) fn ended(&self) -> Option<Ended> {
        let Self { shard, schedule, job, .. } = *self;
        (self.is_active && self.status.is_final()).then_some(Ended { shard, schedule, job })
    }
}

/// Why a job has no further attempt, by its column `stop`.
fn cancelled(stop: u8) -> Failure {
    let why = if stop == 1 { "the schedule was deleted" } else { "the job was cancelled" };
    Failure { code: ErrorCode::Cancelled, message: why.to_owned(), retryable: false }
}

/// What becomes of the jobs of a round. Those whose claim was lost are left out.
pub(super) async fn read(
    connection: &mut SqliteConnection,
    round: &[&Completion],
) -> Outcome<Vec<Ending>> {
    let claims = round.iter().map(|c| (hex(&c.job), c.attempt, hex(&c.executor)));
    let rows: String = sqlx::query_scalar(RUNNING)
        .bind(json_rows(&claims.collect::<Vec<_>>()))
        .fetch_one(connection)
        .await?;
    let damaged = || Fault::new(StoreErrorKind::Corrupt, "a job's row cannot be read back");
    let endings = rows_of::<RunningRow>(&rows)?.into_iter().map(|row| {
        let completion = round.get(row.0).ok_or_else(damaged)?;
        Ok(Ending::new(&row, completion))
    });
    endings.collect()
}
