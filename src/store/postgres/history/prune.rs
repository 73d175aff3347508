//! Prunes history: drops the partitions of old days, and removes newer rows in small batches.
//!
//! A day is dropped only when all of its jobs are old. If its tables are in use, it is dropped in a
//! later pass.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Executor, PgConnection};

use super::partitions::{Day, existing, lock};
use crate::domain::{JobId, Timestamp};
use crate::store::postgres::PostgresStore;
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::access::WorkScope;
use crate::store::sql::encoding::values::key_from;
use crate::store::sql::error::SqlResult;
use crate::store::sql::history::RETIRING_MS;
use crate::store::sql::history::old_rows::is_alone;
use crate::store::sql::history::remove_jobs;
use crate::store::{PrunedRows, StoreErrorKind};
use crate::telemetry::metrics::HISTORY_DAYS_HELD;

/// The number of past days that are never dropped. A tick that may still fire is newer, so no job
/// is created for a day that can be dropped.
const DROPPED_DAYS: i64 = 35;
/// The time limit of the check of a day.
const TIMEOUT: Duration = Duration::from_secs(600);
/// The time after which a day is checked again if it is kept because a job ended late, in
/// milliseconds. It is long because a check may read every job of the day.
const LOOK_AGAIN_MS: i64 = 6 * 3_600_000;
/// The maximum number of tries per pass to lock the tables of a day. Other transactions queue
/// behind a waiting lock request, so each try is short.
const TRIES: u32 = 5;

impl PostgresStore {
    pub(in crate::store::postgres) async fn prune_days_and_rows(
        &self,
        before: Timestamp,
        limit: u32,
    ) -> SqlResult<PrunedRows> {
        let present = Timestamp::from_millis(self.present.load(Ordering::Relaxed));
        let oldest_kept = Day::of(present).plus(-DROPPED_DAYS);
        let dropped = self.drop_days(before, oldest_kept).await?;
        // The day that will be dropped next is not pruned row by row.
        let droppable_soon = Day::of(before) <= oldest_kept;
        let bound = if droppable_soon { Day::of(before).start() } else { before };
        let mut pruned = self
            .scheduler
            .try_run(WorkScope::Transaction, move |connection| {
                Box::pin(prune(connection, before, bound, limit))
            })
            .await?;
        pruned.days = dropped;
        Ok(pruned)
    }

    /// Drops the days before `before` that are old enough and whose jobs are all old, oldest first.
    /// Returns their number.
    async fn drop_days(&self, before: Timestamp, oldest_kept: Day) -> SqlResult<u64> {
        let days = self
            .scheduler
            .try_run(WorkScope::Statement, |connection| Box::pin(existing(connection)))
            .await?;
        self.checked_days.lock().await.retain(|day, _| days.contains(day));
        let end = Day::of(before).min(oldest_kept);
        let (mut dropped, mut held) = (0, 0);
        for day in days.into_iter().filter(|day| *day < end) {
            match self.drop_day(day, before).await? {
                DayDrop::Dropped => dropped += 1,
                DayDrop::Held => held += 1,
                DayDrop::Elsewhere => return Ok(dropped),
            }
        }
        HISTORY_DAYS_HELD.set(held);
        Ok(dropped)
    }

    /// Drops a day if all of its jobs ended before `before`. If other transactions use its tables,
    /// the day is kept until a later pass.
    async fn drop_day(&self, day: Day, before: Timestamp) -> SqlResult<DayDrop> {
        match self.check_day(day, before).await? {
            DayCheck::Over => {}
            DayCheck::Unfinished | DayCheck::Late => return Ok(DayDrop::Held),
            DayCheck::Elsewhere => return Ok(DayDrop::Elsewhere),
        }
        for _ in 0..TRIES {
            let dropped = self
                .scheduler
                .try_run(WorkScope::Transaction, move |connection| {
                    Box::pin(drop_it(connection, day))
                })
                .await;
            match dropped {
                Err(error)
                    if matches!(
                        error.kind,
                        StoreErrorKind::Locked | StoreErrorKind::Unavailable
                    ) =>
                {
                    tracing::debug!(%day, %error, "cannot drop a day of history now");
                }
                Ok(()) => return Ok(DayDrop::Dropped),
                Err(error) => return Err(error),
            }
        }
        Ok(DayDrop::Held)
    }

    /// Checks if a day can be dropped, unless that is remembered: for ever if it can, and for some
    /// hours if one of its jobs ended late.
    async fn check_day(&self, day: Day, before: Timestamp) -> SqlResult<DayCheck> {
        let present = self.present.load(Ordering::Relaxed);
        let mut checked = self.checked_days.lock().await;
        match checked.get(&day) {
            Some((DayCheck::Over, _)) => return Ok(DayCheck::Over),
            Some((known, at)) if present.saturating_sub(*at) < LOOK_AGAIN_MS => return Ok(*known),
            _ => {}
        }
        let found =
            self.scheduler.run_with_timeout(TIMEOUT, WorkScope::Transaction, move |connection| {
                Box::pin(look_through(connection, day, before))
            });
        let found = found.await?;
        if found == DayCheck::Late {
            tracing::info!(%day, "a day of history is kept longer: one of its jobs ended late");
        }
        if matches!(found, DayCheck::Over | DayCheck::Late) {
            checked.insert(day, (found, present));
        }
        Ok(found)
    }
}

/// The result of dropping a day.
enum DayDrop {
    Dropped,
    /// It is kept for now.
    Held,
    /// Another replica drops days now.
    Elsewhere,
}

/// The result of checking a day.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::store::postgres) enum DayCheck {
    /// All of its jobs are old, or its partitions are already gone.
    Over,
    /// One of its jobs has not finished.
    Unfinished,
    /// One of its jobs ended so late that it must be kept.
    Late,
    /// Another replica checks days now.
    Elsewhere,
}

/// Checks if a day can be dropped, in one replica at a time. No job is created for so old a day, so
/// the result stays true. The check takes no locks that block reads or writes. Those of the removal are taken afterwards.
async fn look_through(
    connection: &mut PgConnection,
    day: Day,
    before: Timestamp,
) -> SqlResult<DayCheck> {
    if !is_alone(&mut Connection::from(&mut *connection), "check history").await? {
        return Ok(DayCheck::Elsewhere);
    }
    connection.execute("SET LOCAL statement_timeout = '5min'").await?;
    let query = sqlx::query_scalar("SELECT EXISTS (SELECT FROM runs WHERE id BETWEEN $1 AND $2)");
    let query = query.bind(day.first_id()).bind(day.plus(1).first_id());
    if query.fetch_one(&mut *connection).await? {
        return Ok(DayCheck::Unfinished);
    }
    if !existing(connection).await?.contains(&day) {
        return Ok(DayCheck::Over);
    }
    // One late job is enough, so they are not counted.
    let sql = format!("SELECT EXISTS (SELECT FROM jobs_{day} WHERE completed_at >= $1 LIMIT 1)");
    let query = sqlx::query_scalar(AssertSqlSafe(sql)).bind(before);
    if query.fetch_one(&mut *connection).await? {
        return Ok(DayCheck::Late);
    }
    Ok(DayCheck::Over)
}

/// Drops a day, unless another replica has dropped it.
async fn drop_it(connection: &mut PgConnection, day: Day) -> SqlResult<()> {
    lock(connection).await?;
    if !existing(connection).await?.contains(&day) {
        return Ok(());
    }
    // Takes all locks before the first change. Other transactions queue behind this one, so it
    // waits only briefly for each lock.
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
) -> SqlResult<PrunedRows> {
    if !is_alone(&mut Connection::from(&mut *connection), "prune history").await? {
        return Ok(PrunedRows::default());
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
    Ok(PrunedRows { days: 0, jobs, skips, versions })
}

/// Removes retired versions that no job uses. Looks only at jobs from before the version was
/// retired: most of these are gone, while the schedule may have any number of newer ones.
/// Parameters: time, number of rows, margin in milliseconds.
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
                WHERE r.account_id = v.account_id AND r.status < 2
                  AND r.schedule_id = v.schedule_id AND r.version_id = v.id)
         ORDER BY v.retired_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

/// Finds the jobs that ended before a time. No job ends before the time in its id, so they are at
/// the lower end of the key. Parameters: lowest id that stays, time, number of rows.
const OLD_JOBS: &str = "
    SELECT id FROM jobs WHERE id < $1 AND completed_at < $2
    ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED";

async fn prune_jobs(
    connection: &mut PgConnection,
    before: Timestamp,
    bound: Timestamp,
    limit: u32,
) -> SqlResult<u64> {
    let jobs: Vec<JobId> = sqlx::query_scalar(OLD_JOBS)
        .bind(key_from(bound))
        .bind(before)
        .bind(i64::from(limit))
        .fetch_all(&mut *connection)
        .await?;
    remove_jobs(&mut Connection::from(&mut *connection), "jobs", &jobs).await
}
