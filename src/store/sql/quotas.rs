//! The monthly quotas of jobs.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::AssertSqlSafe;

use crate::domain::plan::month_of;
use crate::domain::{AccountId, Timestamp};
use crate::store::contract::quotas::jobs;
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::connection::query::execute_all;
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::batch_rows::{ColumnType, batch_row, json, json_ids};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::encoding::values::key_from;
use crate::store::sql::error::SqlResult;
use crate::store::sql::months::{MonthCounter, oldest_kept};
use crate::store::{
    GrantedJobs, JobGrants, QuotaStore, Result, TriggerResult, WantedJobs, WriteContext, sql,
};

#[async_trait]
impl<D: Database> QuotaStore for D {
    async fn reserve_jobs(
        &self,
        now: Timestamp,
        ahead: u32,
        wanted: &[WantedJobs],
    ) -> Result<JobGrants> {
        let wanted: Arc<[WantedJobs]> = wanted.into();
        let (count, reserve) = (wanted.len(), call(reserve_all, (now, ahead, wanted)));
        self.scheduler().statement("reserve_jobs", count, reserve).await
    }

    async fn await_jobs(
        &self,
        now: Timestamp,
        ahead: u32,
        wanted: &WantedJobs,
    ) -> Result<Option<GrantedJobs>> {
        let granted = self
            .scheduler()
            .brief_lock_transaction("await_jobs", call(reserve, (now, ahead, *wanted)));
        Ok(granted.await?.flatten())
    }

    async fn begin_months(&self, now: Timestamp, accounts: &[AccountId]) -> Result<()> {
        self.months().begin(now, accounts).await
    }

    async fn plans_of(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, String)>> {
        let plans = format!(
            "SELECT id, plan FROM accounts WHERE {}",
            D::DIALECT.among("id", ColumnType::Id, "$1")
        );
        let plans = sql::query_as(AssertSqlSafe(plans)).bind(ids(accounts));
        self.executor().all("plans_of", plans).await
    }
}

fn ids(accounts: &[AccountId]) -> String {
    json_ids(accounts.iter().map(|account| account.to_bytes()))
}

/// Takes one job of the month's quota, in the transaction that creates the job. Returns the reason
/// if there is none left.
pub(in crate::store::sql) async fn take_one(
    connection: &mut Connection<'_>,
    write: WriteContext,
    quota: u64,
) -> SqlResult<Option<TriggerResult>> {
    let wanted = WantedJobs { account: write.account, quota, jobs: 1 };
    let granted = reserve(connection, write.now, 0, wanted).await?;
    Ok(granted.map_or(Some(TriggerResult::Uncounted), |granted| {
        granted.used_up().map(TriggerResult::UsedUp)
    }))
}

/// Reserves jobs of accounts. PostgreSQL skips the accounts whose counters are locked.
async fn reserve_all(
    connection: &mut Connection<'_>,
    now: Timestamp,
    ahead: u32,
    wanted: Arc<[WantedJobs]>,
) -> SqlResult<JobGrants> {
    if connection.dialect() == Dialect::Postgres {
        return reserve_free(connection, now, ahead, &wanted).await;
    }
    let mut grants = JobGrants::default();
    for wanted in &*wanted {
        grants.granted.extend(reserve(connection, now, ahead, *wanted).await?);
    }
    Ok(grants)
}

/// Reserves jobs of one account, and locks its counter. Returns `None` if there is no counter.
async fn reserve(
    connection: &mut Connection<'_>,
    now: Timestamp,
    ahead: u32,
    wanted: WantedJobs,
) -> SqlResult<Option<GrantedJobs>> {
    let (account, month) = (wanted.account, month_of(now));
    let counter = sql::query_as(AssertSqlSafe(format!(
        "SELECT reserved, exhausted_at IS NOT NULL FROM account_months
         WHERE account_id = $1 AND month = $2 {}",
        connection.dialect().exclusive_lock()
    )));
    let counter = counter.bind(account).bind(month).fetch_optional(connection).await?;
    let Some((reserved, exhausted)): Option<(i64, bool)> = counter else { return Ok(None) };
    let left = jobs(wanted.quota).saturating_sub(reserved).max(0);
    let some = ((left + 99) / 100).min(i64::from(ahead));
    let granted = some.max(i64::from(wanted.jobs)).min(left);
    let is_short = granted < i64::from(wanted.jobs);
    let newly_exhausted = is_short && !exhausted;
    if granted > 0 || newly_exhausted {
        sql::query(
            "UPDATE account_months SET reserved = reserved + $3,
                 exhausted_at = CASE WHEN $4 THEN coalesce(exhausted_at, $5) END
             WHERE account_id = $1 AND month = $2",
        )
        .bind(account)
        .bind(month)
        .bind(granted)
        .bind(is_short)
        .bind(now)
        .execute(connection)
        .await?;
    }
    let reserved = (reserved + granted).unsigned_abs();
    Ok(Some(GrantedJobs { account, jobs: granted.unsigned_abs(), reserved, newly_exhausted }))
}

batch_row! {
    /// The jobs that an account wants. A column of 64 bits: they are compared with such ones.
    WantedRow { account_id: Hex, quota: i64, jobs: i64 }
}

/// An account; the number of jobs granted, the number reserved including them, and `true` if the
/// quota fell short for the first time. All three are null if another transaction has locked the
/// counter.
type GrantedRow = (AccountId, Option<i64>, Option<i64>, Option<bool>);

/// Reserves jobs of the accounts whose counters are not locked, in one statement of PostgreSQL,
/// because a leader must not wait. The rows are locked in the order of their accounts, and read
/// after they are locked.
async fn reserve_free(
    connection: &mut Connection<'_>,
    now: Timestamp,
    ahead: u32,
    wanted: &[WantedJobs],
) -> SqlResult<JobGrants> {
    let rows = connection.dialect().rows::<WantedRow>("$3");
    let reserve = sql::query_as(AssertSqlSafe(format!(
        "WITH held AS MATERIALIZED (
            SELECT m.account_id, m.reserved, m.exhausted_at, r.jobs,
                   greatest(r.quota - m.reserved, 0) AS left_over
            FROM {rows}
            JOIN account_months AS m ON m.account_id = r.account_id AND m.month = $1
            ORDER BY m.account_id FOR NO KEY UPDATE OF m SKIP LOCKED
        ), granted AS (
            SELECT h.*, least(h.left_over, greatest(h.jobs, least((h.left_over + 99) / 100, $4)))
                        AS count
            FROM held AS h
        ), written AS (
            UPDATE account_months AS m
            SET reserved = g.reserved + g.count,
                exhausted_at = CASE WHEN g.count < g.jobs THEN coalesce(g.exhausted_at, $2) END
            FROM granted AS g
            WHERE m.account_id = g.account_id AND m.month = $1
              AND (g.count > 0 OR g.exhausted_at IS NULL)
        )
        SELECT account_id, count, reserved + count, count < jobs AND exhausted_at IS NULL
        FROM granted
        UNION ALL
        SELECT m.account_id, NULL, NULL, NULL
        FROM {rows} JOIN account_months AS m ON m.account_id = r.account_id AND m.month = $1
        WHERE m.account_id NOT IN (SELECT h.account_id FROM held AS h)"
    )));
    let row = |wanted: &WantedJobs| WantedRow {
        account_id: Hex(wanted.account.to_bytes()),
        quota: jobs(wanted.quota),
        jobs: wanted.jobs.into(),
    };
    let wanted: Vec<WantedRow> = wanted.iter().map(row).collect();
    let reserve = reserve.bind(month_of(now)).bind(now).bind(json(&wanted)).bind(i64::from(ahead));
    let answers: Vec<GrantedRow> = reserve.fetch_all(connection).await?;
    let mut grants = JobGrants::default();
    for (account, jobs, reserved, newly_exhausted) in answers {
        match (jobs, reserved, newly_exhausted) {
            (Some(jobs), Some(reserved), Some(newly_exhausted)) => {
                let (jobs, reserved) = (jobs.unsigned_abs(), reserved.unsigned_abs());
                grants.granted.push(GrantedJobs { account, jobs, reserved, newly_exhausted });
            }
            _ => grants.held.push(account),
        }
    }
    Ok(grants)
}

/// Counts the jobs of accounts.
pub(in crate::store) struct JobCounts<A>(pub(in crate::store) Arc<A>);

/// Returns the statement that counts the jobs that each account has made in a period, up to a
/// maximum, in the order of the accounts.
pub(in crate::store) fn made(dialect: Dialect) -> String {
    format!(
        "SELECT (SELECT count(*) FROM
                    (SELECT 1 FROM jobs AS j
                     WHERE j.account_id = e.id AND j.id >= $1 AND j.id < $2
                     UNION ALL
                     SELECT 1 FROM runs AS r
                     WHERE r.account_id = e.id AND r.id >= $1 AND r.id < $2 AND r.status < 2
                     LIMIT $4) AS made)
         FROM {} ORDER BY e.position",
        dialect.listed("$3")
    )
}

batch_row! {
    /// The number of jobs that an account has made.
    MadeRow { account_id: Hex, made: i64 }
}

#[async_trait]
impl<A: Access + 'static> MonthCounter for JobCounts<A> {
    async fn missing(&self, month: i64, accounts: Vec<AccountId>) -> Result<Vec<AccountId>> {
        let missing = sql::query_scalar(AssertSqlSafe(format!(
            "SELECT e.id FROM {}
             WHERE NOT EXISTS (SELECT 1 FROM account_months WHERE account_id = e.id AND month = $1)",
            A::DIALECT.listed("$2")
        )));
        self.0.scalars("begin_months", missing.bind(month).bind(ids(&accounts))).await
    }

    async fn made(
        &self,
        accounts: Vec<AccountId>,
        (from, to): (Timestamp, Timestamp),
        most: i64,
    ) -> Result<Vec<i64>> {
        let made = sql::query_scalar(AssertSqlSafe(made(A::DIALECT)));
        let made = made.bind(key_from(from)).bind(key_from(to)).bind(ids(&accounts)).bind(most);
        self.0.scalars("begin_months", made).await
    }

    async fn begin(&self, month: i64, made: Vec<(AccountId, i64)>) -> Result<()> {
        let prune = sql::query(AssertSqlSafe(format!(
            "DELETE FROM account_months WHERE {} AND abs(month) < $2",
            A::DIALECT.among("account_id", ColumnType::Id, "$1")
        )));
        let accounts: Vec<AccountId> = made.iter().map(|(account, _)| *account).collect();
        let prune = prune.bind(ids(&accounts)).bind(oldest_kept(month));
        let begin = sql::query(AssertSqlSafe(format!(
            "INSERT INTO account_months (account_id, month, reserved)
             SELECT r.account_id, $1, {}(r.made, coalesce(f.reserved, 0))
             FROM {} LEFT JOIN account_months AS f ON f.account_id = r.account_id AND f.month = $3
             WHERE true ORDER BY r.account_id
             ON CONFLICT DO NOTHING",
            A::DIALECT.greatest(),
            A::DIALECT.rows::<MadeRow>("$2")
        )));
        let row = |(account, made): &(AccountId, i64)| MadeRow {
            account_id: Hex(account.to_bytes()),
            made: *made,
        };
        let rows = json(&made.iter().map(row).collect::<Vec<_>>());
        let begin = begin.bind(month).bind(rows).bind(-month);
        self.0.batch("begin_months", made.len(), call(execute_all, ([prune, begin],))).await
    }
}
