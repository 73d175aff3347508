//! Lists of schedules.

use futures_util::TryStreamExt;
use sqlx::{Connection, QueryBuilder, Sqlite, SqliteConnection};

use super::SqliteStore;
use super::values::json_ids;
use crate::domain::schedule::Schedule;
use crate::domain::{AccountId, ScheduleId};
use crate::store::paging::schedule_bytes;
use crate::store::rows::schedule_columns;
use crate::store::sql::fault::Outcome;
use crate::store::vault::Vault;
use crate::store::{SchedulePage, ScheduleQuery, ScheduleSort, SortField, SortValue};

/// Whole schedules, in the order of their ids in the parameter.
pub(super) const ROWS: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM json_each(?1) AS e CROSS JOIN schedules AS s CROSS JOIN schedule_state AS st
      CROSS JOIN schedule_versions AS v
      WHERE s.id = unhex(e.value) AND st.shard = s.shard AND st.schedule_id = s.id
        AND v.id = s.version_id
      ORDER BY e.rowid"
);

impl SqliteStore {
    pub(super) async fn list_schedules(
        &self,
        account: AccountId,
        query: &ScheduleQuery,
    ) -> Outcome<SchedulePage> {
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
    query: &ScheduleQuery,
) -> Outcome<SchedulePage> {
    let mut snapshot = connection.begin().await?;
    let total: i64 = count(account, query).build_query_scalar().fetch_one(&mut *snapshot).await?;
    let ids: Vec<ScheduleId> =
        page(account, query).build_query_scalar().fetch_all(&mut *snapshot).await?;
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let wanted = &ids[..ids.len().min(limit)];
    let mut rows = sqlx::query_as::<_, Schedule>(ROWS).bind(json_ids(wanted)).fetch(&mut *snapshot);
    let (mut schedules, mut bytes) = (Vec::with_capacity(wanted.len()), 0);
    while let Some(mut schedule) = rows.try_next().await? {
        vault.open_schedule(account, &mut schedule);
        bytes += schedule_bytes(&schedule);
        if bytes > query.max_bytes && !schedules.is_empty() {
            break;
        }
        schedules.push(schedule);
    }
    let has_more = schedules.len() < ids.len();
    Ok(SchedulePage { schedules, total: u64::try_from(total).unwrap_or(0), has_more })
}

/// Counts what the filters let through.
pub(super) fn count(account: AccountId, query: &ScheduleQuery) -> QueryBuilder<Sqlite> {
    let mut sql = QueryBuilder::new("SELECT count(*)");
    push_tables(&mut sql, query, false);
    push_filters(&mut sql, account, query);
    sql
}

/// The ids of the page and one more, in its order. Only ids: sorting whole rows would hold all
/// bodies of the account in memory.
pub(super) fn page(account: AccountId, query: &ScheduleQuery) -> QueryBuilder<Sqlite> {
    let ScheduleSort { field, descending } = query.sort;
    let (key, of_state) = match field {
        SortField::Name => ("s.name", false),
        SortField::CreatedAt => ("s.created_at", false),
        // No instant is negative: absent ones come first.
        SortField::NextTick => ("coalesce(st.next_tick, -1)", true),
        SortField::LastRun => ("coalesce(st.last_run_at, -1)", true),
    };
    let mut sql = QueryBuilder::new("SELECT s.id");
    push_tables(&mut sql, query, of_state);
    push_filters(&mut sql, account, query);
    if let Some((value, id)) = &query.after {
        sql.push(" AND (").push(key).push(", s.id) ").push(if descending { "<" } else { ">" });
        sql.push(" (");
        match value {
            SortValue::Text(text) => sql.push_bind(text.clone()),
            SortValue::Time(time) => sql.push_bind(time.map_or(-1, |time| time.as_millis())),
        };
        sql.push(", ").push_bind(*id).push(")");
    }
    let direction = if descending { " DESC" } else { "" };
    sql.push(" ORDER BY ").push(key).push(direction).push(", s.id").push(direction);
    sql.push(" LIMIT ").push_bind(i64::from(query.limit) + 1);
    sql.push(" OFFSET ").push_bind(i64::try_from(query.offset).unwrap_or(i64::MAX));
    sql
}

/// Names the tables that are looked at; each more costs a look-up a row.
fn push_tables(sql: &mut QueryBuilder<Sqlite>, query: &ScheduleQuery, with_state: bool) {
    sql.push(" FROM schedules AS s");
    if with_state {
        sql.push(
            " CROSS JOIN schedule_state AS st ON st.shard = s.shard AND st.schedule_id = s.id",
        );
    }
    if query.contains.is_some() || query.http_method.is_some() {
        sql.push(" CROSS JOIN schedule_versions AS v ON v.id = s.version_id");
    }
}

fn push_filters(sql: &mut QueryBuilder<Sqlite>, account: AccountId, query: &ScheduleQuery) {
    sql.push(" WHERE s.account_id = ").push_bind(account);
    sql.push(" AND EXISTS (SELECT 1 FROM accounts WHERE id = ").push_bind(account).push(")");
    if let Some(is_enabled) = query.is_enabled {
        sql.push(" AND s.is_enabled = ").push_bind(is_enabled);
    }
    if let Some(method) = query.http_method {
        sql.push(" AND v.http_method = ").push_bind(method);
    }
    if let Some(text) = &query.contains {
        // SQLite's lower() knows ASCII only, as does this one. No character has a meaning of its
        // own, as it would in a LIKE pattern.
        let text = text.to_ascii_lowercase();
        sql.push(" AND (instr(lower(s.name), ").push_bind(text.clone());
        sql.push(") > 0 OR instr(lower(coalesce(s.description, '')), ").push_bind(text.clone());
        sql.push(") > 0 OR instr(lower(v.endpoint), ").push_bind(text).push(") > 0)");
    }
}
