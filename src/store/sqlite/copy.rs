//! Reading everything, to copy it into another store.

use futures_util::TryStreamExt;
use sqlx::AssertSqlSafe;

use super::{SqliteStore, failed_in};
use crate::domain::ScheduleId;
use crate::store::copy::{Form, NextTicks, PAGE_BYTES, PAGE_ROWS, Page, Row, RowKey, Table};
use crate::store::sql::fault::{Fault, Outcome};
use crate::store::{Result, StoreErrorKind};

/// A row of a page: the parts of its key, its schedule, and its columns.
type Read = (Option<Vec<u8>>, Option<i64>, Option<Vec<u8>>, String);

impl SqliteStore {
    /// How many rows a table has.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn row_count(&self, table: Table) -> Result<u64> {
        let query = format!("SELECT count(*) FROM {}", table.name());
        let query = sqlx::query_as(AssertSqlSafe(query));
        let (count,): (i64,) =
            self.connections.readers.one(query).await.map_err(failed_in("row_count"))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// When its schedules are due next.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn next_ticks_in_short(&self) -> Result<NextTicks> {
        self.read_next_ticks().await.map_err(failed_in("next_ticks_in_short"))
    }

    async fn read_next_ticks(&self) -> Outcome<NextTicks> {
        let mut reader = self.connections.readers.take().await?;
        let ticks = NextTicks::of(sqlx::query_as(NextTicks::QUERY).fetch(&mut *reader)).await;
        reader.done(ticks.map_err(Fault::from))
    }

    /// The next rows of a table.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn page(&self, table: Table, after: RowKey) -> Result<Page> {
        self.read_page(table, after).await.map_err(failed_in("page"))
    }

    async fn read_page(&self, table: Table, after: RowKey) -> Outcome<Page> {
        let mut reader = self.connections.readers.take().await?;
        let outcome = async {
            let query = sqlx::query_as::<_, Read>(AssertSqlSafe(select(table)));
            let mut found = query.bind(after.id.to_vec()).bind(after.number).fetch(&mut *reader);
            let (mut rows, mut bytes) = (Vec::new(), 0);
            while let Some(read) = found.try_next().await? {
                let row = row(read)?;
                bytes += row.columns.len();
                rows.push(row);
                if rows.len() == PAGE_ROWS || bytes >= PAGE_BYTES {
                    let until = rows.last().map_or(RowKey::HIGHEST, |row| row.key);
                    return Ok(Page { after, rows, until });
                }
            }
            Ok(Page { after, rows, until: RowKey::HIGHEST })
        };
        let outcome = outcome.await;
        reader.done(outcome)
    }
}

fn row((id, number, schedule, columns): Read) -> Outcome<Row> {
    let sixteen = |bytes: Vec<u8>| {
        let damaged = |_| Fault::new(StoreErrorKind::Corrupt, "an id that is not 16 bytes long");
        <[u8; 16]>::try_from(bytes).map_err(damaged)
    };
    let id = id.map_or(Ok([0; 16]), sixteen)?;
    let key = RowKey { id, number: number.unwrap_or(0) };
    let schedule = schedule.map(sixteen).transpose()?.map(ScheduleId::from_bytes);
    Ok(Row { key, schedule, columns })
}

/// What the store of a cluster keeps of a schedule in its state is found where it is kept here.
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
        Form::Plain => format!("'{name}', {name}"),
        Form::Id => format!("'{name}', iif({name} IS NULL, NULL, hex({name}))"),
        Form::Bytes => format!("'{name}', '\\x' || hex({name})"),
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
