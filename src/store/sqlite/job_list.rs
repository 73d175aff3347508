//! Lists of jobs.
//!
//! A list is of two tables: jobs that have not finished, of which an account has few, and those that
//! have. Which index of these serves it follows from its filters: a schedule's jobs; an account's failed
//! or unscheduled ones; or all of an account. None reads the jobs of other accounts.

use futures_util::TryStreamExt;
use sqlx::{Connection, QueryBuilder, Sqlite, SqliteConnection};

use super::SqliteStore;
use super::values::{json_ids, key_above, key_from};
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::{AccountId, JobId};
use crate::store::job_rows::{ListedJob, job_columns, run_columns, run_tables};
use crate::store::paging::{JOBS_COUNTED, cut_response, job_bytes};
use crate::store::sql::fault::Outcome;
use crate::store::vault::Vault;
use crate::store::{JobPage, JobQuery};

/// Whole jobs, newest first; of a response no more characters than it may have bytes, and its length.
pub(super) const ROWS: &str = concat!(
    "SELECT ",
    run_columns!(),
    ", substr(a.response, 1, ?2) AS response,
       coalesce(a.response_truncated, 0) AS response_truncated,
       octet_length(a.response) AS response_bytes
       FROM json_each(?1) AS e CROSS JOIN runs AS r ",
    run_tables!(),
    " WHERE r.id = unhex(e.value)
     UNION ALL
     SELECT ",
    job_columns!(),
    ", substr(j.response, 1, ?2) AS response, j.response_truncated,
       octet_length(j.response) AS response_bytes
       FROM json_each(?1) AS e CROSS JOIN jobs AS j CROSS JOIN schedule_versions AS v
       WHERE j.id = unhex(e.value) AND v.id = j.version_id
     ORDER BY 1 DESC"
);

impl SqliteStore {
    pub(super) async fn list_jobs(&self, account: AccountId, query: &JobQuery) -> Outcome<JobPage> {
        let mut reader = self.connections.readers.take().await?;
        let outcome = list(&mut reader, &self.vault, account, query).await;
        reader.done(outcome)
    }
}

/// Counts and reads in one view of the store.
async fn list(
    connection: &mut SqliteConnection,
    vault: &Vault,
    account: AccountId,
    query: &JobQuery,
) -> Outcome<JobPage> {
    let mut snapshot = connection.begin().await?;
    let total: i64 = count(account, query).build_query_scalar().fetch_one(&mut *snapshot).await?;
    let ids: Vec<JobId> =
        page(account, query).build_query_scalar().fetch_all(&mut *snapshot).await?;
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let wanted = &ids[..ids.len().min(limit)];
    let mut rows = sqlx::query_as(ROWS)
        .bind(json_ids(wanted))
        .bind(i64::try_from(query.max_response_bytes).unwrap_or(i64::MAX))
        .fetch(&mut *snapshot);
    let (mut jobs, mut bytes) = (Vec::with_capacity(wanted.len()), 0);
    while let Some(listed) = rows.try_next().await? {
        let ListedJob { version, mut job, response_bytes } = listed;
        vault.open_job(account, version, &mut job);
        cut_response(&mut job, response_bytes, query.max_response_bytes);
        bytes += job_bytes(&job);
        if bytes > query.max_bytes && !jobs.is_empty() {
            break;
        }
        jobs.push(job);
    }
    let has_more = jobs.len() < ids.len();
    Ok(JobPage { jobs, total: u64::try_from(total).unwrap_or(0), has_more })
}

pub(super) fn count(account: AccountId, query: &JobQuery) -> QueryBuilder<Sqlite> {
    let mut sql = QueryBuilder::new("SELECT count(*) FROM (");
    for (number, (table, index)) in tables(query).into_iter().enumerate() {
        sql.push(if number > 0 { " UNION ALL SELECT 1" } else { "SELECT 1" });
        push_filters(&mut sql, (table, index), account, query);
    }
    sql.push(" LIMIT ").push_bind(JOBS_COUNTED).push(")");
    sql
}

/// The ids of the page and one more, newest first.
pub(super) fn page(account: AccountId, query: &JobQuery) -> QueryBuilder<Sqlite> {
    let mut sql = QueryBuilder::new("");
    for (number, (table, index)) in tables(query).into_iter().enumerate() {
        sql.push(if number > 0 { " UNION ALL SELECT id" } else { "SELECT id" });
        push_filters(&mut sql, (table, index), account, query);
        if let Some(after) = query.after {
            sql.push(" AND id < ").push_bind(after);
        }
    }
    sql.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(query.limit) + 1);
    sql.push(" OFFSET ").push_bind(i64::try_from(query.offset).unwrap_or(i64::MAX));
    sql
}

/// The tables that have jobs of the status, and the index of each that leaves the fewest rows to be
/// looked at.
fn tables(query: &JobQuery) -> Vec<(&'static str, &'static str)> {
    let ended = match (query.status, query.schedule, query.trigger) {
        (_, Some(_), _) => "jobs_schedule",
        (_, _, Some(Trigger::Manual | Trigger::CatchUp | Trigger::Retry)) => "jobs_unscheduled",
        (Some(JobStatus::Failed), ..) => "jobs_failed",
        _ => "jobs_account",
    };
    let (unfinished, ended) = (("runs", "runs_account"), ("jobs", ended));
    match query.status {
        Some(status) if status.is_final() => vec![ended],
        Some(_) => vec![unfinished],
        None => vec![unfinished, ended],
    }
}

fn push_filters(
    sql: &mut QueryBuilder<Sqlite>,
    (table, index): (&'static str, &'static str),
    account: AccountId,
    query: &JobQuery,
) {
    sql.push(" FROM ").push(table).push(" INDEXED BY ").push(index);
    sql.push(" WHERE account_id = ").push_bind(account);
    sql.push(" AND EXISTS (SELECT 1 FROM accounts WHERE id = ").push_bind(account).push(")");
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
