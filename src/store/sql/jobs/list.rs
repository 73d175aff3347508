//! Lists of jobs.
//!
//! A list reads two tables: the unfinished jobs, of which an account has few, and the finished
//! ones. The filters decide which index of these fits: a schedule's jobs; an account's failed or
//! unscheduled ones; or all of an account. PostgreSQL's planner finds the index, and reads the
//! partitions from the newest on until the page is full. SQLite gets the index by name.

use sqlx::AssertSqlSafe;

use crate::domain::job::{JobStatus, Trigger};
use crate::domain::{AccountId, JobId};
use crate::store::encryption::encrypted_fields::EncryptedFields;
use crate::store::sql::batch_rows::{Of, json_ids};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::erasure::indexed;
use crate::store::sql::fault::SqlResult;
use crate::store::sql::job_rows::{ListedJob, job_columns, run_columns, run_tables};
use crate::store::sql::paging::{JOBS_COUNTED, cut_response, fill, job_bytes};
use crate::store::sql::query::Builder;
use crate::store::sql::values::{bounds, key_above, key_from};
use crate::store::{JobPage, JobQuery, sql};

/// Returns the statement that reads whole jobs, newest first. Of a response, it reads at most as
/// many characters as the response may have bytes, and its length.
pub(in crate::store) fn rows(dialect: Dialect) -> String {
    format!(
        concat!(
            "SELECT ",
            run_columns!(),
            ", substr(a.response, 1, $4) AS response,
               coalesce(a.response_truncated, false) AS response_truncated,
               octet_length(a.response) AS response_bytes
               FROM runs AS r ",
            run_tables!(),
            " WHERE {}
             UNION ALL
             SELECT ",
            job_columns!(),
            ", substr(j.response, 1, $4) AS response, j.response_truncated,
               octet_length(j.response) AS response_bytes
               FROM jobs AS j JOIN schedule_versions AS v ON v.id = j.version_id
               WHERE {} AND j.id BETWEEN $2 AND $3
             ORDER BY 1 DESC"
        ),
        dialect.among("r.id", Of::Id, "$1"),
        dialect.among("j.id", Of::Id, "$1")
    )
}

/// Counts and reads jobs on one snapshot.
pub(super) async fn list(
    connection: &mut Connection<'_>,
    encrypted_fields: &EncryptedFields,
    account: AccountId,
    query: &JobQuery,
) -> SqlResult<JobPage> {
    let dialect = connection.dialect();
    let total: i64 = count(dialect, account, query).scalar().fetch_one(connection).await?;
    let ids: Vec<JobId> = page(dialect, account, query).scalar().fetch_all(connection).await?;
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let wanted = &ids[..ids.len().min(limit)];
    let (first, last) = bounds(wanted.iter().copied());
    let rows = sql::query_as::<ListedJob>(AssertSqlSafe(rows(dialect)))
        .bind(json_ids(wanted.iter().map(|id| id.to_bytes())))
        .bind(first)
        .bind(last)
        .bind(i32::try_from(query.max_response_bytes).unwrap_or(i32::MAX));
    let open = |ListedJob { version, mut job, response_bytes }| {
        encrypted_fields.open_job(account, version, &mut job);
        cut_response(&mut job, response_bytes, query.max_response_bytes);
        let bytes = job_bytes(&job);
        (job, bytes)
    };
    let jobs = fill(rows.fetch(connection)?, query.max_bytes, open).await?;
    let has_more = jobs.len() < ids.len();
    Ok(JobPage { jobs, total: total.unsigned_abs(), has_more })
}

/// Returns the statement that counts the jobs that pass the filters, up to [`JOBS_COUNTED`].
fn count(dialect: Dialect, account: AccountId, query: &JobQuery) -> Builder {
    let mut sql = Builder::new("SELECT count(*) FROM (");
    for (number, table) in tables(query).into_iter().enumerate() {
        sql.push(if number > 0 { " UNION ALL SELECT 1" } else { "SELECT 1" });
        push_filters(&mut sql, dialect, table, account, query);
    }
    sql.push(" LIMIT ").bind(JOBS_COUNTED).push(") AS counted");
    sql
}

/// Returns the statement that reads the ids of the page and one more, newest first. If there are
/// two tables, PostgreSQL reads a full page from each; SQLite merges two indexes that have this
/// order.
pub(in crate::store) fn page(dialect: Dialect, account: AccountId, query: &JobQuery) -> Builder {
    let limit = i64::from(query.limit) + 1;
    let offset = i64::try_from(query.offset).unwrap_or(i64::MAX);
    let tables = tables(query);
    let is_limited = dialect == Dialect::Postgres && tables.len() > 1;
    let mut sql = Builder::new("");
    for (number, table) in tables.into_iter().enumerate() {
        sql.push(if number > 0 { " UNION ALL " } else { "" });
        sql.push(if is_limited { "(SELECT id" } else { "SELECT id" });
        push_filters(&mut sql, dialect, table, account, query);
        if let Some(after) = query.after {
            sql.push(" AND id < ").bind(after);
        }
        if is_limited {
            sql.push(" ORDER BY id DESC LIMIT ").bind(limit.saturating_add(offset)).push(")");
        }
    }
    sql.push(" ORDER BY id DESC LIMIT ").bind(limit).push(" OFFSET ").bind(offset);
    sql
}

/// Returns the tables that have jobs with the status, each with the index that leaves the fewest
/// rows to read.
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
    sql: &mut Builder,
    dialect: Dialect,
    (table, index): (&'static str, &'static str),
    account: AccountId,
    query: &JobQuery,
) {
    sql.push(" FROM ").push(table).push(" ").push(&dialect.indexed_by(index));
    sql.push(" WHERE account_id = ").bind(account);
    sql.push(" ").push(indexed(table));
    sql.push(" AND EXISTS (SELECT 1 FROM accounts WHERE id = ").bind(account).push(")");
    if let Some(schedule) = query.schedule {
        sql.push(" AND schedule_id = ").bind(schedule);
    }
    match query.status {
        // A literal, because the partial index does not match a parameter.
        Some(JobStatus::Failed) => _ = sql.push(" AND status = 3"),
        Some(status) => _ = sql.push(" AND status = ").bind(status),
        None => {}
    }
    if let Some(trigger) = query.trigger {
        if trigger != Trigger::Schedule {
            sql.push(" AND trigger > 0");
        }
        sql.push(" AND trigger = ").bind(trigger);
    }
    if let Some(from) = query.from {
        sql.push(" AND id >= ").bind(key_from(from));
    }
    if let Some(to) = query.to {
        sql.push(" AND id < ").bind(key_above(to));
    }
}
