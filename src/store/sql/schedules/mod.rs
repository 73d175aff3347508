//! Schedules: creating, reading, changing and deleting them for users.

mod change;
pub(in crate::store) mod list;
pub(in crate::store) mod skips;
pub(in crate::store) mod versions;

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::AssertSqlSafe;

use crate::domain::audit::Action;
use crate::domain::schedule::Schedule;
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, ScheduleId, Timestamp, VersionId};
use crate::store::contract::schedules::next_tick;
use crate::store::sql::account_lock::{admit, admit_more};
use crate::store::sql::audit;
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::batch_rows::{batch_row, json};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::encoding::rows::schedule_columns;
use crate::store::sql::error::SqlResult;
use crate::store::sql::jobs::end_jobs_of;
use crate::store::sql::notifications::clear_preferences;
use crate::store::sql::paging::skip_page;
use crate::store::{
    CreationResult, NewSchedule, NewVersion, RecurrenceCount, Result, ScheduleChangeResult,
    SchedulePage, ScheduleQuery, ScheduleState, ScheduleStore, SkipPage, SkipQuery, VersionPage,
    WriteContext, sql,
};
use versions::{insert_versions, retire_version};

#[async_trait]
impl<D: Database> ScheduleStore for D {
    async fn create_schedules(
        &self,
        write: &WriteContext,
        schedules: &[NewSchedule],
        most: Option<u64>,
    ) -> Result<CreationResult> {
        let (write, count) = (*write, schedules.len());
        let seal = |new: &NewSchedule| self.encrypted_fields().seal(write.account, &new.version);
        let versions: Vec<NewVersion> = schedules.iter().map(seal).collect();
        let ids: Arc<[ScheduleId]> = schedules.iter().map(|new| new.id).collect();
        let versions = insert_versions(D::DIALECT, write, ids.iter().copied().zip(&versions));
        let [schedules, states] = insert_schedules(D::DIALECT, write, schedules);
        let created = self.api().batch("create_schedules", count, move |connection| {
            let (ids, inserts) = (ids.clone(), [&versions, &schedules, &states].map(Clone::clone));
            Box::pin(async move {
                if let Some(current) =
                    admit_more(connection, write.account, "schedules", ids.len(), most).await?
                {
                    return Ok(CreationResult::TooMany { current });
                }
                for insert in inserts {
                    insert.execute(connection).await?;
                }
                audit::record(connection, write, Action::ScheduleCreated, ids.iter()).await?;
                Ok(CreationResult::All)
            })
        });
        created.await
    }

    async fn schedule(&self, account: AccountId, id: ScheduleId) -> Result<Option<Schedule>> {
        let query = sql::query_as(ROW).bind(id).bind(account);
        let mut found: Option<Schedule> = self.api().optional("schedule", query).await?;
        found
            .iter_mut()
            .for_each(|schedule| self.encrypted_fields().open_schedule(account, schedule));
        Ok(found)
    }

    async fn schedules(&self, account: AccountId, query: &ScheduleQuery) -> Result<SchedulePage> {
        let wanted = (self.encrypted_fields().clone(), account, query.clone());
        self.api().snapshot("schedules", call(list::list, wanted)).await
    }

    async fn schedule_versions(
        &self,
        account: AccountId,
        id: ScheduleId,
        from: Option<VersionId>,
        limit: u32,
    ) -> Result<VersionPage> {
        let read = call(versions::of_schedule, (account, id, from, limit));
        let mut page = self.api().snapshot("schedule_versions", read).await?;
        for found in &mut page.versions {
            self.encrypted_fields().open_version(account, &mut found.version);
        }
        Ok(page)
    }

    async fn recurrences(&self, account: AccountId, limit: u32) -> Result<Vec<RecurrenceCount>> {
        let count = sql::query_as(AssertSqlSafe(list::recurrences(D::DIALECT)));
        let count = count.bind(account).bind(true).bind(i64::from(limit));
        self.api().all("recurrences", count).await
    }

    async fn change_schedule(
        &self,
        write: &WriteContext,
        id: ScheduleId,
        change: &ScheduleState,
    ) -> Result<ScheduleChangeResult> {
        let (write, mut change) = (*write, change.clone());
        change.version =
            change.version.map(|version| self.encrypted_fields().seal(write.account, &version));
        let change = call(change::change, (write, id, Arc::new(change)));
        self.api().transaction("change_schedule", change).await
    }

    async fn delete_schedule(&self, write: &WriteContext, id: ScheduleId) -> Result<bool> {
        self.history_transaction("delete_schedule", call(delete, (*write, id))).await
    }

    async fn skips(
        &self,
        account: AccountId,
        id: ScheduleId,
        query: &SkipQuery,
    ) -> Result<SkipPage> {
        let rows = self.api().all("skips", skips::listed(account, id, query)).await?;
        Ok(skip_page(rows, query.limit))
    }
}

const ROW: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM schedules AS s
      JOIN schedule_state AS st ON st.shard = s.shard AND st.schedule_id = s.id
      JOIN schedule_versions AS v ON v.id = s.version_id
      WHERE s.id = $1 AND s.account_id = $2
        AND EXISTS (SELECT 1 FROM accounts WHERE id = $2)"
);

batch_row! {
    /// A row of `schedules` and its row of `schedule_state`.
    ScheduleRow<'n> {
        id: Hex,
        shard: u16,
        version_id: Hex,
        name: &'n str,
        description: Option<&'n str>,
        is_enabled: bool,
        overlap_policy: &'n str,
        catch_up_policy: &'n str,
        next_tick: Option<i64>,
        host_key: i64,
        max_attempts: u8,
    }
}

impl<'n> From<&'n NewSchedule> for ScheduleRow<'n> {
    fn from(new: &'n NewSchedule) -> Self {
        Self {
            id: Hex(new.id.to_bytes()),
            shard: new.shard.0,
            version_id: Hex(new.version.id.to_bytes()),
            name: &new.name,
            description: new.description.as_deref(),
            is_enabled: new.is_enabled,
            overlap_policy: new.overlap_policy.as_str(),
            catch_up_policy: new.catch_up_policy.as_str(),
            next_tick: next_tick(new.is_enabled, new.next_tick).map(Timestamp::as_millis),
            host_key: new.version.host.0.cast_signed(),
            max_attempts: new.version.definition.max_retries,
        }
    }
}

/// Returns the statements that store schedules of one account and their states. In PostgreSQL, the
/// state also has the columns that a leader would otherwise read from two other tables.
fn insert_schedules(
    dialect: Dialect,
    write: WriteContext,
    schedules: &[NewSchedule],
) -> [sql::Query; 2] {
    let rows = json(&schedules.iter().map(ScheduleRow::from).collect::<Vec<_>>());
    let insert_schedules = sql::query(AssertSqlSafe(format!(
        "INSERT INTO schedules
             (id, shard, version_id, name, description, is_enabled, overlap_policy,
              catch_up_policy, account_id, revision, created_at, updated_at)
         SELECT r.id, r.shard, r.version_id, r.name, r.description, r.is_enabled, r.overlap_policy,
                r.catch_up_policy, $1, 1, $2, $2
         FROM {}",
        dialect.rows::<ScheduleRow>("$3")
    )));
    let insert_schedules = insert_schedules.bind(write.account).bind(write.now).bind(rows.clone());
    let insert_states = match dialect {
        Dialect::Postgres => sql::query(AssertSqlSafe(format!(
            "INSERT INTO schedule_state
                 (shard, schedule_id, version_id, host_key, max_attempts, overlap_policy, next_tick,
                  account_id)
             SELECT r.shard, r.id, r.version_id, r.host_key, r.max_attempts, r.overlap_policy,
                    r.next_tick, $1
             FROM {}",
            dialect.rows::<ScheduleRow>("$2")
        )))
        .bind(write.account),
        Dialect::Sqlite => sql::query(AssertSqlSafe(format!(
            "INSERT INTO schedule_state (shard, schedule_id, next_tick)
             SELECT r.shard, r.id, r.next_tick FROM {}",
            dialect.rows::<ScheduleRow>("$1")
        ))),
    };
    [insert_schedules, insert_states.bind(rows)]
}

/// Deletes a schedule. Each statement sees the rows that were committed before it. So the state's
/// row is removed before the jobs are read: jobs that a leader fired before are found, and none is
/// fired after.
async fn delete(
    connection: &mut Connection<'_>,
    write: WriteContext,
    id: ScheduleId,
) -> SqlResult<bool> {
    admit(connection, write.account, connection.dialect().shared_lock()).await?;
    let deleted = sql::query_as(
        "DELETE FROM schedules WHERE id = $1 AND account_id = $2 RETURNING shard, version_id",
    );
    let deleted = deleted.bind(id).bind(write.account).fetch_optional(connection).await?;
    let Some((shard, version)): Option<(ShardId, VersionId)> = deleted else {
        return Ok(false);
    };
    sql::query("DELETE FROM schedule_state WHERE shard = $1 AND schedule_id = $2")
        .bind(shard)
        .bind(id)
        .execute(connection)
        .await?;
    clear_preferences(connection, write.account, &[id]).await?;
    retire_version(write, version).execute(connection).await?;
    end_jobs_of(connection, write, id).await?;
    audit::record(connection, write, Action::ScheduleDeleted, [id]).await?;
    Ok(true)
}
