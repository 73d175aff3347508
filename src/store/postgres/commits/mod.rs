//! Commits the ends of attempts.
//!
//! A batch takes the state of its jobs from their claims, or reads it, decides what becomes of each
//! job, and writes the result with one statement for each table. The jobs are written in chunks,
//! because one statement takes only a few megabytes of responses.

mod attempts;
mod batch;
pub(super) mod ending;
mod runs;
mod skip_locked;

use std::sync::Arc;

use sqlx::PgConnection;

use super::connection::values::column;
use crate::domain::{JobId, Timestamp};
use crate::runtime::faults;
use crate::store::sql::connection::Connection;
use crate::store::sql::encoding::timings_text;
use crate::store::sql::error::{Remedy, SqlError, SqlResult};
use crate::store::sql::hours::{add_to_hours, lag_code, lane};
use crate::store::sql::jobs::ending::{EndedJob, JobEnding};
use crate::store::sql::jobs::overlap;
use crate::store::sql::jobs::response::{body_text, headers_text, without_nul};
use crate::store::sql::jobs::rows::history_columns;
use crate::store::sql::jobs::tickets::tickets;
use crate::store::sql::notifications::raise;
use crate::store::{Committed, Completion, CompletionResult, StoreErrorKind};
use ending::{LockMode, SettledBatch, settle};

/// The approximate maximum size, in bytes, of the responses in one statement.
const ROUND_BYTES: usize = 4_194_304;

/// Commits a batch. `mode` says how it deals with locked and changed rows.
pub(super) async fn commit(
    connection: &mut PgConnection,
    now: Timestamp,
    completions: Arc<[Completion]>,
    mode: LockMode,
) -> SqlResult<Committed> {
    let results = vec![CompletionResult::Lost; completions.len()];
    let mut committed = Committed { results, ..Committed::default() };
    let SettledBatch { endings, busy, alerts } = settle(connection, &completions, mode).await?;
    for position in busy {
        committed.results[position] = CompletionResult::Busy;
    }
    for ending in &endings {
        ending.note(ending.position, &mut committed);
    }
    for chunk in chunks(&completions, &endings) {
        write(connection, now, &completions, chunk).await?;
    }
    attempts::keep(connection, &completions, &endings).await?;
    let waits = |ending: &&JobEnding| !ending.status.is_final();
    let waiting: Vec<JobId> = endings.iter().filter(waits).map(|ending| ending.job).collect();
    let connection = &mut Connection::from(connection);
    committed.tickets.append(&mut tickets(connection, &waiting).await?);
    let ended: Vec<EndedJob> = endings.iter().filter_map(JobEnding::ended).collect();
    committed.tickets.append(&mut overlap::release(connection, now, &ended).await?);
    committed.events = raise(connection, now, 0, &endings, &alerts).await?;
    Ok(committed)
}

/// Divides the endings into chunks, by the size of their responses.
fn chunks<'e>(completions: &[Completion], endings: &'e [JobEnding]) -> Vec<&'e [JobEnding]> {
    let (mut chunks, mut rest, mut bytes) = (Vec::new(), endings, 0);
    for (taken, ending) in (1..).zip(endings) {
        bytes += completions[ending.position].response().map_or(0, |response| response.body.len());
        let begun = endings.len() - rest.len();
        if bytes >= ROUND_BYTES || taken == endings.len() {
            let (chunk, later) = rest.split_at(taken - begun);
            chunks.push(chunk);
            (rest, bytes) = (later, 0);
        }
    }
    chunks
}

/// The condition that a job is unchanged since its claim or since it was read. It is a CASE,
/// because the planner makes no estimate from a CASE. From plain conditions, or from bounds on the
/// ids, it would expect no rows among the newest jobs, and would join by comparing every pair of
/// rows.
macro_rules! still_claimed {
    () => {
        "r.id = c.job AND r.id = ANY ($2)
      AND CASE WHEN r.status = 1 AND r.stop = c.stop AND r.claimed_by = c.executor
               THEN r.attempt_number = c.attempt END"
    };
}

/// Moves the jobs that have ended from `runs` into history, and adds them to the hours of their
/// accounts. The hours come last: nothing waits for a row of an hour.
const END: &str = concat!(
    "WITH ended AS (
        DELETE FROM runs AS r
        USING unnest($2::uuid[], $3::smallint[], $4::uuid[], $5::smallint[], $6::smallint[],
                     $7::bigint[], $8::text[], $9::text[], $10::bigint[], $11::text[],
                     $12::integer[], $13::boolean[], $14::text[], $15::text[], $16::smallint[])
             AS c (job, attempt, executor, stop, final, completed_at, error_code, error_message,
                   duration_ms, timings, status_code, truncated, headers, body, lag)
        WHERE ",
    still_claimed!(),
    "
        RETURNING r.id, r.account_id, r.schedule_id, r.version_id, r.created_at, r.started_at,
                  r.attempt_started_at, r.trigger, r.attempt_number, r.max_attempts, c.*),
    counted AS (",
    add_to_hours!(postgres "ended", "$17"),
    ")
    INSERT INTO jobs (id, account_id, ",
    history_columns!(),
    ")
    SELECT id, account_id, schedule_id, version_id, created_at, $1, started_at, completed_at,
           attempt_started_at, final, trigger, attempt_number, max_attempts, error_code,
           error_message, duration_ms, timings, status_code, truncated, headers, body
    FROM ended"
);

/// Makes jobs PENDING until their next attempt.
const RETRY: &str = concat!(
    "UPDATE runs AS r SET status = 0, wake_at = c.retry_at, claimed_by = NULL, updated_at = $1
    FROM unnest($2::uuid[], $3::smallint[], $4::uuid[], $5::smallint[], $6::bigint[])
         AS c (job, attempt, executor, stop, retry_at)
    WHERE ",
    still_claimed!()
);

async fn write(
    connection: &mut PgConnection,
    now: Timestamp,
    completions: &[Completion],
    chunk: &[JobEnding],
) -> SqlResult<()> {
    let (ended, waiting): (Vec<&JobEnding>, Vec<&JobEnding>) =
        chunk.iter().partition(|ending| ending.status.is_final());
    let of = |ending: &&JobEnding| &completions[ending.position];
    let claims = |query, endings: &[&JobEnding]| {
        sqlx::query(query)
            .bind(now)
            .bind(column(endings, |ending| ending.job))
            .bind(column(endings, |ending| i16::from(of(ending).attempt)))
            .bind(column(endings, |ending| of(ending).executor))
            .bind(column(endings, |ending| i16::from(ending.stop)))
    };
    let mut written = 0;
    if !waiting.is_empty() {
        let query = claims(faults::statement("retry", RETRY), &waiting);
        let query = query.bind(column(&waiting, |ending| ending.retry_at));
        written += query.execute(&mut *connection).await?.rows_affected();
    }
    if !ended.is_empty() {
        let exchange = |ending: &&JobEnding| of(ending).exchange.as_ref();
        let response = |ending: &&JobEnding| of(ending).response();
        let query = claims(faults::statement("end", END), &ended)
            .bind(column(&ended, |ending| ending.status))
            .bind(column(&ended, |ending| of(ending).completed_at))
            .bind(column(&ended, |ending| ending.failure.as_ref().map(|failure| failure.code)))
            .bind(column(&ended, |e| e.failure.as_ref().map(|f| without_nul(&f.message))))
            .bind(column(&ended, |e| exchange(e).map(|exchange| i64::from(exchange.duration_ms))))
            .bind(column(&ended, |e| exchange(e).map(|exchange| timings_text(&exchange.timings))))
            .bind(column(&ended, |e| response(e).map(|response| i32::from(response.status))))
            .bind(column(&ended, |e| response(e).is_some_and(|response| response.truncated)))
            .bind(column(&ended, |e| response(e).map(headers_text)))
            .bind(column(&ended, |e| response(e).map(body_text)))
            .bind(column(&ended, |ending| lag_code(ending.job, ending.started_at)))
            .bind(lane(ended[0].job));
        written += query.execute(connection).await?.rows_affected();
    }
    // The decision does not hold for a changed job. The caller repeats the batch with locked jobs.
    if written < chunk.len() as u64 {
        let message = "a job was changed while the end of its attempt was written";
        return Err(SqlError::new(StoreErrorKind::Unavailable, message).with(Remedy::PassOver));
    }
    Ok(())
}
