//! The partitions of `jobs` and `attempts`: one for each day (UTC), by the time in the job's id.
//!
//! A partition is created as a table of its own and then attached, which does not block reads and
//! writes. One replica at a time does it. There is no default partition: attaching another one
//! would have to scan it.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::types::Uuid;
use sqlx::{AssertSqlSafe, Executor, PgConnection};

use crate::domain::{JobId, Timestamp};
use crate::store::postgres::PostgresStore;
use crate::store::postgres::connection::pool::PostgresConnections;
use crate::store::sql::connection::access::WorkScope;
use crate::store::sql::encoding::values::key_from;
use crate::store::sql::error::{Remedy, SqlResult};

const DAY_MS: i64 = 86_400_000;
/// The number of days that are created ahead of time. That gives an operator enough time to notice
/// that no more are created.
pub(in crate::store::postgres) const DAYS_AHEAD: i64 = 14;
/// The number of past days that are created, for ticks that fire late: a tick can be up to 31 days
/// old.
const DAYS_BEHIND: i64 = 32;
/// The maximum number of days that one transaction creates. Each day takes about twenty locks.
const AT_ONCE: usize = 8;
/// The time limit of each step that creates partitions.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A day, counted from 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store::postgres) struct Day(i64);

impl Day {
    /// Returns the day of an instant.
    pub(in crate::store::postgres) fn of(at: Timestamp) -> Self {
        Self(at.as_millis().div_euclid(DAY_MS))
    }

    /// Returns the day that is `days` later.
    pub(in crate::store::postgres) fn plus(self, days: i64) -> Self {
        Self(self.0.saturating_add(days))
    }

    /// Returns the first instant of the day.
    pub(in crate::store::postgres) fn start(self) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_mul(DAY_MS))
    }

    /// Returns the smallest id of a job of the day.
    pub(in crate::store::postgres) fn first_id(self) -> JobId {
        key_from(self.start())
    }

    /// Parses the day in the name of a partition of `jobs`.
    fn of_partition(name: &str) -> Option<Self> {
        let day = chrono::NaiveDate::parse_from_str(name.strip_prefix("jobs_")?, "%Y%m%d").ok()?;
        Some(Self::of(day.and_time(chrono::NaiveTime::MIN).and_utc().into()))
    }
}

/// Writes the day as in the names of its partitions.
impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.start().to_utc().format("%Y%m%d"))
    }
}

/// Returns the days of these jobs.
pub(in crate::store::postgres) fn days_of(jobs: impl IntoIterator<Item = JobId>) -> BTreeSet<Day> {
    jobs.into_iter().map(|job| Day::of(job.timestamp())).collect()
}

/// Returns the days that a store needs for the ticks that can fire now and in the near future.
pub(in crate::store::postgres) fn days_around(now: Timestamp) -> BTreeSet<Day> {
    let today = Day::of(now);
    (-DAYS_BEHIND..=DAYS_AHEAD).map(|days| today.plus(days)).collect()
}

/// Returns the days that have partitions, oldest first.
pub(in crate::store::postgres) async fn existing(
    connection: &mut PgConnection,
) -> SqlResult<BTreeSet<Day>> {
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'jobs'::regclass",
    )
    .fetch_all(connection)
    .await?;
    Ok(names.iter().filter_map(|name| Day::of_partition(name)).collect())
}

impl PostgresStore {
    /// Creates the missing partitions of these days.
    pub(in crate::store::postgres) async fn make_days(&self, days: BTreeSet<Day>) -> SqlResult<()> {
        let there = self
            .scheduler
            .run_with_timeout(TIMEOUT, WorkScope::Statement, |connection| {
                Box::pin(existing(connection))
            })
            .await?;
        let missing: Vec<Day> = days.difference(&there).copied().collect();
        for some in missing.chunks(AT_ONCE) {
            let days = some.to_vec();
            self.scheduler
                .run_with_timeout(TIMEOUT, WorkScope::Transaction, move |connection| {
                    Box::pin(make(connection, days.clone()))
                })
                .await?;
        }
        Ok(())
    }

    /// Runs work that ends jobs. If the partition of one of them is missing, creates the partitions
    /// of all unfinished jobs and runs the work again.
    pub(in crate::store::postgres) async fn run_with_days<T, W>(
        &self,
        connections: &PostgresConnections,
        within: WorkScope,
        work: W,
    ) -> SqlResult<T>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, SqlResult<T>>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        match connections.try_run(within, work.clone()).await {
            Err(error) if error.remedy == Remedy::MakePartition => {
                let days = connections.try_run(WorkScope::Statement, |c| Box::pin(unfinished(c)));
                self.make_days(days.await?).await?;
                connections.try_run(within, work).await
            }
            outcome => outcome,
        }
    }
}

/// Returns the days of the jobs that have not finished. The first 48 bits of an id are its time in
/// milliseconds.
async fn unfinished(connection: &mut PgConnection) -> SqlResult<BTreeSet<Day>> {
    let first_of_days: Vec<Timestamp> = sqlx::query_scalar(
        "SELECT DISTINCT ms - ms % 86400000
         FROM (SELECT ('x' || replace(left(id::text, 13), '-', ''))::bit(48)::bigint AS ms
               FROM runs) AS unfinished",
    )
    .fetch_all(connection)
    .await?;
    Ok(first_of_days.into_iter().map(Day::of).collect())
}

/// Takes the lock that lets only one replica at a time create or drop partitions.
pub(in crate::store::postgres) async fn lock(connection: &mut PgConnection) -> SqlResult<()> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('punctual partitions', 0))")
        .execute(connection)
        .await?;
    Ok(())
}

async fn make(connection: &mut PgConnection, days: Vec<Day>) -> SqlResult<()> {
    lock(connection).await?;
    let there = existing(connection).await?;
    for day in days.into_iter().filter(|day| !there.contains(day)) {
        let [from, to] = [day, day.plus(1)].map(|day| Uuid::from_bytes(day.first_id().to_bytes()));
        for table in ["jobs", "attempts"] {
            let sql = format!(
                "CREATE TABLE {table}_{day} (LIKE {table} INCLUDING DEFAULTS INCLUDING INDEXES);
                 ALTER TABLE {table} ATTACH PARTITION {table}_{day}
                     FOR VALUES FROM ('{from}') TO ('{to}')"
            );
            connection.execute(AssertSqlSafe(sql)).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_named_as_it_is_read() {
        let at: Timestamp = "2024-05-15T23:59:59.999Z".parse().expect("an instant");
        let day = Day::of(at);
        assert_eq!(day.to_string(), "20240515");
        assert_eq!(Day::of_partition("jobs_20240515"), Some(day));
        assert_eq!(Day::of_partition("jobs_old"), None);
        assert_eq!(day.start().to_string(), "2024-05-15T00:00:00.000Z");
    }

    #[test]
    fn a_days_ids_lie_between_its_bounds() {
        let day = Day::of("2024-05-15T00:00:00Z".parse().expect("an instant"));
        let next = day.plus(1);
        let last = Timestamp::from_millis(next.start().as_millis() - 1);
        assert!(day.first_id() <= JobId::new(day.start(), 0));
        assert!(JobId::new(last, u128::MAX) < next.first_id());
        assert_eq!(days_of([JobId::new(last, 1), day.first_id()]), BTreeSet::from([day]));
        assert_eq!(days_around(day.start()).len(), 47);
    }
}
