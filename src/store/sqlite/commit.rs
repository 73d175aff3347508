//! Committing the ends of attempts.
//!
//! A batch is written in rounds, each one statement a table, all in one transaction. A round names
//! a job once, so that a second end of the same job sees what the first one did; and it is bounded
//! in bytes, since responses can be large.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use sqlx::{FromRow, SqliteConnection};

use super::error::Outcome;
use super::overlap::{self, Ended};
use super::tickets::tickets;
use super::values::{Hex, hex, json_rows, status_code, timings_text};
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::outcome::{ErrorCode, Response};
use crate::domain::shard::ShardId;
use crate::domain::ticket::Ticket;
use crate::domain::{JobId, ScheduleId, Timestamp};
use crate::store::{Committed, Completion, End, Fate};

/// The texts of a round take about this many bytes.
const ROUND_BYTES: usize = 1_048_576;

/// A part of a batch, ready to be written.
pub(super) struct Round {
    /// Where in the batch each completion stands.
    places: Vec<usize>,
    jobs: Vec<JobId>,
    retries: Vec<AttemptRow>,
    rows: String,
}

/// A completion in a JSON parameter. Kinds: 0 succeeded, 1 failed, 2 to be retried.
#[derive(Serialize)]
struct Row {
    job: Hex,
    attempt: u8,
    executor: Hex,
    completed_at: i64,
    kind: u8,
    retry_at: Option<i64>,
    error_code: Option<&'static str>,
    error_message: Option<String>,
    duration_ms: Option<u32>,
    timings: Option<String>,
    status_code: Option<u16>,
    response_truncated: bool,
    response_headers: Option<String>,
    response: Option<String>,
}

/// What is kept of an attempt that may be followed by another one.
struct AttemptRow {
    job: JobId,
    number: u8,
    completed_at: i64,
    duration_ms: Option<u32>,
    status_code: Option<u16>,
    error_code: Option<&'static str>,
    error_message: Option<String>,
    timings: Option<String>,
}

/// Divides a batch into rounds.
pub(super) fn rounds(completions: &[Completion]) -> Vec<Round> {
    let mut left: Vec<usize> = (0..completions.len()).collect();
    let mut rounds = Vec::new();
    while !left.is_empty() {
        let (mut taken, mut later, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        let mut bytes = 0;
        for place in left {
            let completion = &completions[place];
            // A job that was put off stays behind its earlier completion.
            let is_first = seen.insert(completion.job);
            if is_first && bytes < ROUND_BYTES {
                bytes += body_bytes(completion);
                taken.push(place);
            } else {
                later.push(place);
            }
        }
        rounds.push(Round::new(completions, taken));
        left = later;
    }
    rounds
}

fn body_bytes(completion: &Completion) -> usize {
    let response = completion.exchange.as_ref().and_then(|exchange| exchange.result.as_ref().ok());
    response.map_or(0, |response| response.body.len())
}

impl Round {
    fn new(completions: &[Completion], places: Vec<usize>) -> Self {
        let chosen: Vec<&Completion> = places.iter().map(|place| &completions[*place]).collect();
        let rows: Vec<Row> = chosen.iter().map(|completion| row(completion)).collect();
        let retries = rows.iter().zip(&chosen).filter(|(row, _)| row.kind == RETRY);
        let retries = retries.map(|(row, completion)| attempt_row(completion.job, row)).collect();
        let jobs = chosen.iter().map(|completion| completion.job).collect();
        Self { places, jobs, retries, rows: json_rows(&rows) }
    }
}

const RETRY: u8 = 2;

fn row(completion: &Completion) -> Row {
    let (kind, failure, retry_at) = match &completion.end {
        End::Succeeded => (0, None, None),
        End::Failed(failure) => (1, Some(failure), None),
        End::Retry(failure, at) => (RETRY, Some(failure), Some(at.as_millis())),
    };
    let exchange = completion.exchange.as_ref();
    let response = exchange.and_then(|exchange| exchange.result.as_ref().ok());
    Row {
        job: hex(&completion.job),
        attempt: completion.attempt,
        executor: hex(&completion.executor),
        completed_at: completion.completed_at.as_millis(),
        kind,
        retry_at,
        error_code: failure.map(|failure| failure.code.as_str()),
        error_message: failure.map(|failure| without_nul(&failure.message)),
        duration_ms: exchange.map(|exchange| exchange.duration_ms),
        timings: exchange.map(|exchange| timings_text(&exchange.timings)),
        status_code: response.map(|response| response.status),
        response_truncated: response.is_some_and(|response| response.truncated),
        response_headers: response.map(headers_text),
        response: response.map(|response| without_nul(&String::from_utf8_lossy(&response.body))),
    }
}

fn attempt_row(job: JobId, row: &Row) -> AttemptRow {
    AttemptRow {
        job,
        number: row.attempt,
        completed_at: row.completed_at,
        duration_ms: row.duration_ms,
        status_code: row.status_code,
        error_code: row.error_code,
        error_message: row.error_message.clone(),
        timings: row.timings.clone(),
    }
}

/// Not every store can hold a NUL in a text.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A response's headers as a JSON object. Values of one name are joined as RFC 9110, 5.3 says.
fn headers_text(response: &Response) -> String {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &response.headers {
        let joined = headers.entry(without_nul(name)).or_default();
        if !joined.is_empty() {
            joined.push_str(", ");
        }
        joined.push_str(&without_nul(value));
    }
    serde_json::to_string(&headers).expect("a map of texts always has a JSON form")
}

/// What is left of a job after an end took effect.
#[derive(FromRow)]
struct Applied {
    id: JobId,
    schedule_id: ScheduleId,
    shard: ShardId,
    status: JobStatus,
    trigger: Trigger,
    started_at: Timestamp,
    attempt_started_at: Timestamp,
    error_code: Option<ErrorCode>,
}

/// A job has another attempt if one is wanted, nothing forbids it and there is one left.
pub(super) const COMMIT: &str = "
    UPDATE jobs SET
        status = CASE WHEN c.kind = 0 THEN 2
                      WHEN c.kind = 2 AND stop = 0 AND attempt_number < max_attempts THEN 0
                      ELSE 3 END,
        wake_at = CASE WHEN c.kind = 2 AND stop = 0 AND attempt_number < max_attempts
                       THEN c.retry_at END,
        completed_at = CASE WHEN c.kind = 2 AND stop = 0 AND attempt_number < max_attempts
                            THEN NULL ELSE c.completed_at END,
        error_code = CASE WHEN c.kind = 2 AND stop > 0 THEN 'CANCELLED' ELSE c.error_code END,
        error_message = CASE WHEN c.kind = 2 AND stop = 1 THEN 'the schedule was deleted'
                             WHEN c.kind = 2 AND stop = 2 THEN 'the job was cancelled'
                             ELSE c.error_message END,
        claimed_by = NULL, updated_at = ?1, duration_ms = c.duration_ms, timings = c.timings,
        status_code = c.status_code, response_truncated = c.response_truncated,
        response_headers = c.response_headers, response = c.response
    FROM (SELECT unhex(value ->> 'job') AS job, value ->> 'attempt' AS attempt,
                 unhex(value ->> 'executor') AS executor, value ->> 'completed_at' AS completed_at,
                 value ->> 'kind' AS kind, value ->> 'retry_at' AS retry_at,
                 value ->> 'error_code' AS error_code, value ->> 'error_message' AS error_message,
                 value ->> 'duration_ms' AS duration_ms, value ->> 'timings' AS timings,
                 value ->> 'status_code' AS status_code,
                 value ->> 'response_truncated' AS response_truncated,
                 value ->> 'response_headers' AS response_headers,
                 value ->> 'response' AS response
          FROM json_each(?2)) AS c
    WHERE jobs.id = c.job AND jobs.status = 1 AND jobs.attempt_number = c.attempt
      AND jobs.claimed_by = c.executor
    RETURNING id, schedule_id, shard, status, trigger, started_at, attempt_started_at,
              error_code";

/// Writes a batch.
pub(super) async fn commit(
    connection: &mut SqliteConnection,
    now: Timestamp,
    rounds: Vec<Round>,
) -> Outcome<Committed> {
    let size = rounds.iter().map(|round| round.places.len()).sum();
    let mut committed = Committed { fates: vec![Fate::Lost; size], tickets: Vec::new() };
    for round in rounds {
        let applied: Vec<Applied> =
            sqlx::query_as(COMMIT).bind(now).bind(&round.rows).fetch_all(&mut *connection).await?;
        let applied: HashMap<JobId, Applied> =
            applied.into_iter().map(|job| (job.id, job)).collect();
        for (place, job) in round.places.iter().zip(&round.jobs) {
            if let Some(job) = applied.get(job) {
                committed.fates[*place] = Fate::Applied(job.status);
            }
        }
        keep_attempts(connection, &round.retries, &applied).await?;
        let jobs = || round.jobs.iter().filter_map(|job| applied.get(job));
        let finals: Vec<&Applied> = jobs().filter(|job| job.status.is_final()).collect();
        count_runs(connection, &finals).await?;
        let waiting: Vec<JobId> =
            jobs().filter(|job| !job.status.is_final()).map(|job| job.id).collect();
        committed.tickets.append(&mut tickets(connection, &waiting).await?);
        committed.tickets.append(&mut follow(connection, now, &finals).await?);
    }
    Ok(committed)
}

/// Copies attempts that may be followed by another one, before that overwrites them.
async fn keep_attempts(
    connection: &mut SqliteConnection,
    retries: &[AttemptRow],
    applied: &HashMap<JobId, Applied>,
) -> Outcome<()> {
    let rows: Vec<_> = retries
        .iter()
        .filter_map(|attempt| {
            let started_at = applied.get(&attempt.job)?.attempt_started_at.as_millis();
            Some((
                hex(&attempt.job),
                attempt.number,
                started_at,
                attempt.completed_at,
                attempt.duration_ms,
                attempt.status_code,
                attempt.error_code,
                &attempt.error_message,
                &attempt.timings,
            ))
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO attempts (job_id, number, started_at, completed_at, duration_ms, status_code,
                               error_code, error_message, timings)
         SELECT unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3, value ->> 4,
                value ->> 5, value ->> 6, value ->> 7, value ->> 8
         FROM json_each(?1)",
    )
    .bind(json_rows(&rows))
    .execute(connection)
    .await?;
    Ok(())
}

/// What the jobs that ended in a round mean for one schedule.
#[derive(Default)]
struct Runs {
    last: Option<(Timestamp, JobStatus)>,
    succeeded: bool,
    failures: u32,
}

/// A run that began before the last one known does not count as the last.
pub(super) const COUNT_RUNS: &str = "
    UPDATE schedule_state SET
        last_job_status = CASE WHEN r.run_at >= coalesce(last_run_at, 0) THEN r.status
                               ELSE last_job_status END,
        last_run_at = max(r.run_at, coalesce(last_run_at, 0)),
        consecutive_failures = r.failures
                               + CASE WHEN r.succeeded THEN 0 ELSE consecutive_failures END
    FROM (SELECT value ->> 0 AS shard, unhex(value ->> 1) AS schedule, value ->> 2 AS run_at,
                 value ->> 3 AS status, value ->> 4 AS succeeded, value ->> 5 AS failures
          FROM json_each(?1)) AS r
    WHERE schedule_state.shard = r.shard AND schedule_state.schedule_id = r.schedule";

/// Updates the schedules' last run and streak. Cancelled jobs do not count.
async fn count_runs(connection: &mut SqliteConnection, finals: &[&Applied]) -> Outcome<()> {
    // In the order of the key: neighbours share pages.
    let mut runs: BTreeMap<(ShardId, ScheduleId), Runs> = BTreeMap::new();
    for job in finals.iter().filter(|job| job.error_code != Some(ErrorCode::Cancelled)) {
        let runs = runs.entry((job.shard, job.schedule_id)).or_default();
        if runs.last.is_none_or(|(run_at, _)| run_at <= job.started_at) {
            runs.last = Some((job.started_at, job.status));
        }
        if job.status == JobStatus::Success {
            (runs.succeeded, runs.failures) = (true, 0);
        } else {
            runs.failures += 1;
        }
    }
    let rows: Vec<_> = runs
        .into_iter()
        .filter_map(|((shard, schedule), runs)| {
            let (run_at, status) = runs.last?;
            let status = status_code(status);
            let schedule = hex(&schedule);
            Some((shard.0, schedule, run_at.as_millis(), status, runs.succeeded, runs.failures))
        })
        .collect();
    if !rows.is_empty() {
        sqlx::query(COUNT_RUNS).bind(json_rows(&rows)).execute(connection).await?;
    }
    Ok(())
}

/// Lets held jobs follow those of ticks that have ended.
async fn follow(
    connection: &mut SqliteConnection,
    now: Timestamp,
    finals: &[&Applied],
) -> Outcome<Vec<Ticket>> {
    let of_ticks = |job: &&&Applied| matches!(job.trigger, Trigger::Schedule | Trigger::CatchUp);
    let ended: Vec<Ended> = finals
        .iter()
        .filter(of_ticks)
        .map(|job| Ended { shard: job.shard, schedule: job.schedule_id, job: job.id })
        .collect();
    overlap::release(connection, now, &ended).await
}
