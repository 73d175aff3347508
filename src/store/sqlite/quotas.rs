//! Jobs per month.

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::error::Outcome;
use super::values::{json_ids, key_from};
use super::{SqliteStore, failed_in};
use crate::domain::plan::month_of;
use crate::domain::{AccountId, Timestamp};
use crate::store::accounts::start_of_month;
use crate::store::quotas::jobs;
use crate::store::{Granted, QuotaStore, Result, Wanted};

#[async_trait]
impl QuotaStore for SqliteStore {
    async fn reserve_jobs(
        &self,
        now: Timestamp,
        ahead: u32,
        wanted: &[Wanted],
    ) -> Result<Vec<Granted>> {
        let wanted = wanted.to_vec();
        self.write_rows("reserve_jobs", wanted.len(), move |connection| {
            Box::pin(async move {
                let mut granted = Vec::with_capacity(wanted.len());
                for wanted in wanted {
                    granted.push(reserve(connection, now, ahead, wanted).await?);
                }
                Ok(granted)
            })
        })
        .await
    }

    async fn plans_of(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, String)>> {
        let query = sqlx::query_as(
            "SELECT id, plan FROM accounts
             WHERE id IN (SELECT unhex(value) FROM json_each(?1))",
        );
        self.readers.all(query.bind(json_ids(accounts))).await.map_err(failed_in("plans_of"))
    }
}

async fn reserve(
    connection: &mut SqliteConnection,
    now: Timestamp,
    ahead: u32,
    wanted: Wanted,
) -> Outcome<Granted> {
    let (account, month) = (wanted.account, month_of(now));
    sqlx::query(
        "INSERT INTO account_months (account_id, month, reserved)
         SELECT ?1, ?2, (SELECT count(*) FROM
             (SELECT 1 FROM jobs WHERE account_id = ?1 AND id >= ?3 LIMIT ?4))
         WHERE NOT EXISTS (SELECT 1 FROM account_months WHERE account_id = ?1 AND month = ?2)",
    )
    .bind(account)
    .bind(month)
    .bind(key_from(start_of_month(now)))
    .bind(jobs(wanted.quota))
    .execute(&mut *connection)
    .await?;
    let (reserved, exhausted): (i64, bool) = sqlx::query_as(
        "SELECT reserved, exhausted_at IS NOT NULL FROM account_months
         WHERE account_id = ?1 AND month = ?2",
    )
    .bind(account)
    .bind(month)
    .fetch_one(&mut *connection)
    .await?;
    let left = jobs(wanted.quota).saturating_sub(reserved).max(0);
    let some = ((left + 99) / 100).min(i64::from(ahead));
    let granted = some.max(i64::from(wanted.jobs)).min(left);
    let newly_exhausted = granted < i64::from(wanted.jobs) && !exhausted;
    if granted > 0 || newly_exhausted {
        sqlx::query(
            "UPDATE account_months SET reserved = reserved + ?3,
                 exhausted_at = iif(?4, ?5, exhausted_at)
             WHERE account_id = ?1 AND month = ?2",
        )
        .bind(account)
        .bind(month)
        .bind(granted)
        .bind(newly_exhausted)
        .bind(now)
        .execute(connection)
        .await?;
    }
    Ok(Granted { account, jobs: granted.unsigned_abs(), newly_exhausted })
}
