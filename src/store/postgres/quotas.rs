//! Jobs per month.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;

use super::error::Outcome;
use super::values::{count, key_from};
use super::{PostgresStore, Within};
use crate::domain::plan::month_of;
use crate::domain::{AccountId, Timestamp};
use crate::store::accounts::start_of_month;
use crate::store::quotas::jobs;
use crate::store::{Granted, QuotaStore, Result, Wanted};

/// Makes the counters that are not there yet.
const BEGIN: &str = "
    INSERT INTO account_months (account_id, month, reserved)
    SELECT w.account_id, $1, (SELECT count(*) FROM
        (SELECT FROM jobs AS j WHERE j.account_id = w.account_id AND j.id >= $2 LIMIT w.quota) AS made)
    FROM unnest($3::uuid[], $4::bigint[]) AS w (account_id, quota)
    WHERE NOT EXISTS (SELECT FROM account_months AS m
                      WHERE m.account_id = w.account_id AND m.month = $1)
    ORDER BY w.account_id
    ON CONFLICT DO NOTHING";

/// The rows are locked in the order of their accounts, and read as they are then.
const RESERVE: &str = "
    WITH held AS MATERIALIZED (
        SELECT m.account_id, m.reserved, m.exhausted_at, w.jobs,
               greatest(w.quota - m.reserved, 0) AS left_over
        FROM unnest($3::uuid[], $4::bigint[], $5::bigint[]) AS w (account_id, quota, jobs)
        JOIN account_months AS m ON m.account_id = w.account_id AND m.month = $1
        ORDER BY m.account_id FOR NO KEY UPDATE OF m
    ), granted AS (
        SELECT h.*, least(h.left_over, greatest(h.jobs, least((h.left_over + 99) / 100, $6))) AS count
        FROM held AS h
    ), written AS (
        UPDATE account_months AS m
        SET reserved = g.reserved + g.count,
            exhausted_at = CASE WHEN g.count < g.jobs THEN coalesce(g.exhausted_at, $2)
                                ELSE g.exhausted_at END
        FROM granted AS g
        WHERE m.account_id = g.account_id AND m.month = $1
          AND (g.count > 0 OR g.exhausted_at IS NULL)
    )
    SELECT account_id, count, count < jobs AND exhausted_at IS NULL FROM granted";

#[async_trait]
impl QuotaStore for PostgresStore {
    async fn reserve_jobs(
        &self,
        now: Timestamp,
        ahead: u32,
        wanted: &[Wanted],
    ) -> Result<Vec<Granted>> {
        let wanted: Arc<[Wanted]> = wanted.into();
        // Leaders reserve ahead, users' requests do not.
        let connections = if ahead > 0 { &self.scheduler } else { &self.api };
        connections
            .run("reserve_jobs", Within::Transaction, move |connection| {
                Box::pin(reserve(connection, now, ahead, wanted.clone()))
            })
            .await
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

async fn reserve(
    connection: &mut PgConnection,
    now: Timestamp,
    ahead: u32,
    wanted: Arc<[Wanted]>,
) -> Outcome<Vec<Granted>> {
    let accounts: Vec<AccountId> = wanted.iter().map(|wanted| wanted.account).collect();
    let quotas: Vec<i64> = wanted.iter().map(|wanted| jobs(wanted.quota)).collect();
    let needed: Vec<i64> = wanted.iter().map(|wanted| wanted.jobs.into()).collect();
    sqlx::query(BEGIN)
        .bind(month_of(now))
        .bind(key_from(start_of_month(now)))
        .bind(&accounts)
        .bind(&quotas)
        .execute(&mut *connection)
        .await?;
    let rows: Vec<(AccountId, i64, bool)> = sqlx::query_as(RESERVE)
        .bind(month_of(now))
        .bind(now)
        .bind(&accounts)
        .bind(&quotas)
        .bind(&needed)
        .bind(i64::from(ahead))
        .fetch_all(connection)
        .await?;
    let granted = rows.into_iter().map(|(account, jobs, newly_exhausted)| Granted {
        account,
        jobs: count(jobs),
        newly_exhausted,
    });
    Ok(granted.collect())
}
