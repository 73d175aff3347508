//! Lists of jobs.
//!
//! Which index serves a list follows from its filters: a schedule's jobs; an account's unfinished,
//! failed or unscheduled ones; or all of an account. None reads the jobs of other accounts, but
//! that of the unfinished ones, which are few.

use futures_util::TryStreamExt;
use sqlx::{Connection, QueryBuilder, Sqlite, SqliteConnection};

use super::SqliteStore;
use super::error::Outcome;
use super::values::{json_ids, key_above, key_from};
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::{AccountId, JobId};
use crate::store::paging::{JOBS_COUNTED, cut_response, job_bytes};
use crate::store::rows::{ListedJob, job_columns};
use crate::store::vault::Vault;
use crate::store::{JobPage, JobQuery};

/// Whole jobs, in the order of their ids in the parameter; of a response no more characters than
/// it may have bytes, and its length.
pub(super) const ROWS: &str = concat!(
    "SELECT ",
    job_columns!(),
    ", substr(j.response, 1, ?2) AS response, j.response_truncated,
       octet_length(j.response) AS response_bytes
       FROM json_each(?1) AS e CROSS JOIN jobs AS j CROSS JOIN schedule_versions AS v
       WHERE j.id = unhex(e.value) AND v.id = j.version_id
       ORDER BY e.rowid"
);

impl SqliteStore {
    pub(super) async fn list_jobs(&self, account: AccountId, query: &JobQuery) -> Outcome<JobPage> {
        let mut reader = self.readers.take().await?;
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
    let mut sql = QueryBuilder::new("SELECT count(*) FROM (SELECT 1");
    push_filters(&mut sql, account, query);
    sql.push(" LIMIT ").push_bind(JOBS_COUNTED).push(")");
    sql
}

/// The ids of the page and one more, newest first.
pub(super) fn page(account: AccountId, query: &JobQuery) -> QueryBuilder<Sqlite> {
    let mut sql = QueryBuilder::new("SELECT id");
    push_filters(&mut sql, account, query);
    if let Some(after) = query.after {
        sql.push(" AND id < ").push_bind(after);
    }
    sql.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(query.limit) + 1);
    sql.push(" OFFSET ").push_bind(i64::try_from(query.offset).unwrap_or(i64::MAX));
    sql
}

fn push_filters(sql: &mut QueryBuilder<Sqlite>, account: AccountId, query: &JobQuery) {
    sql.push(" FROM jobs INDEXED BY ").push(index(query));
    sql.push(" WHERE account_id = ").push_bind(account);
    sql.push(" AND EXISTS (SELECT 1 FROM accounts WHERE id = ").push_bind(account).push(")");
    if let Some(schedule) = query.schedule {
        sql.push(" AND schedule_id = ").push_bind(schedule);
    }
    match query.status {
        // In the words of the partial indexes, which a bound value would not match.
        Some(JobStatus::Pending) => _ = sql.push(" AND status < 2 AND status = 0"),
        Some(JobStatus::Running) => _ = sql.push(" AND status < 2 AND status = 1"),
        Some(JobStatus::Success) => _ = sql.push(" AND status = 2"),
        Some(JobStatus::Failed) => _ = sql.push(" AND status = 3"),
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

/// The index that leaves the fewest rows to be looked at.
fn index(query: &JobQuery) -> &'static str {
    match (query.status, query.schedule, query.trigger) {
        (Some(JobStatus::Pending | JobStatus::Running), ..) => "jobs_unfinished",
        (_, Some(_), _) => "jobs_schedule",
        (_, _, Some(Trigger::Manual | Trigger::CatchUp | Trigger::Retry)) => "jobs_unscheduled",
        (Some(JobStatus::Failed), ..) => "jobs_failed",
        _ => "jobs_account",
    }
}
