//! Committing the ends of attempts.
//!
//! A batch takes the jobs it is about as their claims have told them, or reads them, decides, and
//! writes: a statement a table, but for responses, of which one statement takes no more than some
//! megabytes.

use std::sync::{Arc, LazyLock};

use sqlx::PgConnection;

use super::ending::{Manner, Settled, settle};
use super::error::{Fault, Outcome, Remedy};
use super::notifying::raise;
use super::overlap;
use super::tickets::tickets;
use crate::domain::outcome::{Exchange, Response};
use crate::domain::{JobId, Timestamp};
use crate::runtime::faults::Defect;
use crate::store::ending::{Ended, Ending};
use crate::store::response::{headers_text, without_nul};
use crate::store::stored::timings_text;
use crate::store::{Committed, Completion, End, Fate, StoreErrorKind};

/// The responses that one statement takes have about this many bytes.
const ROUND_BYTES: usize = 4_194_304;

/// Writes a batch.
pub(super) async fn commit(
    connection: &mut PgConnection,
    now: Timestamp,
    completions: Arc<[Completion]>,
    manner: Manner,
) -> Outcome<Committed> {
    let fates = vec![Fate::Lost; completions.len()];
    let mut committed = Committed { fates, ..Committed::default() };
    let Settled { endings, busy, alerts } = settle(connection, &completions, manner).await?;
    for place in busy {
        committed.fates[place] = Fate::Busy;
    }
    for ending in &endings {
        ending.note(ending.place, &mut committed);
    }
    for round in rounds(&completions, &endings) {
        write(connection, now, &completions, round).await?;
    }
    keep_attempts(connection, &completions, &endings).await?;
    let waits = |ending: &&Ending| !ending.status.is_final();
    let waiting: Vec<JobId> = endings.iter().filter(waits).map(|ending| ending.job).collect();
    committed.tickets.append(&mut tickets(connection, &waiting).await?);
    let ended: Vec<Ended> = endings.iter().filter_map(Ending::ended).collect();
    committed.tickets.append(&mut overlap::release(connection, now, &ended).await?);
    committed.events = raise(connection, now, 0, &endings, &alerts).await?;
    Ok(committed)
}

fn response(completion: &Completion) -> Option<&Response> {
    completion.exchange.as_ref().and_then(|exchange| exchange.result.as_ref().ok())
}

/// Divides the endings by the size of what they write.
fn rounds<'e>(completions: &[Completion], endings: &'e [Ending]) -> Vec<&'e [Ending]> {
    let (mut rounds, mut rest, mut bytes) = (Vec::new(), endings, 0);
    for (taken, ending) in (1..).zip(endings) {
        bytes += response(&completions[ending.place]).map_or(0, |response| response.body.len());
        let begun = endings.len() - rest.len();
        if bytes >= ROUND_BYTES || taken == endings.len() {
            let (round, later) = rest.split_at(taken - begun);
            rounds.push(round);
            (rest, bytes) = (later, 0);
        }
    }
    rounds
}

/// Those of the jobs that are still as they were told or read. They are named without bounds, and
/// what else must hold is a CASE: by either the planner would take the newest jobs for none at all,
/// and compare each with each.
const COMMIT: &str = "
    UPDATE jobs AS j SET
        status = c.status, wake_at = c.wake_at, completed_at = c.completed_at,
        error_code = c.error_code, error_message = c.error_message, claimed_by = NULL,
        updated_at = $1, duration_ms = c.duration_ms, timings = c.timings,
        status_code = c.status_code, response_truncated = c.truncated,
        response_headers = c.headers, response = c.body
    FROM unnest($2::uuid[], $3::smallint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[],
                $8::bigint[], $9::text[], $10::integer[], $11::boolean[], $12::text[],
                $13::text[], $14::smallint[], $15::uuid[], $16::smallint[])
         AS c (job, status, wake_at, completed_at, error_code, error_message, duration_ms, timings,
               status_code, truncated, headers, body, attempt, executor, stop)
    WHERE j.id = c.job AND j.id = ANY ($2)
      AND CASE WHEN j.status = 1 AND j.stop = c.stop AND j.claimed_by = c.executor
               THEN j.attempt_number = c.attempt END";

/// The jobs whoever has them: [`Defect::NoClaimCheck`].
static COMMIT_ANYBODYS: LazyLock<String> = LazyLock::new(|| {
    let end = COMMIT.find("AND CASE").expect("the check of the claim");
    COMMIT[..end].to_owned()
});

fn statement() -> &'static str {
    if Defect::NoClaimCheck.is_there() { &COMMIT_ANYBODYS } else { COMMIT }
}

async fn write(
    connection: &mut PgConnection,
    now: Timestamp,
    completions: &[Completion],
    round: &[Ending],
) -> Outcome<()> {
    let of = |ending: &Ending| &completions[ending.place];
    let exchanges: Vec<Option<&Exchange>> =
        round.iter().map(|ending| of(ending).exchange.as_ref()).collect();
    let responses: Vec<Option<&Response>> =
        round.iter().map(|ending| response(of(ending))).collect();
    let completed = |ending: &Ending| ending.status.is_final().then_some(of(ending).completed_at);
    let failures = || round.iter().map(|ending| ending.failure.as_ref());
    let body = |response: &Response| without_nul(&String::from_utf8_lossy(&response.body));
    let written = sqlx::query(statement())
        .bind(now)
        .bind(round.iter().map(|ending| ending.job).collect::<Vec<_>>())
        .bind(round.iter().map(|ending| ending.status).collect::<Vec<_>>())
        .bind(round.iter().map(|ending| ending.retry_at).collect::<Vec<_>>())
        .bind(round.iter().map(completed).collect::<Vec<_>>())
        .bind(failures().map(|failure| failure.map(|f| f.code)).collect::<Vec<_>>())
        .bind(failures().map(|f| f.map(|f| without_nul(&f.message))).collect::<Vec<_>>())
        .bind(column(&exchanges, |exchange| i64::from(exchange.duration_ms)))
        .bind(column(&exchanges, |exchange| timings_text(&exchange.timings)))
        .bind(column(&responses, |response| i32::from(response.status)))
        .bind(responses.iter().map(|r| r.is_some_and(|r| r.truncated)).collect::<Vec<_>>())
        .bind(column(&responses, headers_text))
        .bind(column(&responses, body))
        .bind(round.iter().map(|ending| i16::from(of(ending).attempt)).collect::<Vec<_>>())
        .bind(round.iter().map(|ending| of(ending).executor).collect::<Vec<_>>())
        .bind(round.iter().map(|ending| i16::from(ending.stop)).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    if written.rows_affected() < round.len() as u64 {
        let message = "a job was changed while the end of its attempt was written";
        return Err(Fault::new(StoreErrorKind::Unavailable, message).with(Remedy::Lock));
    }
    Ok(())
}

fn column<'a, V, T>(values: &[Option<&'a V>], of: impl Fn(&'a V) -> T) -> Vec<Option<T>> {
    values.iter().map(|value| value.map(&of)).collect()
}

/// Copies the ends of attempts that may be followed by another one, which would overwrite them.
async fn keep_attempts(
    connection: &mut PgConnection,
    completions: &[Completion],
    endings: &[Ending],
) -> Outcome<()> {
    let retried = endings.iter().filter_map(|ending| {
        let completion = &completions[ending.place];
        match &completion.end {
            End::Retry(failure, _) => Some((ending, completion, failure)),
            End::Succeeded | End::Failed(_) => None,
        }
    });
    let rows: Vec<_> = retried.collect();
    if rows.is_empty() {
        return Ok(());
    }
    let exchanges: Vec<Option<&Exchange>> =
        rows.iter().map(|(_, completion, _)| completion.exchange.as_ref()).collect();
    let responses: Vec<Option<&Response>> =
        rows.iter().map(|(_, completion, _)| response(completion)).collect();
    sqlx::query(
        "INSERT INTO attempts (job_id, number, started_at, completed_at, duration_ms, status_code,
                               error_code, error_message, timings)
         SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[],
                              $6::integer[], $7::text[], $8::text[], $9::text[])",
    )
    .bind(rows.iter().map(|(ending, ..)| ending.job).collect::<Vec<_>>())
    .bind(rows.iter().map(|(_, completion, _)| i16::from(completion.attempt)).collect::<Vec<_>>())
    .bind(rows.iter().map(|(ending, ..)| ending.attempt_started_at).collect::<Vec<_>>())
    .bind(rows.iter().map(|(_, completion, _)| completion.completed_at).collect::<Vec<_>>())
    .bind(column(&exchanges, |exchange| i64::from(exchange.duration_ms)))
    .bind(column(&responses, |response| i32::from(response.status)))
    .bind(rows.iter().map(|(.., failure)| failure.code).collect::<Vec<_>>())
    .bind(rows.iter().map(|(.., failure)| without_nul(&failure.message)).collect::<Vec<_>>())
    .bind(column(&exchanges, |exchange| timings_text(&exchange.timings)))
    .execute(connection)
    .await?;
    Ok(())
}
