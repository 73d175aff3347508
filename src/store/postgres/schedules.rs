//! Schedules: made, read, deleted.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;

use super::definition::{insert_versions, retire_version};
use super::jobs::cancel_waiting;
use super::values::{column, count};
use super::{PostgresStore, Within, change, failed_in, skips};
use crate::domain::audit::Action;
use crate::domain::job::JobStatus;
use crate::domain::schedule::Schedule;
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, JobId, ScheduleId, VersionId};
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
impl ScheduleStore for PostgresStore {
    async fn create_schedules(
        &self,
        write: &Write,
        schedules: &[NewSchedule],
        most: Option<u64>,
    ) -> Result<Created> {
        let write = *write;
        let seal = |new: &NewSchedule| NewSchedule {
            version: self.vault.seal(write.account, &new.version),
            ..new.clone()
        };
        let schedules: Arc<[_]> = schedules.iter().map(seal).collect();
        self.api
            .run("create_schedules", Within::Transaction, move |connection| {
                Box::pin(create_within(connection, write, schedules.clone(), most))
            })
            .await
    }

    async fn schedule(&self, account: AccountId, id: ScheduleId) -> Result<Option<Schedule>> {
        let found = self.api.run("schedule", Within::Statement, move |connection| {
            Box::pin(async move {
                let query = sqlx::query_as(ROW).bind(id).bind(account);
                Ok(query.fetch_optional(connection).await?)
            })
        });
        let mut found: Option<Schedule> = found.await?;
        found.iter_mut().for_each(|schedule| self.vault.open_schedule(account, schedule));
        Ok(found)
    }

    async fn schedules(&self, account: AccountId, query: &ScheduleQuery) -> Result<SchedulePage> {
        self.list_schedules(account, query).await
    }

    async fn change_schedule(
        &self,
        write: &Write,
        id: ScheduleId,
        change: &Change,
    ) -> Result<Changed> {
        let (write, mut change) = (*write, change.clone());
        change.version = change.version.map(|version| self.vault.seal(write.account, &version));
        let change = Arc::new(change);
        self.api
            .run("change_schedule", Within::Transaction, move |connection| {
                Box::pin(change::change(connection, write, id, change.clone()))
            })
            .await
    }

    async fn delete_schedule(&self, write: &Write, id: ScheduleId) -> Result<bool> {
        let write = *write;
        let deleted = self.run_with_days(&self.api, Within::Transaction, move |connection| {
            Box::pin(delete(connection, write, id))
        });
        deleted.await.map_err(failed_in("delete_schedule"))
    }

    async fn skips(
        &self,
        account: AccountId,
        id: ScheduleId,
        query: &SkipQuery,
    ) -> Result<SkipPage> {
        let query = Arc::new(query.clone());
        self.api
            .run("skips", Within::Statement, move |connection| {
                Box::pin(skips::list(connection, account, id, query.clone()))
            })
            .await
    }
}

const ROW: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM schedules AS s
      JOIN schedule_state AS st ON st.shard = s.shard AND st.schedule_id = s.id
      JOIN schedule_versions AS v ON v.id = s.version_id
      WHERE s.id = $1 AND s.account_id = $2
        AND EXISTS (SELECT FROM accounts WHERE id = $2)"
);

async fn create_within(
    connection: &mut PgConnection,
    write: Write,
    schedules: Arc<[NewSchedule]>,
    most: Option<u64>,
) -> Outcome<Created> {
    // One that took the account to be alone with it after having taken it beside others could meet
    // another one that does.
    let holding = if most.is_some() { "FOR NO KEY UPDATE" } else { "FOR KEY SHARE" };
    admit(&mut Connection::from(&mut *connection), write.account, holding).await?;
    if let Some(most) = most {
        let query = sqlx::query_scalar("SELECT count(*) FROM schedules WHERE account_id = $1");
        let current = count(query.bind(write.account).fetch_one(&mut *connection).await?);
        if current + schedules.len() as u64 > most {
            return Ok(Created::TooMany { current });
        }
    }
    create(connection, write, schedules).await?;
    Ok(Created::All)
}

async fn create(
    connection: &mut PgConnection,
    write: Write,
    schedules: Arc<[NewSchedule]>,
) -> Outcome<()> {
    let versions: Vec<_> = schedules.iter().map(|new| (new.id, &new.version)).collect();
    insert_versions(connection, write, &versions).await?;
    let news = &*schedules;
    sqlx::query(
        "INSERT INTO schedules
             (id, shard, version_id, name, description, is_enabled, overlap_policy,
              catch_up_policy, account_id, revision, created_at, updated_at)
         SELECT s.*, $1, 1, $2, $2
         FROM unnest($3::uuid[], $4::integer[], $5::uuid[], $6::text[], $7::text[], $8::boolean[],
                     $9::text[], $10::text[]) AS s",
    )
    .bind(write.account)
    .bind(write.now)
    .bind(column(news, |new| new.id))
    .bind(column(news, |new| new.shard))
    .bind(column(news, |new| new.version.id))
    .bind(column(news, |new| new.name.as_str()))
    .bind(column(news, |new| new.description.as_deref()))
    .bind(column(news, |new| new.is_enabled))
    .bind(column(news, |new| new.overlap_policy))
    .bind(column(news, |new| new.catch_up_policy))
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "INSERT INTO schedule_state
             (shard, schedule_id, version_id, host_key, max_attempts, overlap_policy, next_tick,
              account_id)
         SELECT s.*, $1
         FROM unnest($2::integer[], $3::uuid[], $4::uuid[], $5::bigint[], $6::smallint[],
                     $7::text[], $8::bigint[]) AS s",
    )
    .bind(write.account)
    .bind(column(news, |new| new.shard))
    .bind(column(news, |new| new.id))
    .bind(column(news, |new| new.version.id))
    .bind(column(news, |new| new.version.host))
    .bind(column(news, |new| i16::from(new.version.definition.max_retries)))
    .bind(column(news, |new| new.overlap_policy))
    .bind(column(news, |new| next_tick(new.is_enabled, new.next_tick)))
    .execute(&mut *connection)
    .await?;
    audit::record(
        &mut Connection::from(&mut *connection),
        write,
        Action::ScheduleCreated,
        column(news, |new| new.id),
    )
    .await
}

/// Each statement sees what was committed before it. So what a leader fired before the state's row
/// was locked is found, and after that nothing is fired.
async fn delete(connection: &mut PgConnection, write: Write, id: ScheduleId) -> Outcome<bool> {
    admit(&mut Connection::from(&mut *connection), write.account, "FOR KEY SHARE").await?;
    let deleted: Option<(ShardId, VersionId)> = sqlx::query_as(
        "DELETE FROM schedules WHERE id = $1 AND account_id = $2 RETURNING shard, version_id",
    )
    .bind(id)
    .bind(write.account)
    .fetch_optional(&mut *connection)
    .await?;
    let Some((shard, version)) = deleted else {
        return Ok(false);
    };
    sqlx::query("DELETE FROM schedule_state WHERE shard = $1 AND schedule_id = $2")
        .bind(shard)
        .bind(id)
        .execute(&mut *connection)
        .await?;
    clear_preferences(&mut Connection::from(&mut *connection), write.account, &[id]).await?;
    retire_version(connection, write, version).await?;
    end_jobs(connection, write, id).await?;
    audit::record(&mut Connection::from(&mut *connection), write, Action::ScheduleDeleted, [id])
        .await?;
    Ok(true)
}

/// Ends the jobs of a schedule that wait, and forbids those that run to be tried again. All are locked
/// at once, so that none begins to run or to wait in between.
async fn end_jobs(connection: &mut PgConnection, write: Write, id: ScheduleId) -> Outcome<()> {
    let unfinished: Vec<(JobId, JobStatus)> = sqlx::query_as(
        "SELECT id, status FROM runs WHERE account_id = $2 AND schedule_id = $1
         ORDER BY id FOR UPDATE",
    )
    .bind(id)
    .bind(write.account)
    .fetch_all(&mut *connection)
    .await?;
    let (waiting, running): (Vec<_>, Vec<_>) =
        unfinished.into_iter().partition(|(_, status)| *status == JobStatus::Pending);
    let jobs = |found: Vec<(JobId, JobStatus)>| found.into_iter().map(|(job, _)| job);
    let waiting: Vec<JobId> = jobs(waiting).collect();
    if !waiting.is_empty() {
        cancel_waiting(connection, write, &waiting, "the schedule was deleted").await?;
    }
    sqlx::query(FORBID_RETRIES)
        .bind(jobs(running).collect::<Vec<_>>())
        .bind(write.account)
        .bind(write.now)
        .execute(connection)
        .await?;
    Ok(())
}

const FORBID_RETRIES: &str = "
    UPDATE runs SET stop = greatest(stop, 1), updated_at = $3
    WHERE id = ANY ($1) AND account_id = $2";
