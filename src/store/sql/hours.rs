//! Counts finished jobs by account and hour.
//!
//! The statement is part of the transaction that ends the jobs, and must never be the reason for
//! which that transaction waits or fails. In PostgreSQL it adds to the newest row that no other
//! transaction has locked. If there is none, it inserts another row of the same hour: readers add up
//! all rows of an hour. So it waits for no lock, and transactions can add to accounts in any order.
//!
//! A row has a version for each transaction that has added to it, and all of them stay while an old
//! snapshot is open, such as that of a backup. A search of the row would read them all: after 32,000
//! transactions on one row the statement took six times as long. So one of a thousand transactions
//! inserts another row, with a larger slot, and the search begins at the largest.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::AssertSqlSafe;

use crate::domain::hours::{AccountHour, LAG_CLASSES, hour_of, lag_class};
use crate::domain::{AccountId, JobId, Timestamp};
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::batch_rows::{batch_row, json};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::encoding::rows::{StoreRow, number, read_rows};
use crate::store::sql::error::SqlResult;
use crate::store::sql::history::old_rows::execute_alone;
use crate::store::{HourStore, Result, sql};

/// Adds ended jobs to the hours of their accounts. `$ended` has a row for each job: its account, end,
/// status (`final`), error code, and the class of its start lag. In PostgreSQL, `$lane` is the
/// [`lane`] of the transaction.
macro_rules! add_to_hours {
    (postgres $ended:literal, $lane:literal) => {
        $crate::store::sql::hours::add_to_hours!(
            @text $ended,
            [
                "coalesce(free.slot, c.hour + c.second * 1000 + ", $lane, " % 1000)"
            ],
            ["LEFT JOIN LATERAL (
                 SELECT slot FROM account_hours
                 WHERE account_id = c.account_id AND slot >= c.hour AND slot < c.hour + 3600000
                 ORDER BY slot DESC LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
             ) AS free ON ", $lane, " >= 1000"]
        )
    };
    (sqlite $ended:literal) => {
        $crate::store::sql::hours::add_to_hours!(@text $ended, ["c.hour"], [""])
    };
    (@text $ended:literal, [$($slot:literal),*], [$($free:literal),*]) => {
        concat!(
            "INSERT INTO account_hours AS h (
                 account_id, slot, succeeded, failed, cancelled, lag_10ms, lag_50ms, lag_100ms,
                 lag_250ms, lag_1s, lag_10s, lag_1min, lag_more)
             SELECT c.account_id, ",
            $($slot,)*
            ", c.succeeded, c.failed, c.cancelled, c.lag_10ms, c.lag_50ms, c.lag_100ms,
                 c.lag_250ms, c.lag_1s, c.lag_10s, c.lag_1min, c.lag_more
             FROM (
                 SELECT account_id, completed_at - completed_at % 3600000 AS hour,
                     max(completed_at % 3600000 / 1000) AS second,
                     count(*) FILTER (WHERE final = 2) AS succeeded,
                     count(*) FILTER (WHERE final = 3 AND error_code IS DISTINCT FROM 'CANCELLED')
                         AS failed,
                     count(*) FILTER (WHERE final = 3 AND error_code = 'CANCELLED') AS cancelled,
                     count(*) FILTER (WHERE lag = 0) AS lag_10ms,
                     count(*) FILTER (WHERE lag = 1) AS lag_50ms,
                     count(*) FILTER (WHERE lag = 2) AS lag_100ms,
                     count(*) FILTER (WHERE lag = 3) AS lag_250ms,
                     count(*) FILTER (WHERE lag = 4) AS lag_1s,
                     count(*) FILTER (WHERE lag = 5) AS lag_10s,
                     count(*) FILTER (WHERE lag = 6) AS lag_1min,
                     count(*) FILTER (WHERE lag = 7) AS lag_more
                 FROM ",
            $ended,
            " GROUP BY 1, 2) AS c ",
            $($free,)*
            " WHERE true
             ON CONFLICT (account_id, slot) DO UPDATE SET
                 succeeded = h.succeeded + excluded.succeeded,
                 failed = h.failed + excluded.failed,
                 cancelled = h.cancelled + excluded.cancelled,
                 lag_10ms = h.lag_10ms + excluded.lag_10ms,
                 lag_50ms = h.lag_50ms + excluded.lag_50ms,
                 lag_100ms = h.lag_100ms + excluded.lag_100ms,
                 lag_250ms = h.lag_250ms + excluded.lag_250ms,
                 lag_1s = h.lag_1s + excluded.lag_1s,
                 lag_10s = h.lag_10s + excluded.lag_10s,
                 lag_1min = h.lag_1min + excluded.lag_1min,
                 lag_more = h.lag_more + excluded.lag_more"
        )
    };
}
pub(in crate::store) use add_to_hours;

/// Returns the class of the start lag of a job, in the type of a column. The id of a job contains
/// the instant for which it is scheduled.
pub(in crate::store) fn lag_code(job: JobId, started_at: Timestamp) -> i16 {
    i16::try_from(lag_class(job.timestamp(), started_at)).unwrap_or(i16::MAX)
}

/// The number of lanes.
const LANES: i64 = 1_000_000;

/// Returns the lane of the transaction that ends this job: a random number below [`LANES`]. The lanes
/// below 1,000 insert another row. The last three digits are part of the slots of rows that the
/// transaction inserts. Two transactions that insert in the same second seldom have the same ones:
/// then one of them waits for the other.
pub(in crate::store) fn lane(job: JobId) -> i64 {
    let [.., a, b, c, d] = job.to_bytes();
    i64::from(u32::from_be_bytes([a, b, c, d])) % LANES
}

batch_row! {
    /// A job that was cancelled before its first or its next attempt.
    CancelledJobRow { account_id: Hex, completed_at: i64, lag: Option<u8> }
}

/// Adds cancelled jobs of an account to its hours: their ids, and the times of their first attempt
/// and of their end.
pub(in crate::store::sql) async fn count_cancelled(
    connection: &mut Connection<'_>,
    account: AccountId,
    jobs: &[(JobId, Option<Timestamp>, Timestamp)],
) -> SqlResult<()> {
    let Some((first, ..)) = jobs.first() else { return Ok(()) };
    let row = |(job, started, completed): &(JobId, Option<Timestamp>, Timestamp)| CancelledJobRow {
        account_id: Hex(account.to_bytes()),
        completed_at: completed.as_millis(),
        lag: started.and_then(|at| u8::try_from(lag_class(job.timestamp(), at)).ok()),
    };
    let rows = json(&jobs.iter().map(row).collect::<Vec<_>>());
    let dialect = connection.dialect();
    let query = sql::query(AssertSqlSafe(add_cancelled(dialect))).bind(rows);
    let query = match dialect {
        Dialect::Postgres => query.bind(lane(*first)),
        Dialect::Sqlite => query,
    };
    query.run(connection).await
}

/// Returns the statement that adds cancelled jobs to their hours. Parameters: the jobs and, in
/// PostgreSQL, the [`lane`].
pub(in crate::store) fn add_cancelled(dialect: Dialect) -> String {
    let rows = dialect.rows::<CancelledJobRow>("$1");
    let ended = format!("(SELECT r.*, 3 AS final, 'CANCELLED' AS error_code FROM {rows}) AS ended");
    match dialect {
        Dialect::Postgres => format!(add_to_hours!(postgres "{ended}", "$2"), ended = ended),
        Dialect::Sqlite => format!(add_to_hours!(sqlite "{ended}"), ended = ended),
    }
}

/// Reads the hours of an account. Parameters: account, the first instant.
pub(in crate::store) const HOURS: &str = "
    SELECT slot - slot % 3600000 AS hour, sum(succeeded) AS succeeded, sum(failed) AS failed,
           sum(cancelled) AS cancelled, sum(lag_10ms) AS lag_10ms, sum(lag_50ms) AS lag_50ms,
           sum(lag_100ms) AS lag_100ms, sum(lag_250ms) AS lag_250ms, sum(lag_1s) AS lag_1s,
           sum(lag_10s) AS lag_10s, sum(lag_1min) AS lag_1min, sum(lag_more) AS lag_more
    FROM account_hours
    WHERE account_id = $1 AND slot >= $2 AND EXISTS (SELECT 1 FROM accounts WHERE id = $1)
    GROUP BY 1 ORDER BY 1";

/// The columns of the classes of start lags, in their order.
const LAG_COLUMNS: [&str; LAG_CLASSES] =
    ["lag_10ms", "lag_50ms", "lag_100ms", "lag_250ms", "lag_1s", "lag_10s", "lag_1min", "lag_more"];

read_rows! {
    AccountHour {
        start: "hour", succeeded as i64, failed as i64, cancelled as i64, lags by lags,
    }
}

fn lags(row: &impl StoreRow) -> sqlx::Result<[u64; LAG_CLASSES]> {
    let mut lags = [0; LAG_CLASSES];
    for (lag, column) in lags.iter_mut().zip(LAG_COLUMNS) {
        *lag = number::<i64, _>(row, column)?;
    }
    Ok(lags)
}

/// Returns the statement that deletes old rows. Parameters: the start of the first hour that stays,
/// number of rows.
pub(in crate::store) fn prune_hours(dialect: Dialect) -> String {
    format!(
        "DELETE FROM account_hours WHERE (account_id, slot) IN
             (SELECT account_id, slot FROM account_hours WHERE slot < $1
              ORDER BY slot LIMIT $2 {})",
        dialect.skip_locked()
    )
}

#[async_trait]
impl<D: Database> HourStore for D {
    async fn hours(&self, account: AccountId, from: Timestamp) -> Result<Vec<AccountHour>> {
        let hour = hour_of(from);
        let first = if hour < from { hour.plus(Duration::from_hours(1)) } else { hour };
        self.api().all("hours", sql::query_as(HOURS).bind(account).bind(first)).await
    }

    async fn prune_hours(&self, before: Timestamp, limit: u32) -> Result<u64> {
        let first_kept = hour_of(before);
        let prune = sql::query(AssertSqlSafe(prune_hours(D::DIALECT)));
        let prune = prune.bind(first_kept).bind(i64::from(limit));
        let prune = call(execute_alone, ("prune hours", prune));
        self.scheduler().batch("prune_hours", limit as usize, prune).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_comes_from_the_random_part_of_an_id() {
        let lanes =
            [0, 1, u128::MAX].map(|random| lane(JobId::new(Timestamp::from_millis(7), random)));
        assert_eq!(lanes, [0, 1, 967_295]);
    }
}
