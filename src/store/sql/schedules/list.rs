//! Lists of schedules.

use sqlx::AssertSqlSafe;

use crate::domain::schedule::Schedule;
use crate::domain::{AccountId, ScheduleId};
use crate::store::encryption::encrypted_fields::EncryptedFields;
use crate::store::sql::connection::query::QueryBuilder;
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::batch_rows::json_ids;
use crate::store::sql::encoding::rows::schedule_columns;
use crate::store::sql::error::SqlResult;
use crate::store::sql::paging::{fill, schedule_bytes, shown_total};
use crate::store::{SchedulePage, ScheduleQuery, ScheduleSort, SortField, SortValue, sql};

/// Returns the statement that reads whole schedules, in the order of the ids in the parameter.
pub(in crate::store) fn rows(dialect: Dialect) -> String {
    let (join, listed) = (dialect.ordered_join(), dialect.listed("$1"));
    format!(
        concat!(
            "SELECT ",
            schedule_columns!(),
            " FROM {listed}
              {join} schedules AS s ON s.id = e.id
              {join} schedule_state AS st ON st.shard = s.shard AND st.schedule_id = s.id
              {join} schedule_versions AS v ON v.id = s.version_id
              ORDER BY e.position"
        ),
        listed = listed,
        join = join
    )
}

/// Reads schedules and counts them on one snapshot. The last page shows their number.
pub(super) async fn list(
    connection: &mut Connection<'_>,
    encrypted_fields: EncryptedFields,
    account: AccountId,
    query: ScheduleQuery,
) -> SqlResult<SchedulePage> {
    let query = &query;
    let dialect = connection.dialect();
    let ids: Vec<ScheduleId> = page(dialect, account, query).scalar().fetch_all(connection).await?;
    let total = match shown_total(query.after.is_some(), query.offset, query.limit, ids.len()) {
        Some(total) => total,
        None => {
            let count = count(dialect, account, query).scalar();
            let total: i64 = count.fetch_one(connection).await?;
            total.unsigned_abs()
        }
    };
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let wanted = &ids[..ids.len().min(limit)];
    let rows = sql::query_as::<Schedule>(AssertSqlSafe(rows(dialect)));
    let rows = rows.bind(json_ids(wanted.iter().map(|id| id.to_bytes())));
    let open = |mut schedule| {
        encrypted_fields.open_schedule(account, &mut schedule);
        let bytes = schedule_bytes(&schedule);
        (schedule, bytes)
    };
    let schedules = fill(rows.fetch(connection)?, query.max_bytes, open).await?;
    let has_more = schedules.len() < ids.len();
    Ok(SchedulePage { schedules, total, has_more })
}

/// Returns the statement that counts the schedules that pass the filters.
pub(in crate::store) fn count(
    dialect: Dialect,
    account: AccountId,
    query: &ScheduleQuery,
) -> QueryBuilder {
    let mut sql = QueryBuilder::new("SELECT count(*)");
    push_tables(&mut sql, dialect, query, query.is_failing.is_some());
    push_filters(&mut sql, dialect, account, query);
    sql
}

/// Returns the statement that reads the ids of the page and one more, in the query's order. It
/// reads only ids: sorting whole rows would load all bodies of the account into memory.
pub(in crate::store) fn page(
    dialect: Dialect,
    account: AccountId,
    query: &ScheduleQuery,
) -> QueryBuilder {
    let ScheduleSort { field, descending } = query.sort;
    let (key, of_state) = match field {
        SortField::Name => ("s.name", false),
        SortField::CreatedAt => ("s.created_at", false),
        // Instants are never negative, so -1 puts absent ones first.
        SortField::NextTick => ("coalesce(st.next_tick, -1)", true),
        SortField::LastRun => ("coalesce(st.last_run_at, -1)", true),
    };
    let mut sql = QueryBuilder::new("SELECT s.id");
    push_tables(&mut sql, dialect, query, of_state || query.is_failing.is_some());
    push_filters(&mut sql, dialect, account, query);
    if let Some((value, id)) = &query.after {
        sql.push(" AND (").push(key).push(", s.id) ").push(if descending { "<" } else { ">" });
        sql.push(" (");
        match value {
            SortValue::Text(text) => sql.bind(text.clone()),
            SortValue::Time(time) => sql.bind(time.map_or(-1, |time| time.as_millis())),
        };
        sql.push(", ").bind(*id).push(")");
    }
    let direction = if descending { " DESC" } else { "" };
    sql.push(" ORDER BY ").push(key).push(direction).push(", s.id").push(direction);
    sql.push(" LIMIT ").bind(i64::from(query.limit) + 1);
    sql.push(" OFFSET ").bind(i64::try_from(query.offset).unwrap_or(i64::MAX));
    sql
}

/// Returns the statement that counts enabled schedules by their recurrence.
pub(in crate::store) fn recurrences(dialect: Dialect) -> String {
    let join = dialect.ordered_join();
    format!(
        "SELECT v.cron_expression, v.timezone, count(*) AS schedules
         FROM schedules AS s {join} schedule_versions AS v ON v.id = s.version_id
         WHERE s.account_id = $1 AND s.is_enabled = $2
           AND EXISTS (SELECT 1 FROM accounts WHERE id = $1)
         GROUP BY v.cron_expression, v.timezone
         ORDER BY schedules DESC, v.cron_expression, v.timezone
         LIMIT $3"
    )
}

/// Appends the tables that the query needs. Each further table costs one look-up per row.
fn push_tables(sql: &mut QueryBuilder, dialect: Dialect, query: &ScheduleQuery, with_state: bool) {
    let join = dialect.ordered_join();
    sql.push(" FROM schedules AS s");
    if with_state {
        sql.push(" ").push(join);
        sql.push(" schedule_state AS st ON st.shard = s.shard AND st.schedule_id = s.id");
    }
    if query.contains.is_some() || query.http_method.is_some() {
        sql.push(" ").push(join).push(" schedule_versions AS v ON v.id = s.version_id");
    }
}

fn push_filters(
    sql: &mut QueryBuilder,
    dialect: Dialect,
    account: AccountId,
    query: &ScheduleQuery,
) {
    sql.push(" WHERE s.account_id = ").bind(account);
    sql.push(" AND EXISTS (SELECT 1 FROM accounts WHERE id = ").bind(account).push(")");
    if let Some(is_enabled) = query.is_enabled {
        sql.push(" AND s.is_enabled = ").bind(is_enabled);
    }
    if let Some(method) = query.http_method {
        sql.push(" AND v.http_method = ").bind(method);
    }
    match query.is_failing {
        // The flag comes first: rows of paused schedules then need no look-up of their state.
        Some(true) => {
            sql.push(" AND s.is_enabled = ").bind(true);
            sql.push(" AND st.consecutive_failures > 0");
        }
        Some(false) => {
            sql.push(" AND (s.is_enabled = ").bind(false);
            sql.push(" OR st.consecutive_failures = 0)");
        }
        None => {}
    }
    if let Some(text) = &query.contains {
        // lower() changes ASCII only (in PostgreSQL by the columns' collation), like
        // to_ascii_lowercase. Unlike in a LIKE pattern, no character of the text is special.
        let text = text.to_ascii_lowercase();
        let columns = ["s.name", "coalesce(s.description, '')", "v.endpoint"];
        for (column, start) in columns.into_iter().zip([" AND (", " OR ", " OR "]) {
            sql.push(start).push(dialect.position()).push("(lower(").push(column).push("), ");
            sql.bind(text.clone()).push(") > 0");
        }
        sql.push(")");
    }
}
