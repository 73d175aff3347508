//! Writes the rows that are copied from a store of another kind.
//!
//! A row of `meta` records the progress: `copying` is 1 from the start of the copy on, and 0 when
//! the copy is complete. Replicas wait until then. The first of them deletes the row. From then on,
//! no copy into this store is accepted, because it would undo the replicas' changes.

use std::time::Duration;

use sqlx::types::Uuid;
use sqlx::{AssertSqlSafe, Executor, PgConnection};

use crate::store::postgres::connection::others::no_other_session;
use crate::store::postgres::history::partitions::days_of;
use crate::store::postgres::{PostgresStore, failed_in};
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::access::WorkScope;
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::sql::firing::shards::set_up;
use crate::store::transfer::copy::{CopiedPage, NextTicks, RowKey, Table, row_count};
use crate::store::{Result, StoreErrorKind};

/// The time limit of writing a page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(120);
/// The time limit of counting all rows.
const COUNT_TIMEOUT: Duration = Duration::from_secs(3_600);

impl PostgresStore {
    /// Begins a copy into this store, or continues it. `installation` is the number of the copied
    /// installation, `shards` the number of shards of this store.
    ///
    /// # Errors
    /// `Incompatible` if this store has data of its own, or another number of shards;
    /// `Unavailable` if another process uses it.
    pub async fn begin_copy(&self, installation: u32, shards: u16) -> Result<()> {
        self.api
            .run("begin_copy", WorkScope::Transaction, move |connection| {
                Box::pin(begin(connection, installation.into(), shards))
            })
            .await
    }

    /// Writes a page. Rows of this store between the page's ends that are not in the page are
    /// deleted. Returns the number of rows that were added or changed.
    ///
    /// # Errors
    /// `Rejected` if one of the rows cannot be written. Then none of the page is written.
    pub async fn put_page(&self, table: Table, page: &CopiedPage, shards: u16) -> Result<u64> {
        let failed = failed_in("put_page");
        if matches!(table, Table::Jobs | Table::Attempts) {
            let days = days_of(page.rows.iter().map(|row| row.key.job()));
            self.make_days(days).await.map_err(&failed)?;
        }
        let (rows, ends) = (page.json(shards), (page.after, page.until));
        let put =
            self.api.run_with_timeout(PAGE_TIMEOUT, WorkScope::Transaction, move |connection| {
                Box::pin(put(connection, table, rows.clone(), ends))
            });
        put.await.map_err(&failed)
    }

    /// Counts the rows of the tables and reads the next ticks. If they equal `expected` and
    /// `ticks`, the copy is complete, and replicas may use the store. Returns what was found.
    ///
    /// # Errors
    /// Returns an error if the server does not answer in time.
    pub async fn end_copy(
        &self,
        expected: &[(Table, u64)],
        ticks: NextTicks,
    ) -> Result<(Vec<u64>, NextTicks)> {
        let expected: Vec<_> = expected.to_vec();
        let end =
            self.api.run_with_timeout(COUNT_TIMEOUT, WorkScope::Transaction, move |connection| {
                Box::pin(end(connection, expected.clone(), ticks))
            });
        end.await.map_err(failed_in("end_copy"))
    }

    /// Takes the store into use. From now on, no copy into it is accepted.
    ///
    /// # Errors
    /// `Unavailable` while a copy into it is not complete.
    pub async fn take_into_use(&self) -> Result<()> {
        self.scheduler
            .run("take_into_use", WorkScope::Transaction, |connection| {
                Box::pin(async move {
                    connection.execute(LOCK).await?;
                    connection
                        .execute("DELETE FROM meta WHERE name = 'copying' AND value = 0")
                        .await?;
                    match copying(connection).await? {
                        None => Ok(()),
                        Some(_) => Err(SqlError::new(StoreErrorKind::Unavailable, UNFINISHED)),
                    }
                })
            })
            .await
    }
}

const UNFINISHED: &str =
    "a copy into it has begun but is not complete: run `punctual copy` again to finish it";
const LOCK: &str = "LOCK TABLE meta IN SHARE ROW EXCLUSIVE MODE";

async fn copying(connection: &mut PgConnection) -> SqlResult<Option<i64>> {
    let query = sqlx::query_scalar("SELECT value FROM meta WHERE name = 'copying'");
    Ok(query.fetch_optional(connection).await?)
}

async fn begin(connection: &mut PgConnection, installation: i64, shards: u16) -> SqlResult<()> {
    connection.execute(LOCK).await?;
    let refuse = |kind, why: &str| Err(SqlError::new(kind, why));
    let copying = copying(connection).await?;
    // Replicas may be connected to an unfinished copy: they only wait for its end.
    if copying != Some(1) {
        no_other_session(connection).await?;
    }
    let own: Option<i64> = sqlx::query_scalar("SELECT value FROM meta WHERE name = 'installation'")
        .fetch_optional(&mut *connection)
        .await?;
    let has_data: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM accounts) OR EXISTS (SELECT FROM schedules)
             OR EXISTS (SELECT FROM jobs) OR EXISTS (SELECT FROM runs)",
    )
    .fetch_one(&mut *connection)
    .await?;
    if has_data && own != Some(installation) {
        let why = "it has the data of another installation: use an empty database";
        return refuse(StoreErrorKind::Incompatible, why);
    }
    if has_data && copying.is_none() {
        let why = "it has been in use since it was copied: another copy would undo the \
                   changes since then";
        return refuse(StoreErrorKind::Incompatible, why);
    }
    set_up(&mut Connection::from(&mut *connection), shards).await?;
    sqlx::query(
        "INSERT INTO meta (name, value) VALUES ('installation', $1), ('copying', 1)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(installation)
    .execute(connection)
    .await?;
    Ok(())
}

async fn put(
    connection: &mut PgConnection,
    table: Table,
    rows: String,
    (after, until): (RowKey, RowKey),
) -> SqlResult<u64> {
    connection.execute("SET LOCAL statement_timeout = '2min'").await?;
    let written = sqlx::query(AssertSqlSafe(statement(table)))
        .persistent(false)
        .bind(rows)
        .bind(Uuid::from_bytes(after.id))
        .bind(after.number)
        .bind(Uuid::from_bytes(until.id))
        .bind(until.number)
        .execute(connection)
        .await?;
    Ok(written.rows_affected())
}

/// Returns the statement that writes a page. It deletes the rows between the page's ends that are
/// not in the page, and writes the rows that are missing or differ. States of deleted schedules are
/// deleted at the end of the copy instead: their key begins with the shard, so a page is not a
/// range of it.
fn statement(table: Table) -> String {
    let name = table.name();
    let shard = table.sharded_by().map(|_| "shard");
    let columns: Vec<&str> =
        shard.into_iter().chain(table.columns().iter().map(|(column, _)| *column)).collect();
    let mut key = table.key().to_vec();
    if table == Table::States {
        key.insert(0, "shard");
    }
    let others: Vec<&str> = columns.iter().copied().filter(|one| !key.contains(one)).collect();
    let list = |columns: &[&str], prefix: &str| {
        columns.iter().map(|one| format!("{prefix}{one}")).collect::<Vec<_>>().join(", ")
    };
    let set = others.iter().map(|one| format!("{one} = excluded.{one}")).collect::<Vec<_>>();
    let between = match (table, table.key()) {
        (Table::States, _) => "false".to_owned(),
        (Table::Skips, _) => "t.id > $3 AND t.id <= $5".to_owned(),
        (_, [id, number]) => {
            format!("(t.{id}, t.{number}) > ($2, $3) AND (t.{id}, t.{number}) <= ($4, $5)")
        }
        (_, key) => format!("t.{id} > $2 AND t.{id} <= $4", id = key[0]),
    };
    let same = key.iter().map(|one| format!("n.{one} = t.{one}")).collect::<Vec<_>>();
    format!(
        "WITH incoming AS MATERIALIZED (SELECT * FROM json_populate_recordset(NULL::{name}, $1::json)),
         gone AS (
             DELETE FROM {name} AS t
             WHERE {between} AND NOT EXISTS (SELECT FROM incoming AS n WHERE {same}))
         INSERT INTO {name} AS held ({into}) OVERRIDING SYSTEM VALUE SELECT {into} FROM incoming
         ON CONFLICT ({key}) DO UPDATE SET {set}
         WHERE ({old}) IS DISTINCT FROM ({excluded})",
        same = same.join(" AND "),
        into = list(&columns, ""),
        key = key.join(", "),
        set = set.join(", "),
        old = list(&others, "held."),
        excluded = list(&others, "excluded."),
    )
}

async fn end(
    connection: &mut PgConnection,
    expected: Vec<(Table, u64)>,
    ticks: NextTicks,
) -> SqlResult<(Vec<u64>, NextTicks)> {
    connection.execute("SET LOCAL statement_timeout = 0").await?;
    connection
        .execute(
            "DELETE FROM schedule_state AS st
             WHERE NOT EXISTS (SELECT FROM schedules AS s WHERE s.id = st.schedule_id)",
        )
        .await?;
    // The skips were copied with their numbers. The store numbers new skips itself, so its sequence
    // must continue after them.
    connection
        .execute(
            "SELECT setval(pg_get_serial_sequence('skips', 'id'),
                           (SELECT coalesce(max(id), 0) + 1 FROM skips), false)",
        )
        .await?;
    let mut counts = Vec::with_capacity(expected.len());
    for (table, _) in &expected {
        counts.push(row_count(&mut Connection::from(&mut *connection), *table).await?);
    }
    let arrived = NextTicks::read(&mut Connection::from(&mut *connection)).await?;
    let all_there = expected.iter().map(|(_, rows)| *rows).eq(counts.iter().copied());
    if all_there && arrived == ticks {
        connection.execute("UPDATE meta SET value = 0 WHERE name = 'copying'").await?;
    }
    Ok((counts, arrived))
}
