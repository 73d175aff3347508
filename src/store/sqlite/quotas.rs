//! Jobs per month.

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::access::Connections;
use super::values::{json_ids, key_from};
use super::{SqliteStore, failed_in};
use crate::domain::plan::month_of;
use crate::domain::{AccountId, Timestamp};
use crate::store::months::{Counter, oldest_kept};
use crate::store::quotas::jobs;
use crate::store::sql::fault::Outcome;
use crate::store::{Granted, Grants, QuotaStore, Result, Triggered, Wanted, Write};

const MISSING: &str = "
    SELECT w.id FROM (SELECT unhex(value) AS id FROM json_each(?2)) AS w
    WHERE NOT EXISTS (SELECT 1 FROM account_months WHERE account_id = w.id AND month = ?1)";

/// How many jobs accounts have made in some time, counted to a number, in the order of the accounts.
pub(super) const MADE: &str = "
    SELECT (SELECT count(*) FROM
                (SELECT 1 FROM jobs
                 WHERE account_id = unhex(w.value) AND id >= ?1 AND id < ?2
                 UNION ALL
                 SELECT 1 FROM runs
                 WHERE account_id = unhex(w.value) AND id >= ?1 AND id < ?2 LIMIT ?4))
    FROM json_each(?3) AS w ORDER BY w.key";

const BEGIN: &str = "
    INSERT INTO account_months (account_id, month, reserved)
    VALUES (?1, ?2, max(?3, coalesce((SELECT reserved FROM account_months
                                      WHERE account_id = ?1 AND month = -?2), 0)))
    ON CONFLICT DO NOTHING";

const PRUNE: &str = "DELETE FROM account_months WHERE account_id = ?1 AND abs(month) < ?2";

#[async_trait]
impl QuotaStore for SqliteStore {
    async fn reserve_jobs(&self, now: Timestamp, ahead: u32, wanted: &[Wanted]) -> Result<Grants> {
        let wanted = wanted.to_vec();
        self.write_rows("reserve_jobs", wanted.len(), move |connection| {
            Box::pin(async move {
                let mut grants = Grants::default();
                for wanted in wanted {
                    grants.granted.extend(reserve(connection, now, ahead, wanted).await?);
                }
                Ok(grants)
            })
        })
        .await
    }

    /// Nobody holds a counter: writes take turns.
    async fn await_jobs(
        &self,
        now: Timestamp,
        ahead: u32,
        wanted: &Wanted,
    ) -> Result<Option<Granted>> {
        let wanted = *wanted;
        self.write("await_jobs", move |connection| {
            Box::pin(reserve(connection, now, ahead, wanted))
        })
        .await
    }

    async fn begin_months(&self, now: Timestamp, accounts: &[AccountId]) -> Result<()> {
        self.months.begin(now, accounts).await
    }

    async fn plans_of(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, String)>> {
        let query = sqlx::query_as(
            "SELECT id, plan FROM accounts
             WHERE id IN (SELECT unhex(value) FROM json_each(?1))",
        );
        self.connections
            .readers
            .all(query.bind(json_ids(accounts)))
            .await
            .map_err(failed_in("plans_of"))
    }
}

/// Counts beside the writer, so that nobody waits for it.
pub(super) struct Counts(pub(super) Connections);

#[async_trait]
impl Counter for Counts {
    async fn missing(&self, month: i64, accounts: Vec<AccountId>) -> Result<Vec<AccountId>> {
        let query = sqlx::query_as(MISSING).bind(month).bind(json_ids(&accounts));
        let missing: Vec<(AccountId,)> =
            self.0.readers.all(query).await.map_err(failed_in("begin_months"))?;
        Ok(missing.into_iter().map(|(account,)| account).collect())
    }

    async fn made(
        &self,
        accounts: Vec<AccountId>,
        (from, to): (Timestamp, Timestamp),
        most: i64,
    ) -> Result<Vec<i64>> {
        let query = sqlx::query_as(MADE).bind(key_from(from)).bind(key_from(to));
        let query = query.bind(json_ids(&accounts)).bind(most);
        let made: Vec<(i64,)> =
            self.0.readers.all(query).await.map_err(failed_in("begin_months"))?;
        Ok(made.into_iter().map(|(jobs,)| jobs).collect())
    }

    async fn begin(&self, month: i64, made: Vec<(AccountId, i64)>) -> Result<()> {
        self.0
            .writer
            .write("begin_months", made.len(), move |connection| {
                Box::pin(async move {
                    for (account, made) in made {
                        let query = sqlx::query(PRUNE).bind(account).bind(oldest_kept(month));
                        query.execute(&mut *connection).await?;
                        let query = sqlx::query(BEGIN).bind(account).bind(month).bind(made);
                        query.execute(&mut *connection).await?;
                    }
                    Ok(())
                })
            })
            .await
    }
}

/// Takes one job of the month, in the transaction that makes it; why not, if it cannot be taken.
pub(super) async fn take_one(
    connection: &mut SqliteConnection,
    write: Write,
    quota: u64,
) -> Outcome<Option<Triggered>> {
    let wanted = Wanted { account: write.account, quota, jobs: 1 };
    let granted = reserve(connection, write.now, 0, wanted).await?;
    Ok(granted
        .map_or(Some(Triggered::Uncounted), |granted| granted.used_up().map(Triggered::UsedUp)))
}

/// `None` if the counter is not there.
async fn reserve(
    connection: &mut SqliteConnection,
    now: Timestamp,
    ahead: u32,
    wanted: Wanted,
) -> Outcome<Option<Granted>> {
    let (account, month) = (wanted.account, month_of(now));
    let counter: Option<(i64, bool)> = sqlx::query_as(
        "SELECT reserved, exhausted_at IS NOT NULL FROM account_months
         WHERE account_id = ?1 AND month = ?2",
    )
    .bind(account)
    .bind(month)
    .fetch_optional(&mut *connection)
    .await?;
    let Some((reserved, exhausted)) = counter else { return Ok(None) };
    let left = jobs(wanted.quota).saturating_sub(reserved).max(0);
    let some = ((left + 99) / 100).min(i64::from(ahead));
    let granted = some.max(i64::from(wanted.jobs)).min(left);
    let is_short = granted < i64::from(wanted.jobs);
    let newly_exhausted = is_short && !exhausted;
    if granted > 0 || newly_exhausted {
        sqlx::query(
            "UPDATE account_months SET reserved = reserved + ?3,
                 exhausted_at = iif(?4, coalesce(exhausted_at, ?5), NULL)
             WHERE account_id = ?1 AND month = ?2",
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
    Ok(Some(Granted { account, jobs: granted.unsigned_abs(), reserved, newly_exhausted }))
}
