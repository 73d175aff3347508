//! The attempts of a job that were followed by another one, or may be.

use sqlx::PgConnection;

use crate::domain::outcome::{Exchange, Response};
use crate::store::postgres::connection::values::column;
use crate::store::sql::encoding::timings_text;
use crate::store::sql::encoding::values::bounds;
use crate::store::sql::error::SqlResult;
use crate::store::sql::jobs::ending::JobEnding;
use crate::store::sql::jobs::response::{body_text, headers_text, without_nul};
use crate::store::{AttemptEnd, Completion};

/// Records the ended attempts whose outcome is retryable. A response is stored only for the last
/// attempt of an unfinished job: a finished job has it in its own row.
pub(in crate::store::postgres) async fn keep(
    connection: &mut PgConnection,
    completions: &[Completion],
    endings: &[JobEnding],
) -> SqlResult<()> {
    forget_responses(connection, completions, endings).await?;
    let retried = endings.iter().filter_map(|ending| {
        let completion = &completions[ending.position];
        match &completion.end {
            AttemptEnd::Retry(failure, _) => Some((ending, completion, failure)),
            AttemptEnd::Succeeded | AttemptEnd::Failed(_) => None,
        }
    });
    let rows: Vec<_> = retried.collect();
    if rows.is_empty() {
        return Ok(());
    }
    let exchanges: Vec<Option<&Exchange>> =
        column(&rows, |(_, completion, _)| completion.exchange.as_ref());
    let responses: Vec<Option<&Response>> =
        column(&rows, |(_, completion, _)| completion.response());
    let kept: Vec<Option<&Response>> = rows
        .iter()
        .zip(&responses)
        .map(|((ending, ..), response)| response.filter(|_| !ending.status.is_final()))
        .collect();
    sqlx::query(
        "INSERT INTO attempts (job_id, number, started_at, completed_at, duration_ms, status_code,
                               error_code, error_message, timings, response_truncated,
                               response_headers, response)
         SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[],
                              $6::integer[], $7::text[], $8::text[], $9::text[], $10::boolean[],
                              $11::text[], $12::text[])",
    )
    .bind(column(&rows, |(ending, ..)| ending.job))
    .bind(column(&rows, |(_, completion, _)| i16::from(completion.attempt)))
    .bind(column(&rows, |(ending, ..)| ending.attempt_started_at))
    .bind(column(&rows, |(_, completion, _)| completion.completed_at))
    .bind(column(&exchanges, |exchange| exchange.map(|e| i64::from(e.duration_ms))))
    .bind(column(&responses, |response| response.map(|r| i32::from(r.status))))
    .bind(column(&rows, |(.., failure)| failure.code))
    .bind(column(&rows, |(.., failure)| without_nul(&failure.message)))
    .bind(column(&exchanges, |exchange| exchange.map(|e| timings_text(&e.timings))))
    .bind(column(&kept, |response| response.is_some_and(|r| r.truncated)))
    .bind(column(&kept, |response| response.map(headers_text)))
    .bind(column(&kept, |response| response.map(body_text)))
    .execute(connection)
    .await?;
    Ok(())
}

/// Removes the responses of attempts that were followed by another one.
async fn forget_responses(
    connection: &mut PgConnection,
    completions: &[Completion],
    endings: &[JobEnding],
) -> SqlResult<()> {
    let followed = |ending: &&JobEnding| completions[ending.position].attempt > 1;
    let jobs: Vec<_> = endings.iter().filter(followed).map(|ending| ending.job).collect();
    if jobs.is_empty() {
        return Ok(());
    }
    let (first, last) = bounds(jobs.iter().copied());
    sqlx::query(
        "UPDATE attempts SET response = NULL, response_headers = NULL, response_truncated = false
         WHERE job_id = ANY ($1) AND job_id BETWEEN $2 AND $3 AND response_headers IS NOT NULL",
    )
    .bind(jobs)
    .bind(first)
    .bind(last)
    .execute(connection)
    .await?;
    Ok(())
}
