//! The end of history: whole days are dropped, what is younger is removed in small batches.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Executor, PgConnection};

use super::partitions::{Day, existing, lock};
use crate::domain::{JobId, Timestamp};
use crate::store::contract::upkeep::RETIRING_MS;
use crate::store::postgres::connection::values::key_from;
use crate::store::postgres::{PostgresStore, Within};
use crate::store::sql::connection::Connection;
use crate::store::sql::fault::Outcome;
use crate::store::sql::history::remove_jobs;
use crate::store::sql::maintenance::is_alone;
use crate::store::{StoreErrorKind, Upkeep};
use crate::telemetry::metrics::HISTORY_DAYS_HELD;

/// How old a day has to be to be dropped: older than any tick that may still be fired.
const DROPPED_DAYS: i64 = 35;
/// The longest time that looking through a day may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// After how long, in milliseconds, a day is looked through again in which a job was found that is
/// kept: finding none takes a look at each of them.
const LOOK_AGAIN_MS: i64 = 6 * 3_600_000;
/// How often the locks that dropping takes are asked for in a round. While they are waited for,
/// others wait behind, so each time is short.
const TRIES: u32 = 5;

impl PostgresStore {
    pub(in super::super) async fn prune_days_and_rows(
        &self,
        before: Timestamp,
        limit: u32,
    ) -> Outcome<Upkeep> {
        let present = Timestamp::from_millis(self.present.load(Ordering::Relaxed));
        let oldest_kept = Day::of(present).plus(-DROPPED_DAYS);
        let dropped = self.drop_days(before, oldest_kept).await?;
        // Of the day that will be dropped next, nothing is removed row by row.
        let droppable_soon = Day::of(before) <= oldest_kept;
        let bound = if droppable_soon { Day::of(before).start() } else { before };
        let mut pruned = self
            .scheduler
            .try_run(Within::Transaction, move |connection| {
                Box::pin(prune(connection, before, bound, limit))
            })
            .await?;
        pruned.days = dropped;
        Ok(pruned)
    }

    /// Drops the days that are over, oldest first. Returns how many.
    async fn drop_days(&self, before: Timestamp, oldest_kept: Day) -> Outcome<u64> {
        let days = self
            .scheduler
            .try_run(Within::Statement, |connection| Box::pin(existing(connection)))
            .await?;
        let end = Day::of(before).min(oldest_kept);
        let (mut dropped, mut held) = (0, 0);
        for day in days.into_iter().filter(|day| *day < end) {
            match self.drop_day(day, before).await? {
                Drop::Dropped => dropped += 1,
                Drop::Held => held += 1,
            }
        }
        HISTORY_DAYS_HELD.set(held);
        Ok(dropped)
    }

    /// Drops a day if all of its jobs ended before `before`. What cannot be dropped now, for
    /// somebody reads, is dropped in a later round.
    async fn drop_day(&self, day: Day, before: Timestamp) -> Outcome<Drop> {
        let present = self.present.load(Ordering::Relaxed);
        let mut looked = self.late_days.lock().await;
        looked.retain(|_, at| present.saturating_sub(*at) < LOOK_AGAIN_MS);
        if looked.contains_key(&day) {
            return Ok(Drop::Held);
        }
        let found = self.scheduler.patiently(PATIENCE, Within::Transaction, move |connection| {
            Box::pin(look_through(connection, day, before))
        });
        match found.await? {
            Found::Over => {}
            Found::Unfinished => return Ok(Drop::Held),
            Found::Late => {
                tracing::info!(%day, "a day of jobs is kept longer: one of them ended late");
                looked.insert(day, present);
                return Ok(Drop::Held);
            }
        }
        for _ in 0..TRIES {
            let dropped = self
                .scheduler
                .try_run(Within::Transaction, move |connection| Box::pin(drop_it(connection, day)))
                .await;
            match dropped {
                Err(fault)
                    if matches!(
                        fault.kind,
                        StoreErrorKind::Locked | StoreErrorKind::Unavailable
                    ) =>
                {
                    tracing::debug!(%day, error = %fault, "history is in use");
                }
                Ok(()) => return Ok(Drop::Dropped),
                Err(fault) => return Err(fault),
            }
        }
        Ok(Drop::Held)
    }
}

/// What has become of a day that is over.
enum Drop {
    Dropped,
    Held,
}

/// What was found of a day that is over.
enum Found {
    /// It is gone.
    Over,
    /// A job of it has not finished.
    Unfinished,
    /// A job of it ended so late that it is kept.
    Late,
}

/// Says whether a day can be dropped. No job is made of so old a day, so what was found stays true:
/// the locks are taken afterwards, and this takes none that another one waits for.
async fn look_through(
    connection: &mut PgConnection,
    day: Day,
    before: Timestamp,
) -> Outcome<Found> {
    connection.execute("SET LOCAL statement_timeout = '5min'").await?;
    let query = sqlx::query_scalar("SELECT EXISTS (SELECT FROM runs WHERE id BETWEEN $1 AND $2)");
    let query = query.bind(day.first_id()).bind(day.plus(1).first_id());
    if query.fetch_one(&mut *connection).await? {
        return Ok(Found::Unfinished);
    }
    if !existing(connection).await?.contains(&day) {
        return Ok(Found::Over);
    }
    // Any one will do: it is not counted how many there are.
    let sql = format!("SELECT EXISTS (SELECT FROM jobs_{day} WHERE completed_at >= $1 LIMIT 1)");
    let query = sqlx::query_scalar(AssertSqlSafe(sql)).bind(before);
    if query.fetch_one(&mut *connection).await? {
        return Ok(Found::Late);
    }
    Ok(Found::Over)
}

/// Drops a day, unless another replica has.
async fn drop_it(connection: &mut PgConnection, day: Day) -> Outcome<()> {
    lock(connection).await?;
    if !existing(connection).await?.contains(&day) {
        return Ok(());
    }
    // All locks before anything is done: others that wait behind wait no longer than for these.
    let sql = format!(
        "SET LOCAL lock_timeout = '100ms';
         LOCK TABLE ONLY jobs, ONLY attempts, jobs_{day}, attempts_{day} IN ACCESS EXCLUSIVE MODE"
    );
    connection.execute(AssertSqlSafe(sql)).await?;
    for table in ["jobs", "attempts"] {
        let sql =
            format!("ALTER TABLE {table} DETACH PARTITION {table}_{day}; DROP TABLE {table}_{day}");
        connection.execute(AssertSqlSafe(sql)).await?;
    }
    Ok(())
}

async fn prune(
    connection: &mut PgConnection,
    before: Timestamp,
    bound: Timestamp,
    limit: u32,
) -> Outcome<Upkeep> {
    if !is_alone(&mut Connection::from(&mut *connection), "prune history").await? {
        return Ok(Upkeep::default());
    }
    let jobs = prune_jobs(connection, before, bound, limit).await?;
    let skips = sqlx::query(
        "DELETE FROM skips WHERE id IN
             (SELECT id FROM skips WHERE first_tick < $1 AND last_tick < $1
              ORDER BY first_tick LIMIT $2 FOR UPDATE SKIP LOCKED)",
    )
    .bind(before)
    .bind(i64::from(limit))
    .execute(&mut *connection)
    .await?
    .rows_affected();
    let versions = sqlx::query(PRUNE_VERSIONS)
        .bind(before)
        .bind(i64::from(limit))
        .bind(RETIRING_MS)
        .execute(connection)
        .await?
        .rows_affected();
    Ok(Upkeep { days: 0, jobs, skips, versions })
}

/// Looks only at the jobs up to the time at which the version was retired: most of those are gone,
/// while the schedule may have any number of newer ones.
const PRUNE_VERSIONS: &str = "
    DELETE FROM schedule_versions WHERE id IN
        (SELECT v.id FROM schedule_versions AS v
         WHERE v.retired_at < $1
           AND NOT EXISTS
               (SELECT FROM jobs AS j
                WHERE j.schedule_id = v.schedule_id AND j.version_id = v.id
                  AND j.id < (lpad(to_hex(v.retired_at + $3), 12, '0') || repeat('0', 20))::uuid)
           AND NOT EXISTS
               (SELECT FROM runs AS r
                WHERE r.account_id = v.account_id AND r.schedule_id = v.schedule_id
                  AND r.version_id = v.id)
         ORDER BY v.retired_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

/// No job has ended before its run was due, so the old ones are at the lower end of the key.
const OLD_JOBS: &str = "
    SELECT id FROM jobs WHERE id < $1 AND completed_at < $2
    ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED";

async fn prune_jobs(
    connection: &mut PgConnection,
    before: Timestamp,
    bound: Timestamp,
    limit: u32,
) -> Outcome<u64> {
    let jobs: Vec<JobId> = sqlx::query_scalar(OLD_JOBS)
        .bind(key_from(bound))
        .bind(before)
        .bind(i64::from(limit))
        .fetch_all(&mut *connection)
        .await?;
    remove_jobs(&mut Connection::from(&mut *connection), "jobs", &jobs).await
}
