//! Reads the content of claimed deliveries, in the transaction of the claim.

use std::collections::HashMap;

use sqlx::AssertSqlSafe;

use super::claimed::{DigestContent, DueDelivery, JobContent, SealedDelivery};
use super::plan::NAMES;
use crate::domain::alert::AlertKind;
use crate::domain::{AccountId, DeliveryId, JobId, Timestamp};
use crate::store::corrupt_rows::{CorruptRows, ReadableRow};
use crate::store::sql;
use crate::store::sql::connection::Connection;
use crate::store::sql::encoding::batch_rows::{ColumnType, json_ids};
use crate::store::sql::error::SqlResult;
use crate::store::sql::jobs::rows::job_columns;

/// Returns these deliveries with their content. Those whose channel was deleted are left out.
pub(in crate::store) async fn contents(
    connection: &mut Connection<'_>,
    taken: Vec<DueDelivery>,
    now: Timestamp,
    corrupt_rows: &CorruptRows,
) -> SqlResult<Vec<SealedDelivery>> {
    let jobs = corrupt_rows.leave_out("jobs", jobs(connection, &taken).await?);
    let jobs: HashMap<JobId, JobContent> =
        jobs.into_iter().map(|content| (content.job.id, content)).collect();
    let mut sealed = Vec::with_capacity(taken.len());
    for mut due in taken {
        let Some((channel_type, config, _)) = due.to.take() else { continue };
        if due.kind == AlertKind::Digest && due.content.is_none() {
            due.content = Some(digest(connection, due.account, due.id).await?);
        }
        let job = due.job.and_then(|job| jobs.get(&job).cloned());
        sealed.push(SealedDelivery { due, channel_type, config, job, now });
    }
    Ok(sealed)
}

/// Reads the jobs of deliveries. The first 4,096 characters of a response are more than an alert
/// shows and less than a job keeps.
const JOBS: &str = concat!(
    "SELECT ",
    job_columns!(),
    ", substr(j.response, 1, 4096) AS response,
       j.response_truncated OR coalesce(length(j.response), 0) > 4096 AS response_truncated,
       v.cron_expression, v.timezone, v.max_retries, v.timeout_seconds, v.expected_status_codes,
       v.sign_requests
     FROM jobs AS j JOIN schedule_versions AS v ON v.id = j.version_id
     WHERE j.id BETWEEN $2 AND $3 AND "
);

/// Returns the jobs that the deliveries report, without the bodies of their requests.
async fn jobs(
    connection: &mut Connection<'_>,
    taken: &[DueDelivery],
) -> SqlResult<Vec<ReadableRow<JobId, JobContent>>> {
    let mut jobs: Vec<JobId> = taken.iter().filter_map(|delivery| delivery.job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let (Some(first), Some(last)) = (jobs.first().copied(), jobs.last().copied()) else {
        return Ok(Vec::new());
    };
    let query = format!(
        "{}{}",
        JOBS.replace("v.body", "NULL AS body"),
        connection.dialect().among("j.id", ColumnType::Id, "$1")
    );
    let query = sql::query_as(AssertSqlSafe(query))
        .bind(json_ids(jobs.iter().map(|id| id.to_bytes())))
        .bind(first)
        .bind(last);
    query.fetch_all(connection).await
}

/// Counts the alerts that were merged into a digest, and stores the result as its content, so that
/// each try sends the same text.
async fn digest(
    connection: &mut Connection<'_>,
    account: AccountId,
    id: DeliveryId,
) -> SqlResult<String> {
    let counts: Vec<(String, i64, Timestamp, Timestamp)> = sql::query_as(
        "SELECT type, count(*), min(at), max(at) FROM notification_deliveries
         WHERE merged_into = $1 AND account_id = $2 GROUP BY type ORDER BY 2 DESC, 1",
    )
    .bind(id)
    .bind(account)
    .fetch_all(&mut *connection)
    .await?;
    let names: Vec<String> = sql::query_scalar(
        "SELECT schedule_name FROM notification_deliveries
         WHERE merged_into = $1 AND account_id = $2 AND schedule_name IS NOT NULL
         GROUP BY schedule_name ORDER BY min(at), schedule_name LIMIT $3",
    )
    .bind(id)
    .bind(account)
    .bind(i64::try_from(NAMES).unwrap_or(i64::MAX))
    .fetch_all(&mut *connection)
    .await?;
    let times = || counts.iter().map(|(.., first, last)| (first.as_millis(), last.as_millis()));
    let content = DigestContent {
        since: times().map(|(first, _)| first).min().unwrap_or(0),
        until: times().map(|(_, last)| last).max().unwrap_or(0),
        counts: counts
            .into_iter()
            .map(|(kind, count, ..)| (kind, u32::try_from(count).unwrap_or(u32::MAX)))
            .collect(),
        names,
    };
    let content = serde_json::to_string(&content).expect("numbers and texts have a JSON form");
    sql::query("UPDATE notification_deliveries SET content = $3 WHERE id = $1 AND account_id = $2")
        .bind(id)
        .bind(account)
        .bind(content.clone())
        .execute(connection)
        .await?;
    Ok(content)
}
