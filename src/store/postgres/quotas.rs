//! Jobs per month.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgConnection;

use super::error::{Fault, Outcome};
use super::partitions::Day;
use super::values::count;
use super::{PostgresStore, Within};
use crate::domain::plan::month_of;
use crate::domain::{AccountId, Timestamp};
use crate::store::accounts::start_of_month;
use crate::store::quotas::jobs;
use crate::store::{Granted, QuotaStore, Result, StoreErrorKind, UsedUp, Wanted, Write};

/// How long counting the jobs of a month may take.
const PATIENCE: Duration = Duration::from_secs(60);

const MISSING: &str = "
    SELECT w.account_id FROM unnest($2::uuid[]) AS w (account_id)
    WHERE NOT EXISTS (SELECT FROM account_months AS m
                      WHERE m.account_id = w.account_id AND m.month = $1)";

/// How many jobs accounts have made on a day, in the order of the accounts.
const MADE: &str = "
    SELECT (SELECT count(*) FROM jobs AS j
            WHERE j.account_id = w.account_id AND j.id >= $1 AND j.id < $2)
    FROM unnest($3::uuid[]) WITH ORDINALITY AS w (account_id, place) ORDER BY w.place";

const BEGIN: &str = "
    INSERT INTO account_months (account_id, month, reserved)
    SELECT w.account_id, $1, w.made FROM unnest($2::uuid[], $3::bigint[]) AS w (account_id, made)
    ORDER BY w.account_id
    ON CONFLICT DO NOTHING";

/// The rows are locked in the order of their accounts, and read as they are then.
macro_rules! reserve {
    ($held:literal) => {
        concat!(
            "WITH held AS MATERIALIZED (
                SELECT m.account_id, m.reserved, m.exhausted_at, w.jobs,
                       greatest(w.quota - m.reserved, 0) AS left_over
                FROM unnest($3::uuid[], $4::bigint[], $5::bigint[]) AS w (account_id, quota, jobs)
                JOIN account_months AS m ON m.account_id = w.account_id AND m.month = $1
                ORDER BY m.account_id FOR NO KEY UPDATE OF m ",
            $held,
            "), granted AS (
                SELECT h.*, least(h.left_over, greatest(h.jobs, least((h.left_over + 99) / 100, $6)))
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
            FROM granted"
        )
    };
}

/// For leaders, who wait for nobody.
const RESERVE: &str = reserve!("SKIP LOCKED");
/// For a job that a user asks for.
const TAKE: &str = reserve!("");

#[async_trait]
impl QuotaStore for PostgresStore {
    async fn reserve_jobs(
        &self,
        now: Timestamp,
        ahead: u32,
        wanted: &[Wanted],
    ) -> Result<Vec<Granted>> {
        let wanted: Arc<[Wanted]> = wanted.into();
        self.scheduler
            .run("reserve_jobs", Within::Statement, move |connection| {
                let wanted = wanted.clone();
                Box::pin(async move { reserve(connection, RESERVE, now, ahead, &wanted).await })
            })
            .await
    }

    async fn begin_months(&self, now: Timestamp, accounts: &[AccountId]) -> Result<()> {
        let accounts: Arc<[AccountId]> = accounts.into();
        let begun = self.scheduler.patiently(PATIENCE, Within::Statement, move |connection| {
            let accounts = accounts.clone();
            Box::pin(async move { begin(connection, now, &accounts).await })
        });
        begun.await.map_err(|fault| fault.of("begin_months"))
    }

    async fn plans_of(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, String)>> {
        let accounts: Arc<[AccountId]> = accounts.into();
        self.executor
            .run("plans_of", Within::Statement, move |connection| {
                let accounts = accounts.clone();
                Box::pin(async move {
                    let query = "SELECT id, plan FROM accounts WHERE id = ANY ($1)";
                    Ok(sqlx::query_as(query).bind(&*accounts).fetch_all(connection).await?)
                })
            })
            .await
    }
}

/// Takes one job of the month, in the transaction that makes it; says so if there is none left.
pub(super) async fn take_one(
    connection: &mut PgConnection,
    write: Write,
    quota: u64,
) -> Outcome<Option<UsedUp>> {
    let Write { account, now, .. } = write;
    let wanted = [Wanted { account, quota, jobs: 1 }];
    let mut granted = reserve(connection, TAKE, now, 0, &wanted).await?;
    if granted.is_empty() {
        begin(connection, now, &[account]).await?;
        granted = reserve(connection, TAKE, now, 0, &wanted).await?;
    }
    let removed = || Fault::new(StoreErrorKind::Unavailable, "the counter was just removed");
    Ok(granted.first().ok_or_else(removed)?.used_up())
}

async fn reserve(
    connection: &mut PgConnection,
    statement: &'static str,
    now: Timestamp,
    ahead: u32,
    wanted: &[Wanted],
) -> Outcome<Vec<Granted>> {
    let accounts: Vec<AccountId> = wanted.iter().map(|wanted| wanted.account).collect();
    let quotas: Vec<i64> = wanted.iter().map(|wanted| jobs(wanted.quota)).collect();
    let needed: Vec<i64> = wanted.iter().map(|wanted| wanted.jobs.into()).collect();
    let rows: Vec<(AccountId, i64, i64, bool)> = sqlx::query_as(statement)
        .bind(month_of(now))
        .bind(now)
        .bind(&accounts)
        .bind(&quotas)
        .bind(&needed)
        .bind(i64::from(ahead))
        .fetch_all(connection)
        .await?;
    let granted = rows.into_iter().map(|(account, jobs, reserved, newly_exhausted)| Granted {
        account,
        jobs: count(jobs),
        reserved: count(reserved),
        newly_exhausted,
    });
    Ok(granted.collect())
}

/// Nothing is locked while it is counted, and each day by itself, so that no statement takes long:
/// days are tables of their own.
async fn begin(
    connection: &mut PgConnection,
    now: Timestamp,
    accounts: &[AccountId],
) -> Outcome<()> {
    let month = month_of(now);
    let missing: Vec<AccountId> =
        sqlx::query_scalar(MISSING).bind(month).bind(accounts).fetch_all(&mut *connection).await?;
    if missing.is_empty() {
        return Ok(());
    }
    let mut made = vec![0; missing.len()];
    let (mut day, last) = (Day::of(start_of_month(now)), Day::of(now));
    while day <= last {
        let of_day: Vec<i64> = sqlx::query_scalar(MADE)
            .bind(day.first_id())
            .bind(day.plus(1).first_id())
            .bind(&missing)
            .fetch_all(&mut *connection)
            .await?;
        made.iter_mut().zip(of_day).for_each(|(sum, more)| *sum += more);
        day = day.plus(1);
    }
    sqlx::query(BEGIN).bind(month).bind(&missing).bind(&made).execute(connection).await?;
    Ok(())
}
