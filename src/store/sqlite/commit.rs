//! Committing the ends of attempts.
//!
//! A batch is written in rounds, each a statement or two a table, all in one transaction. A round
//! names a job once, so that a second end of the same job sees what the first one did; and it is
//! bounded in bytes, since responses can be large. A write transaction excludes every other one,
//! so what a round reads of its jobs is still true when it writes them.

use std::collections::HashSet;

use serde::Serialize;
use sqlx::SqliteConnection;

use super::ending::read;
use super::error::Outcome;
use super::notifying::raise;
use super::overlap;
use super::runs::count_runs;
use super::tickets::tickets;
use super::values::{Hex, hex, json_rows, status_code, timings_text};
use crate::domain::{JobId, Timestamp};
use crate::store::ending::{Ended, Ending};
use crate::store::response::{headers_text, without_nul};
use crate::store::{Committed, Completion, End, Fate};

/// The responses of a round take about this many bytes.
const ROUND_BYTES: usize = 1_048_576;

/// Writes a batch.
pub(super) async fn commit(
    connection: &mut SqliteConnection,
    now: Timestamp,
    completions: Vec<Completion>,
) -> Outcome<Committed> {
    let fates = vec![Fate::Lost; completions.len()];
    let mut committed = Committed { fates, ..Committed::default() };
    for places in rounds(&completions) {
        let round: Vec<&Completion> = places.iter().map(|place| &completions[*place]).collect();
        let (endings, alerts) = read(connection, &round).await?;
        for ending in &endings {
            ending.note(places[ending.place], &mut committed);
        }
        keep_attempts(connection, &round, &endings).await?;
        write(connection, now, &round, &endings).await?;
        count_runs(connection, &endings).await?;
        let waits = |ending: &&Ending| !ending.status.is_final();
        let waiting: Vec<JobId> = endings.iter().filter(waits).map(|ending| ending.job).collect();
        committed.tickets.append(&mut tickets(connection, &waiting).await?);
        let ended: Vec<Ended> = endings.iter().filter_map(Ending::ended).collect();
        committed.tickets.append(&mut overlap::release(connection, now, &ended).await?);
        committed.events += raise(connection, now, committed.events, &endings, &alerts).await?;
    }
    Ok(committed)
}

/// Divides a batch into rounds of places in it.
fn rounds(completions: &[Completion]) -> Vec<Vec<usize>> {
    let mut left: Vec<usize> = (0..completions.len()).collect();
    let mut rounds = Vec::new();
    while !left.is_empty() {
        let (mut taken, mut later, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        let mut bytes = 0;
        for place in left {
            let completion = &completions[place];
            // A second completion of a job stays behind the first one.
            if seen.insert(completion.job) && bytes < ROUND_BYTES {
                bytes += body_bytes(completion);
                taken.push(place);
            } else {
                later.push(place);
            }
        }
        rounds.push(taken);
        left = later;
    }
    rounds
}

fn body_bytes(completion: &Completion) -> usize {
    let response = completion.exchange.as_ref().and_then(|exchange| exchange.result.as_ref().ok());
    response.map_or(0, |response| response.body.len())
}

/// What an attempt's end writes into its job's row, in a JSON parameter.
#[derive(Serialize)]
struct JobRow {
    job: Hex,
    status: u8,
    wake_at: Option<i64>,
    completed_at: Option<i64>,
    error_code: Option<&'static str>,
    error_message: Option<String>,
    duration_ms: Option<u32>,
    timings: Option<String>,
    status_code: Option<u16>,
    truncated: bool,
    headers: Option<String>,
    body: Option<String>,
}

impl JobRow {
    fn new(ending: &Ending, completion: &Completion) -> Self {
        let exchange = completion.exchange.as_ref();
        let response = exchange.and_then(|exchange| exchange.result.as_ref().ok());
        let failure = ending.failure.as_ref();
        let completed_at = completion.completed_at.as_millis();
        Self {
            job: hex(&ending.job),
            status: status_code(ending.status),
            wake_at: ending.retry_at.map(Timestamp::as_millis),
            completed_at: ending.status.is_final().then_some(completed_at),
            error_code: failure.map(|failure| failure.code.as_str()),
            error_message: failure.map(|failure| without_nul(&failure.message)),
            duration_ms: exchange.map(|exchange| exchange.duration_ms),
            timings: exchange.map(|exchange| timings_text(&exchange.timings)),
            status_code: response.map(|response| response.status),
            truncated: response.is_some_and(|response| response.truncated),
            headers: response.map(headers_text),
            body: response.map(|response| without_nul(&String::from_utf8_lossy(&response.body))),
        }
    }
}

pub(super) const COMMIT: &str = "
    UPDATE jobs SET
        status = c.status, wake_at = c.wake_at, completed_at = c.completed_at,
        error_code = c.error_code, error_message = c.error_message, claimed_by = NULL,
        updated_at = ?1, duration_ms = c.duration_ms, timings = c.timings,
        status_code = c.status_code, response_truncated = c.truncated,
        response_headers = c.headers, response = c.body
    FROM (SELECT unhex(value ->> 'job') AS job, value ->> 'status' AS status,
                 value ->> 'wake_at' AS wake_at, value ->> 'completed_at' AS completed_at,
                 value ->> 'error_code' AS error_code, value ->> 'error_message' AS error_message,
                 value ->> 'duration_ms' AS duration_ms, value ->> 'timings' AS timings,
                 value ->> 'status_code' AS status_code, value ->> 'truncated' AS truncated,
                 value ->> 'headers' AS headers, value ->> 'body' AS body
          FROM jsonb_each(?2)) AS c
    WHERE jobs.id = c.job";

async fn write(
    connection: &mut SqliteConnection,
    now: Timestamp,
    round: &[&Completion],
    endings: &[Ending],
) -> Outcome<()> {
    if endings.is_empty() {
        return Ok(());
    }
    let row = |ending: &Ending| JobRow::new(ending, round[ending.place]);
    let rows = json_rows(&endings.iter().map(row).collect::<Vec<_>>());
    sqlx::query(COMMIT).bind(now).bind(rows).execute(connection).await?;
    Ok(())
}

/// Copies the ends of attempts that may be followed by another one, which would overwrite them.
async fn keep_attempts(
    connection: &mut SqliteConnection,
    round: &[&Completion],
    endings: &[Ending],
) -> Outcome<()> {
    let row = |ending: &Ending| {
        let completion = round[ending.place];
        let End::Retry(failure, _) = &completion.end else {
            return None;
        };
        let exchange = completion.exchange.as_ref();
        let response = exchange.and_then(|exchange| exchange.result.as_ref().ok());
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
        ))
    };
    let rows: Vec<_> = endings.iter().filter_map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO attempts (job_id, number, started_at, completed_at, duration_ms, status_code,
                               error_code, error_message, timings)
         SELECT unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3, value ->> 4,
                value ->> 5, value ->> 6, value ->> 7, value ->> 8
         FROM jsonb_each(?1)",
    )
    .bind(json_rows(&rows))
    .execute(connection)
    .await?;
    Ok(())
}
