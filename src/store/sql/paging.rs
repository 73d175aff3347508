//! The limits of a page of a list, in rows and bytes.

use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;

use super::fault::SqlResult;
use super::rows::ListedSkip;
use crate::domain::job::Job;
use crate::domain::schedule::Schedule;
use crate::store::SkipPage;

/// The maximum to which the jobs of a list are counted.
pub(in crate::store) const JOBS_COUNTED: i64 = 10_000;

/// Reads the rows of a page until their total size exceeds `max_bytes`. The first row is always on
/// the page. `read` returns the item of a row and its size in bytes.
pub(in crate::store) async fn fill<R, T>(
    mut rows: BoxStream<'_, sqlx::Result<R>>,
    max_bytes: usize,
    mut read: impl FnMut(R) -> (T, usize),
) -> SqlResult<Vec<T>> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.try_next().await? {
        let (item, size) = read(row);
        bytes += size;
        if bytes > max_bytes && !page.is_empty() {
            break;
        }
        page.push(item);
    }
    Ok(page)
}

/// Cuts a response at a character boundary, to at most `max_bytes` bytes. `stored_bytes` is the
/// size of the whole response, of which `job` may hold only the first `max_bytes` characters.
pub(in crate::store) fn cut_response(job: &mut Job, stored_bytes: u64, max_bytes: usize) {
    if let Some(response) = &mut job.response
        && usize::try_from(stored_bytes).unwrap_or(usize::MAX) > max_bytes
    {
        response.truncate(response.floor_char_boundary(max_bytes));
        job.response_truncated = true;
    }
}

/// Returns the size of a job on a page, in bytes.
pub(in crate::store) fn job_bytes(job: &Job) -> usize {
    let optional =
        [&job.body, &job.headers, &job.response, &job.response_headers, &job.error_message];
    job.endpoint.len() + optional.into_iter().flatten().map(String::len).sum::<usize>()
}

/// Returns the size of a schedule on a page, in bytes.
pub(in crate::store) fn schedule_bytes(schedule: &Schedule) -> usize {
    let definition = &schedule.definition;
    let optional = [
        &schedule.description,
        &definition.body,
        &definition.headers,
        &definition.expected_status_codes,
    ];
    schedule.name.len()
        + definition.cron_expression.len()
        + definition.timezone.len()
        + definition.endpoint.len()
        + optional.into_iter().flatten().map(String::len).sum::<usize>()
}

/// Returns the page of the first `limit` skips. `rows` has one skip more if another page follows.
pub(in crate::store) fn skip_page(mut rows: Vec<ListedSkip>, limit: u32) -> SkipPage {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let placed: Vec<_> = rows.into_iter().map(ListedSkip::placed).collect();
    let next = placed.last().filter(|_| has_more).map(|(place, _)| *place);
    SkipPage { skips: placed.into_iter().map(|(_, skip)| skip).collect(), next }
}
