//! Reads all tables, to copy them into another store.

use futures_util::TryStreamExt;
use sqlx::AssertSqlSafe;

use crate::domain::ScheduleId;
use crate::store::Result;
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::access::{Access, call};
use crate::store::sql::encoding::values::RowId;
use crate::store::sql::error::SqlResult;
use crate::store::sql::query_as;
use crate::store::sqlite::SqliteStore;
use crate::store::transfer::copy::{
    ColumnForm, CopiedPage, CopiedRow, NextTicks, PAGE_BYTES, PAGE_ROWS, RowKey, Table, row_count,
};

impl SqliteStore {
    /// Returns the number of rows of a table.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub async fn row_count(&self, table: Table) -> Result<u64> {
        self.connections.read("row_count", call(row_count, (table,))).await
    }

    /// Returns a digest of the next ticks of all schedules.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub async fn next_ticks_in_short(&self) -> Result<NextTicks> {
        self.connections.read("next_ticks_in_short", call(NextTicks::read, ())).await
    }

    /// Returns the page of a table that follows `after`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub async fn page(&self, table: Table, after: RowKey) -> Result<CopiedPage> {
        self.connections.read("page", call(read_page, (table, after))).await
    }
}

async fn read_page(
    connection: &mut Connection<'_>,
    table: Table,
    after: RowKey,
) -> SqlResult<CopiedPage> {
    let query = query_as(AssertSqlSafe(select(table))).bind(RowId(after.id)).bind(after.number);
    let (mut found, mut rows, mut bytes) = (query.fetch(connection)?, Vec::new(), 0);
    while let Some(read) = found.try_next().await? {
        let row = row(read);
        bytes += row.columns.len();
        let until = row.key;
        rows.push(row);
        if rows.len() == PAGE_ROWS || bytes >= PAGE_BYTES {
            return Ok(CopiedPage { after, rows, until });
        }
    }
    Ok(CopiedPage { after, rows, until: RowKey::HIGHEST })
}

/// Returns a row of a page. Its arguments are the two parts of its key, its schedule, and its
/// columns.
fn row(
    (id, number, schedule, columns): (Option<RowId>, Option<i64>, Option<ScheduleId>, String),
) -> CopiedRow {
    let key = RowKey { id: id.map_or([0; 16], |RowId(id)| id), number: number.unwrap_or(0) };
    CopiedRow { key, schedule, columns }
}

/// The states of schedules, with the columns that are in this table in PostgreSQL, but in other
/// tables in SQLite.
const STATES: &str = "
    (SELECT s.id AS schedule_id, s.account_id, s.version_id, v.host_key,
            v.max_retries AS max_attempts, s.overlap_policy, st.next_tick, st.last_run_at,
            st.last_job_status, st.consecutive_failures, st.active_job_id, st.held_job_id,
            st.alert_on, st.alert_threshold, st.alert_repeat_minutes, st.alerted_at,
            st.fired_up_to
     FROM schedules AS s
     CROSS JOIN schedule_state AS st ON st.shard = s.shard AND st.schedule_id = s.id
     CROSS JOIN schedule_versions AS v ON v.id = s.version_id)";

fn select(table: Table) -> String {
    let columns = table.columns().iter().map(|(name, form)| match form {
        ColumnForm::Plain => format!("'{name}', {name}"),
        ColumnForm::Id => format!("'{name}', iif({name} IS NULL, NULL, hex({name}))"),
        ColumnForm::Bytes => format!("'{name}', '\\x' || hex({name})"),
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    let (key, after) = match (table, table.key()) {
        (Table::Skips, _) => ("NULL, id".to_owned(), "id > ?2".to_owned()),
        (_, [id, number]) => (format!("{id}, {number}"), format!("({id}, {number}) > (?1, ?2)")),
        (_, key) => (format!("{}, NULL", key[0]), format!("{} > ?1", key[0])),
    };
    let schedule = table.sharded_by().unwrap_or("NULL");
    let from = if table == Table::States { STATES } else { table.name() };
    let order = table.key().join(", ");
    format!(
        "SELECT {key}, {schedule}, json_object({columns}) FROM {from}
         WHERE {after} ORDER BY {order}"
    )
}
