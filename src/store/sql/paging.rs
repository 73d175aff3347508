//! The limits of a page of a list, in rows and bytes.

use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;

use crate::domain::job::Job;
use crate::domain::schedule::Schedule;
use crate::store::SkipPage;
use crate::store::sql::encoding::rows::ListedSkip;
use crate::store::sql::error::SqlResult;

/// The maximum to which the jobs of a list are counted.
pub(in crate::store) const JOBS_COUNTED: i64 = 10_000;

/// Returns the number of all rows of a list if its page shows it, so that they need not be counted:
/// the page ends with the last row, and begins after a number of rows. `found` is the number of
/// rows on the page, and one more if other rows follow.
pub(in crate::store) fn shown_total(
    is_after_row: bool,
    offset: u64,
    limit: u32,
    found: usize,
) -> Option<u64> {
    let found = found as u64;
    let is_last = found <= u64::from(limit) && (found > 0 || offset == 0);
    (is_last && !is_after_row).then(|| offset.saturating_add(found))
}

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
    let next = placed.last().filter(|_| has_more).map(|(position, _)| *position);
    SkipPage { skips: placed.into_iter().map(|(_, skip)| skip).collect(), next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_page_shows_the_number_of_all_rows() {
        assert_eq!(shown_total(false, 0, 2, 0), Some(0), "an empty list");
        assert_eq!(shown_total(false, 0, 2, 2), Some(2));
        assert_eq!(shown_total(false, 4, 2, 1), Some(5));
        assert_eq!(shown_total(false, 0, 2, 3), None, "another page follows");
        assert_eq!(shown_total(false, 4, 2, 0), None, "a page behind the end");
        assert_eq!(shown_total(true, 0, 2, 1), None, "the rows before it are unknown");
    }
}
