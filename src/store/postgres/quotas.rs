//! Jobs per month.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;

use super::pool::Connections;
use super::values::{count, key_from};
use super::{PostgresStore, Within};
use crate::domain::plan::month_of;
use crate::domain::{AccountId, Timestamp};
use crate::store::months::{Counter, oldest_kept};
use crate::store::quotas::jobs;
use crate::store::sql::fault::Outcome;
use crate::store::{Granted, Grants, QuotaStore, Result, StoreErrorKind, Triggered, Wanted, Write};

const MISSING: &str = "
    SELECT w.account_id FROM unnest($2::uuid[]) AS w (account_id)
    WHERE NOT EXISTS (SELECT FROM account_months AS m
                      WHERE m.account_id = w.account_id AND m.month = $1)";

/// How many jobs accounts have made in some time, counted to a number, in the order of the accounts.
const MADE: &str = "
    SELECT (SELECT count(*) FROM
                (SELECT FROM jobs AS j
                 WHERE j.account_id = w.account_id AND j.id >= $1 AND j.id < $2
                 UNION ALL
                 SELECT FROM runs AS r
                 WHERE r.account_id = w.account_id AND r.id >= $1 AND r.id < $2 LIMIT $4) AS made)
    FROM unnest($3::uuid[]) WITH ORDINALITY AS w (account_id, place) ORDER BY w.place";

const BEGIN: &str = "
    INSERT INTO account_months (account_id, month, reserved)
    SELECT w.account_id, $1, greatest(w.made, f.reserved)
    FROM unnest($2::uuid[], $3::bigint[]) AS w (account_id, made)
    LEFT JOIN account_months AS f ON f.account_id = w.account_id AND f.month = -$1::bigint
    ORDER BY w.account_id
    ON CONFLICT DO NOTHING";

const PRUNE: &str = "DELETE FROM account_months WHERE account_id = ANY ($1) AND abs(month) < $2";

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
            FROM granted
            UNION ALL
            SELECT m.account_id, NULL, NULL, NULL
            FROM unnest($3::uuid[]) AS w (account_id)
            JOIN account_months AS m ON m.account_id = w.account_id AND m.month = $1
            WHERE m.account_id NOT IN (SELECT h.account_id FROM held AS h)"
        )
    };
}

/// For leaders, who wait for nobody.
const RESERVE: &str = reserve!("SKIP LOCKED");
/// For a job that a user asks for, and for leaders who would not get any otherwise.
const TAKE: &str = reserve!("");

/// An account; what was granted, what is reserved with it, and whether that was too little for the
/// first time: nothing where somebody else holds the counter.
type Answer = (AccountId, Option<i64>, Option<i64>, Option<bool>);

#[async_trait]
impl QuotaStore for PostgresStore {
    async fn reserve_jobs(&self, now: Timestamp, ahead: u32, wanted: &[Wanted]) -> Result<Grants> {
        let wanted: Arc<[Wanted]> = wanted.into();
        self.scheduler
            .run("reserve_jobs", Within::Statement, move |connection| {
                let wanted = wanted.clone();
                Box::pin(async move { reserve(connection, RESERVE, now, ahead, &wanted).await })
            })
            .await
    }

    async fn await_jobs(
        &self,
        now: Timestamp,
        ahead: u32,
        wanted: &Wanted,
    ) -> Result<Option<Granted>> {
        let wanted = [*wanted];
        let grants = self.scheduler.try_run(Within::Impatience, move |connection| {
            Box::pin(async move { reserve(connection, TAKE, now, ahead, &wanted).await })
        });
        match grants.await {
            Ok(grants) => Ok(grants.granted.first().copied()),
            Err(fault) if fault.kind == StoreErrorKind::Locked => Ok(None),
            Err(fault) => Err(fault.of("await_jobs")),
        }
    }

    async fn begin_months(&self, now: Timestamp, accounts: &[AccountId]) -> Result<()> {
        self.months.begin(now, accounts).await
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

/// Takes one job of the month, in the transaction that makes it; why not, if it cannot be taken.
pub(super) async fn take_one(
    connection: &mut PgConnection,
    write: Write,
    quota: u64,
) -> Outcome<Option<Triggered>> {
    let wanted = [Wanted { account: write.account, quota, jobs: 1 }];
    let grants = reserve(connection, TAKE, write.now, 0, &wanted).await?;
    Ok(grants
        .granted
        .first()
        .map_or(Some(Triggered::Uncounted), |granted| granted.used_up().map(Triggered::UsedUp)))
}

async fn reserve(
    connection: &mut PgConnection,
    statement: &'static str,
    now: Timestamp,
    ahead: u32,
    wanted: &[Wanted],
) -> Outcome<Grants> {
    let accounts: Vec<AccountId> = wanted.iter().map(|wanted| wanted.account).collect();
    let quotas: Vec<i64> = wanted.iter().map(|wanted| jobs(wanted.quota)).collect();
    let needed: Vec<i64> = wanted.iter().map(|wanted| wanted.jobs.into()).collect();
    let rows: Vec<Answer> = sqlx::query_as(statement)
        .bind(month_of(now))
        .bind(now)
        .bind(&accounts)
        .bind(&quotas)
        .bind(&needed)
        .bind(i64::from(ahead))
        .fetch_all(connection)
        .await?;
    let mut grants = Grants::default();
    for (account, jobs, reserved, newly_exhausted) in rows {
        match (jobs, reserved, newly_exhausted) {
            (Some(jobs), Some(reserved), Some(newly_exhausted)) => {
                let (jobs, reserved) = (count(jobs), count(reserved));
                grants.granted.push(Granted { account, jobs, reserved, newly_exhausted });
            }
            _ => grants.held.push(account),
        }
    }
    Ok(grants)
}

/// Counts over the connections of leaders, each time over one.
pub(super) struct Counts(pub(super) Arc<Connections>);

#[async_trait]
impl Counter for Counts {
    async fn missing(&self, month: i64, accounts: Vec<AccountId>) -> Result<Vec<AccountId>> {
        let accounts: Arc<[AccountId]> = accounts.into();
        self.0
            .run("begin_months", Within::Statement, move |connection| {
                let accounts = accounts.clone();
                Box::pin(async move {
                    let query = sqlx::query_scalar(MISSING).bind(month).bind(&*accounts);
                    Ok(query.fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn made(
        &self,
        accounts: Vec<AccountId>,
        (from, to): (Timestamp, Timestamp),
        most: i64,
    ) -> Result<Vec<i64>> {
        let accounts: Arc<[AccountId]> = accounts.into();
        self.0
            .run("begin_months", Within::Statement, move |connection| {
                let accounts = accounts.clone();
                Box::pin(async move {
                    let query = sqlx::query_scalar(MADE).bind(key_from(from)).bind(key_from(to));
                    Ok(query.bind(&*accounts).bind(most).fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn begin(&self, month: i64, made: Vec<(AccountId, i64)>) -> Result<()> {
        let (accounts, made): (Vec<AccountId>, Vec<i64>) = made.into_iter().unzip();
        self.0
            .run("begin_months", Within::Transaction, move |connection| {
                let prune = sqlx::query(PRUNE).bind(accounts.clone()).bind(oldest_kept(month));
                let begin = sqlx::query(BEGIN).bind(month);
                let begin = begin.bind(accounts.clone()).bind(made.clone());
                Box::pin(async move {
                    prune.execute(&mut *connection).await?;
                    begin.execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }
}
