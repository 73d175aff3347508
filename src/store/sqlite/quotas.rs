//! Jobs per month.

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::error::{Fault, Outcome};
use super::values::{json_ids, key_from};
use super::{SqliteStore, failed_in};
use crate::domain::plan::month_of;
use crate::domain::{AccountId, Timestamp};
use crate::store::accounts::start_of_month;
use crate::store::quotas::jobs;
use crate::store::{Granted, QuotaStore, Result, StoreErrorKind, UsedUp, Wanted, Write};

/// The jobs of a month before its counter is there; no row if it is.
pub(super) const MADE: &str = "
    SELECT (SELECT count(*) FROM jobs WHERE account_id = ?1 AND id >= ?2)
    WHERE NOT EXISTS (SELECT 1 FROM account_months WHERE account_id = ?1 AND month = ?3)";

const BEGIN: &str = "
    INSERT INTO account_months (account_id, month, reserved) VALUES (?1, ?2, ?3)
    ON CONFLICT DO NOTHING";

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
                    granted.extend(reserve(connection, now, ahead, wanted).await?);
                }
                Ok(granted)
            })
        })
        .await
    }

    /// Counted beside the writer, so that nobody waits for it.
    async fn begin_months(&self, now: Timestamp, accounts: &[AccountId]) -> Result<()> {
        let month = month_of(now);
        for &account in accounts {
            let query = sqlx::query_as(MADE).bind(account).bind(key_from(start_of_month(now)));
            let made: Option<(i64,)> = self
                .readers
                .optional(query.bind(month))
                .await
                .map_err(failed_in("begin_months"))?;
            let Some((made,)) = made else { continue };
            self.write("begin_months", move |connection| {
                Box::pin(begin(connection, account, month, made))
            })
            .await?;
        }
        Ok(())
    }

    async fn plans_of(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, String)>> {
        let query = sqlx::query_as(
            "SELECT id, plan FROM accounts
             WHERE id IN (SELECT unhex(value) FROM json_each(?1))",
        );
        self.readers.all(query.bind(json_ids(accounts))).await.map_err(failed_in("plans_of"))
    }
}

async fn begin(
    connection: &mut SqliteConnection,
    account: AccountId,
    month: i64,
    made: i64,
) -> Outcome<()> {
    let query = sqlx::query(BEGIN).bind(account).bind(month).bind(made);
    query.execute(connection).await?;
    Ok(())
}

/// Takes one job of the month, in the transaction that makes it; says so if there is none left.
pub(super) async fn take_one(
    connection: &mut SqliteConnection,
    write: Write,
    quota: u64,
) -> Outcome<Option<UsedUp>> {
    let wanted = Wanted { account: write.account, quota, jobs: 1 };
    let granted = match reserve(connection, write.now, 0, wanted).await? {
        Some(granted) => Some(granted),
        None => {
            // The account has got another plan since its counter was made.
            let (account, month) = (write.account, month_of(write.now));
            let query = sqlx::query_scalar(MADE).bind(account);
            let query = query.bind(key_from(start_of_month(write.now))).bind(month);
            let made = query.fetch_one(&mut *connection).await?;
            begin(connection, account, month, made).await?;
            reserve(connection, write.now, 0, wanted).await?
        }
    };
    let missing = || Fault::new(StoreErrorKind::Internal, "a counter that was made is not there");
    Ok(granted.ok_or_else(missing)?.used_up())
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
