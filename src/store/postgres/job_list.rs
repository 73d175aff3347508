//! Lists of jobs.
//!
//! A list is of two tables: jobs that have not finished, of which an account has few, and those that
//! have. Of these the planner finds the index that serves a list by its filters: a schedule's jobs; an
//! account's failed or unscheduled ones; or all of an account. Partitions are read from the newest on,
//! as far as the page reaches.

use std::sync::Arc;

use futures_util::TryStreamExt;
use sqlx::{PgConnection, Postgres, QueryBuilder};

use super::values::{bounds, count as counted, key_above, key_from};
use super::{PostgresStore, Within};
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::{AccountId, JobId};
use crate::store::job_rows::{ListedJob, job_columns, run_columns, run_tables};
use crate::store::paging::{JOBS_COUNTED, cut_response, job_bytes};
use crate::store::sql::fault::Outcome;
use crate::store::vault::Vault;
use crate::store::{JobPage, JobQuery, Result};

/// Whole jobs, newest first; of a response no more characters than it may have bytes, and its
/// length.
const ROWS: &str = concat!(
    "SELECT ",
    run_columns!(),
    ", substr(a.response, 1, $4) AS response,
       coalesce(a.response_truncated, false) AS response_truncated,
       octet_length(a.response) AS response_bytes
       FROM runs AS r ",
    run_tables!(),
    " WHERE r.id = ANY ($1)
     UNION ALL
     SELECT ",
    job_columns!(),
    ", substr(j.response, 1, $4) AS response, j.response_truncated,
       octet_length(j.response) AS response_bytes
       FROM jobs AS j JOIN schedule_versions AS v ON v.id = j.version_id
       WHERE j.id = ANY ($1) AND j.id BETWEEN $2 AND $3
     ORDER BY id DESC"
);

impl PostgresStore {
    pub(super) async fn list_jobs(&self, account: AccountId, query: &JobQuery) -> Result<JobPage> {
        let (query, vault) = (Arc::new(query.clone()), self.vault.clone());
        self.api
            .run("jobs", Within::Snapshot, move |connection| {
                let (vault, query) = (vault.clone(), query.clone());
                Box::pin(async move { list(connection, &vault, account, query).await })
            })
            .await
    }
}

/// Counts and reads in one view of the store.
async fn list(
    snapshot: &mut PgConnection,
    vault: &Vault,
    account: AccountId,
    query: Arc<JobQuery>,
) -> Outcome<JobPage> {
    let total: i64 = count(account, &query).build_query_scalar().fetch_one(&mut *snapshot).await?;
    let ids: Vec<JobId> =
        page(account, &query).build_query_scalar().fetch_all(&mut *snapshot).await?;
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let wanted = &ids[..ids.len().min(limit)];
    let (first, last) = bounds(wanted.iter().copied());
    let mut rows = sqlx::query_as(ROWS)
        .bind(wanted)
        .bind(first)
        .bind(last)
        .bind(i32::try_from(query.max_response_bytes).unwrap_or(i32::MAX))
        .fetch(&mut *snapshot);
    let (mut jobs, mut bytes) = (Vec::with_capacity(wanted.len()), 0);
    while let Some(ListedJob { version, mut job, response_bytes }) = rows.try_next().await? {
        vault.open_job(account, version, &mut job);
        cut_response(&mut job, response_bytes, query.max_response_bytes);
        bytes += job_bytes(&job);
        if bytes > query.max_bytes && !jobs.is_empty() {
            break;
        }
        jobs.push(job);
    }
    let has_more = jobs.len() < ids.len();
    Ok(JobPage { jobs, total: counted(total), has_more })
}

fn count(account: AccountId, query: &JobQuery) -> QueryBuilder<Postgres> {
    let mut sql = QueryBuilder::new("SELECT count(*) FROM (");
    for (number, table) in tables(query).iter().enumerate() {
        sql.push(if number > 0 { " UNION ALL SELECT id" } else { "SELECT id" });
        push_filters(&mut sql, table, account, query);
    }
    sql.push(" LIMIT ").push_bind(JOBS_COUNTED).push(") AS counted");
    sql
}

/// The ids of the page and one more, newest first. Each table is asked for as many as the page needs
/// if all are from there.
fn page(account: AccountId, query: &JobQuery) -> QueryBuilder<Postgres> {
    let limit = i64::from(query.limit) + 1;
    let offset = i64::try_from(query.offset).unwrap_or(i64::MAX);
    let mut sql = QueryBuilder::new("SELECT id FROM (");
    for (number, table) in tables(query).iter().enumerate() {
        sql.push(if number > 0 { " UNION ALL (SELECT id" } else { "(SELECT id" });
        push_filters(&mut sql, table, account, query);
        if let Some(after) = query.after {
            sql.push(" AND id < ").push_bind(after);
        }
        sql.push(" ORDER BY id DESC LIMIT ").push_bind(limit.saturating_add(offset)).push(")");
    }
    sql.push(") AS found ORDER BY id DESC LIMIT ").push_bind(limit);
    sql.push(" OFFSET ").push_bind(offset);
    sql
}

/// The tables that have jobs of the status.
fn tables(query: &JobQuery) -> &'static [&'static str] {
    match query.status {
        Some(status) if status.is_final() => &["jobs"],
        Some(_) => &["runs"],
        None => &["runs", "jobs"],
    }
}

fn push_filters(
    sql: &mut QueryBuilder<Postgres>,
    table: &'static str,
    account: AccountId,
    query: &JobQuery,
) {
    sql.push(" FROM ").push(table).push(" WHERE account_id = ").push_bind(account);
    sql.push(" AND EXISTS (SELECT FROM accounts WHERE id = ").push_bind(account).push(")");
    if let Some(schedule) = query.schedule {
        sql.push(" AND schedule_id = ").push_bind(schedule);
    }
    match query.status {
        // In the words of the partial index, which a bound value would not match.
        Some(JobStatus::Failed) => _ = sql.push(" AND status = 3"),
        Some(status) => _ = sql.push(" AND status = ").push_bind(status),
        None => {}
    }
    if let Some(trigger) = query.trigger {
        if trigger != Trigger::Schedule {
            sql.push(" AND trigger > 0");
        }
        sql.push(" AND trigger = ").push_bind(trigger);
    }
    if let Some(from) = query.from {
        sql.push(" AND id >= ").push_bind(key_from(from));
    }
    if let Some(to) = query.to {
        sql.push(" AND id < ").push_bind(key_above(to));
    }
}
