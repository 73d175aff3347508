//! Commits the ends of attempts.
//!
//! A batch is written in chunks, all in one transaction, with one or two statements for each table
//! in a chunk. A chunk has each job only once, so that a second end of the same job sees the effect
//! of the first one. Its size in bytes is limited, because responses can be large. A write
//! transaction excludes all others, so what a chunk reads of its jobs is still true when it writes
//! them.

pub(super) mod ending;
pub(super) mod runs;

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;

use super::connection::values::{Hex, hex, json_ids, json_rows, status_code, timings_text};
use crate::domain::{JobId, Timestamp};
use crate::store::sql::connection::Connection;
use crate::store::sql::error::SqlResult;
use crate::store::sql::hours::{add_to_hours, lag_code};
use crate::store::sql::jobs::ending::{EndedJob, JobEnding};
use crate::store::sql::jobs::overlap;
use crate::store::sql::jobs::response::{body_text, headers_text, without_nul};
use crate::store::sql::jobs::rows::history_columns;
use crate::store::sql::jobs::tickets::tickets;
use crate::store::sql::notifications::raise;
use crate::store::{AttemptEnd, Committed, Completion, CompletionResult, sql};
use ending::read;
use runs::count_runs;

/// The approximate maximum size, in bytes, of the responses in a chunk.
const ROUND_BYTES: usize = 1_048_576;

/// Commits a batch.
pub(super) async fn commit(
    connection: &mut Connection<'_>,
    now: Timestamp,
    completions: Arc<[Completion]>,
) -> SqlResult<Committed> {
    let results = vec![CompletionResult::Lost; completions.len()];
    let mut committed = Committed { results, ..Committed::default() };
    for positions in chunks(&completions) {
        let chunk: Vec<&Completion> =
            positions.iter().map(|position| &completions[*position]).collect();
        let (endings, alerts) = read(connection, &chunk).await?;
        for ending in &endings {
            ending.note(positions[ending.position], &mut committed);
        }
        keep_attempts(connection, &chunk, &endings).await?;
        write(connection, now, &chunk, &endings).await?;
        count_runs(connection, &endings).await?;
        let waits = |ending: &&JobEnding| !ending.status.is_final();
        let waiting: Vec<JobId> = endings.iter().filter(waits).map(|ending| ending.job).collect();
        committed.tickets.append(&mut tickets(connection, &waiting).await?);
        let ended: Vec<EndedJob> = endings.iter().filter_map(JobEnding::ended).collect();
        committed.tickets.append(&mut overlap::release(connection, now, &ended).await?);
        committed.events += raise(connection, now, committed.events, &endings, &alerts).await?;
    }
    Ok(committed)
}

/// Divides a batch into chunks, each a list of positions in the batch.
fn chunks(completions: &[Completion]) -> Vec<Vec<usize>> {
    let mut left: Vec<usize> = (0..completions.len()).collect();
    let mut chunks = Vec::new();
    while !left.is_empty() {
        let (mut taken, mut later, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        let mut bytes = 0;
        for position in left {
            let completion = &completions[position];
            // A second end of a job comes in a later chunk than the first one.
            if seen.insert(completion.job) && bytes < ROUND_BYTES {
                bytes += completion.response().map_or(0, |response| response.body.len());
                taken.push(position);
            } else {
                later.push(position);
            }
        }
        chunks.push(taken);
        left = later;
    }
    chunks
}

/// The result of a job, as a row in a JSON parameter.
#[derive(Serialize)]
struct EndedJobRow {
    job: Hex,
    status: u8,
    completed_at: i64,
    error_code: Option<&'static str>,
    error_message: Option<String>,
    duration_ms: Option<u32>,
    timings: Option<String>,
    status_code: Option<u16>,
    truncated: bool,
    headers: Option<String>,
    body: Option<String>,
}

impl EndedJobRow {
    fn new(ending: &JobEnding, completion: &Completion) -> Self {
        let (exchange, response) = (completion.exchange.as_ref(), completion.response());
        let failure = ending.failure.as_ref();
        Self {
            job: hex(&ending.job),
            status: status_code(ending.status),
            completed_at: completion.completed_at.as_millis(),
            error_code: failure.map(|failure| failure.code.as_str()),
            error_message: failure.map(|failure| without_nul(&failure.message)),
            duration_ms: exchange.map(|exchange| exchange.duration_ms),
            timings: exchange.map(|exchange| timings_text(&exchange.timings)),
            status_code: response.map(|response| response.status),
            truncated: response.is_some_and(|response| response.truncated),
            headers: response.map(headers_text),
            body: response.map(body_text),
        }
    }
}

/// Inserts the jobs that have ended into history. [`LEAVE`] removes them from `runs`.
pub(super) const END: &str = concat!(
    "
    INSERT INTO jobs (id, account_id, ",
    history_columns!(),
    ")
    SELECT r.id, r.account_id, r.schedule_id, r.version_id, r.created_at, ?1, r.started_at,
           c.value ->> 'completed_at', r.attempt_started_at, c.value ->> 'status', r.trigger,
           r.attempt_number, r.max_attempts, c.value ->> 'error_code', c.value ->> 'error_message',
           c.value ->> 'duration_ms', c.value ->> 'timings', c.value ->> 'status_code',
           c.value ->> 'truncated', c.value ->> 'headers', c.value ->> 'body'
    FROM jsonb_each(?2) AS c CROSS JOIN runs AS r
    WHERE r.id = unhex(c.value ->> 'job')"
);

/// Adds the jobs that [`END`] has inserted to the hours of their accounts.
pub(super) const COUNT_HOURS: &str = add_to_hours!(
    sqlite "(SELECT j.account_id, j.completed_at, j.status AS final, j.error_code,
                    c.value ->> 1 AS lag
             FROM jsonb_each(?1) AS c CROSS JOIN jobs AS j WHERE j.id = unhex(c.value ->> 0))"
);

pub(super) const LEAVE: &str =
    "DELETE FROM runs WHERE id IN (SELECT unhex(value) FROM json_each(?1))";

/// Makes jobs PENDING until their next attempt.
pub(super) const RETRY: &str = "
    UPDATE runs SET status = 0, wake_at = c.retry_at, claimed_by = NULL, updated_at = ?1
    FROM (SELECT unhex(value ->> 0) AS job, value ->> 1 AS retry_at FROM jsonb_each(?2)) AS c
    WHERE runs.id = c.job";

async fn write(
    connection: &mut Connection<'_>,
    now: Timestamp,
    chunk: &[&Completion],
    endings: &[JobEnding],
) -> SqlResult<()> {
    let (ended, waiting): (Vec<&JobEnding>, Vec<&JobEnding>) =
        endings.iter().partition(|ending| ending.status.is_final());
    if !ended.is_empty() {
        let row = |ending: &&JobEnding| EndedJobRow::new(ending, chunk[ending.position]);
        let rows = json_rows(&ended.iter().map(row).collect::<Vec<_>>());
        sql::query(END).bind(now).bind(rows).execute(connection).await?;
        let row = |ending: &&JobEnding| (hex(&ending.job), lag_code(ending.job, ending.started_at));
        let rows = json_rows(&ended.iter().map(row).collect::<Vec<_>>());
        sql::query(COUNT_HOURS).bind(rows).execute(connection).await?;
        let ids = json_ids(ended.iter().map(|ending| &ending.job));
        sql::query(LEAVE).bind(ids).execute(connection).await?;
    }
    if !waiting.is_empty() {
        let row =
            |ending: &&JobEnding| (hex(&ending.job), ending.retry_at.map(Timestamp::as_millis));
        let rows = json_rows(&waiting.iter().map(row).collect::<Vec<_>>());
        sql::query(RETRY).bind(now).bind(rows).execute(connection).await?;
    }
    Ok(())
}

/// Records the ended attempts whose outcome is retryable. A response is stored only for the last
/// attempt of an unfinished job: a finished job has it in its own row.
async fn keep_attempts(
    connection: &mut Connection<'_>,
    chunk: &[&Completion],
    endings: &[JobEnding],
) -> SqlResult<()> {
    let followed = endings.iter().filter(|ending| chunk[ending.position].attempt > 1);
    let followed: Vec<&JobId> = followed.map(|ending| &ending.job).collect();
    if !followed.is_empty() {
        sql::query(FORGET).bind(json_ids(followed)).execute(connection).await?;
    }
    let row = |ending: &JobEnding| {
        let completion = chunk[ending.position];
        let AttemptEnd::Retry(failure, _) = &completion.end else {
            return None;
        };
        let (exchange, response) = (completion.exchange.as_ref(), completion.response());
        let kept = response.filter(|_| !ending.status.is_final());
        Some((
            hex(&ending.job),
            completion.attempt,
            ending.attempt_started_at.as_millis(),
            completion.completed_at.as_millis(),
            exchange.map(|exchange| exchange.duration_ms),
            response.map(|response| response.status),
            failure.code.as_str(),
            without_nul(&failure.message),
            exchange.map(|exchange| timings_text(&exchange.timings)),
            kept.is_some_and(|response| response.truncated),
            kept.map(headers_text),
            kept.map(body_text),
        ))
    };
    let rows: Vec<_> = endings.iter().filter_map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    sql::query(KEEP).bind(json_rows(&rows)).run(connection).await
}

const FORGET: &str = "
    UPDATE attempts SET response = NULL, response_headers = NULL, response_truncated = 0
    WHERE job_id IN (SELECT unhex(value) FROM json_each(?1)) AND response_headers IS NOT NULL";

const KEEP: &str = "
    INSERT INTO attempts (job_id, number, started_at, completed_at, duration_ms, status_code,
                          error_code, error_message, timings, response_truncated,
                          response_headers, response)
    SELECT unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
           value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11
    FROM jsonb_each(?1)";
