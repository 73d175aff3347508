//! Schedules: made, read, changed, deleted.

use async_trait::async_trait;
use serde::Serialize;
use sqlx::SqliteConnection;

use super::change;
use super::definition::{insert_versions, retire_version, version_rows};
use super::jobs::cancel_waiting;
use super::values::{Hex, hex, json_rows};
use super::{SqliteStore, failed_in};
use crate::domain::audit::Action;
use crate::domain::schedule::Schedule;
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::store::rows::schedule_columns;
use crate::store::schedules::next_tick;
use crate::store::sql::account_lock::admit;
use crate::store::sql::audit;
use crate::store::sql::connection::Connection;
use crate::store::sql::fault::Outcome;
use crate::store::sql::notifications::clear_preferences;
use crate::store::{
    Change, Changed, Created, NewSchedule, Result, SchedulePage, ScheduleQuery, ScheduleStore,
    SkipPage, SkipQuery, Write,
};

#[async_trait]
impl ScheduleStore for SqliteStore {
    async fn create_schedules(
        &self,
        write: &Write,
        schedules: &[NewSchedule],
        most: Option<u64>,
    ) -> Result<Created> {
        let (write, count) = (*write, schedules.len() as u64);
        let ids: Vec<ScheduleId> = schedules.iter().map(|new| new.id).collect();
        let sealed = schedules.iter().map(|new| self.vault.seal(write.account, &new.version));
        let sealed: Vec<_> = sealed.collect();
        let versions = version_rows(ids.iter().copied().zip(&sealed));
        let rows = json_rows(&schedules.iter().map(ScheduleRow::new).collect::<Vec<_>>());
        self.write_rows("create_schedules", schedules.len(), move |connection| {
            Box::pin(async move {
                admit(&mut Connection::from(&mut *connection), write.account, "").await?;
                if let Some(most) = most {
                    let current = current(connection, write).await?;
                    if current + count > most {
                        return Ok(Created::TooMany { current });
                    }
                }
                create(connection, write, ids, rows, versions).await?;
                Ok(Created::All)
            })
        })
        .await
    }

    async fn schedule(&self, account: AccountId, id: ScheduleId) -> Result<Option<Schedule>> {
        let query = sqlx::query_as(concat!(
            "SELECT ",
            schedule_columns!(),
            " FROM schedules AS s
              JOIN schedule_state AS st ON st.shard = s.shard AND st.schedule_id = s.id
              JOIN schedule_versions AS v ON v.id = s.version_id
              WHERE s.id = ?1 AND s.account_id = ?2
        AND EXISTS (SELECT 1 FROM accounts WHERE id = ?2)"
        ))
        .bind(id)
        .bind(account);
        let mut found: Option<Schedule> =
            self.connections.readers.optional(query).await.map_err(failed_in("schedule"))?;
        found.iter_mut().for_each(|schedule| self.vault.open_schedule(account, schedule));
        Ok(found)
    }

    async fn schedules(&self, account: AccountId, query: &ScheduleQuery) -> Result<SchedulePage> {
        self.list_schedules(account, query).await.map_err(failed_in("schedules"))
    }

    async fn change_schedule(
        &self,
        write: &Write,
        id: ScheduleId,
        change: &Change,
    ) -> Result<Changed> {
        let (write, mut wanted) = (*write, change.clone());
        wanted.version = wanted.version.map(|version| self.vault.seal(write.account, &version));
        self.write("change_schedule", move |connection| {
            Box::pin(change::change(connection, write, id, wanted))
        })
        .await
    }

    async fn delete_schedule(&self, write: &Write, id: ScheduleId) -> Result<bool> {
        let write = *write;
        self.write("delete_schedule", move |connection| Box::pin(delete(connection, write, id)))
            .await
    }

    async fn skips(
        &self,
        account: AccountId,
        id: ScheduleId,
        query: &SkipQuery,
    ) -> Result<SkipPage> {
        self.list_skips(account, id, query).await.map_err(failed_in("skips"))
    }
}

/// A schedule's row, and its state's, in a JSON parameter.
#[derive(Serialize)]
struct ScheduleRow<'a>(
    Hex,
    u16,
    Hex,
    &'a str,
    &'a Option<String>,
    bool,
    &'static str,
    &'static str,
    Option<i64>,
);

impl<'a> ScheduleRow<'a> {
    fn new(new: &'a NewSchedule) -> Self {
        Self(
            hex(&new.id),
            new.shard.0,
            hex(&new.version.id),
            &new.name,
            &new.description,
            new.is_enabled,
            new.overlap_policy.as_str(),
            new.catch_up_policy.as_str(),
            next_tick(new.is_enabled, new.next_tick).map(Timestamp::as_millis),
        )
    }
}

/// How many schedules the account has.
async fn current(connection: &mut SqliteConnection, write: Write) -> Outcome<u64> {
    let query = sqlx::query_scalar("SELECT count(*) FROM schedules WHERE account_id = ?1");
    let current: i64 = query.bind(write.account).fetch_one(connection).await?;
    Ok(current.unsigned_abs())
}

async fn create(
    connection: &mut SqliteConnection,
    write: Write,
    ids: Vec<ScheduleId>,
    rows: String,
    versions: String,
) -> Outcome<()> {
    insert_versions(connection, write, versions).await?;
    sqlx::query(
        "INSERT INTO schedules
             (id, shard, version_id, name, description, is_enabled, overlap_policy,
              catch_up_policy, account_id, revision, created_at, updated_at)
         SELECT unhex(value ->> 0), value ->> 1, unhex(value ->> 2), value ->> 3, value ->> 4,
                value ->> 5, value ->> 6, value ->> 7, ?1, 1, ?2, ?2
         FROM jsonb_each(?3)",
    )
    .bind(write.account)
    .bind(write.now)
    .bind(rows.as_str())
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "INSERT INTO schedule_state (shard, schedule_id, next_tick)
         SELECT value ->> 1, unhex(value ->> 0), value ->> 8 FROM jsonb_each(?1)",
    )
    .bind(rows)
    .execute(&mut *connection)
    .await?;
    audit::record(&mut Connection::from(&mut *connection), write, Action::ScheduleCreated, ids)
        .await
}

async fn delete(connection: &mut SqliteConnection, write: Write, id: ScheduleId) -> Outcome<bool> {
    admit(&mut Connection::from(&mut *connection), write.account, "").await?;
    let deleted: Option<(ShardId, VersionId)> = sqlx::query_as(
        "DELETE FROM schedules WHERE id = ?1 AND account_id = ?2 RETURNING shard, version_id",
    )
    .bind(id)
    .bind(write.account)
    .fetch_optional(&mut *connection)
    .await?;
    let Some((shard, version)) = deleted else {
        return Ok(false);
    };
    clear_preferences(&mut Connection::from(&mut *connection), write.account, &[id]).await?;
    retire_version(connection, write, version).await?;
    sqlx::query("DELETE FROM schedule_state WHERE shard = ?1 AND schedule_id = ?2")
        .bind(shard)
        .bind(id)
        .execute(&mut *connection)
        .await?;
    let waiting: Vec<JobId> = sqlx::query_scalar(
        "SELECT id FROM runs WHERE account_id = ?2 AND schedule_id = ?1 AND status = 0",
    )
    .bind(id)
    .bind(write.account)
    .fetch_all(&mut *connection)
    .await?;
    cancel_waiting(connection, write, &waiting, "the schedule was deleted").await?;
    sqlx::query(
        "UPDATE runs SET stop = max(stop, 1), updated_at = ?3
         WHERE account_id = ?2 AND schedule_id = ?1 AND status = 1",
    )
    .bind(id)
    .bind(write.account)
    .bind(write.now)
    .execute(&mut *connection)
    .await?;
    audit::record(&mut Connection::from(&mut *connection), write, Action::ScheduleDeleted, [id])
        .await?;
    Ok(true)
}
