//! Accounts and their keys.

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::error::{Fault, Outcome};
use super::values::key_from;
use super::{SqliteStore, failed_in};
use crate::domain::key::KeyRecord;
use crate::domain::plan::{MOST_KEYS, month_of};
use crate::domain::{AccountId, KeyId, Timestamp};
use crate::store::accounts::{JOBS_COUNTED, start_of_month};
use crate::store::rows::account_columns;
use crate::store::{
    Account, AccountStore, KeyCreated, KnownKey, NewKey, Result, StoreErrorKind, Usage, Write,
};

#[async_trait]
impl AccountStore for SqliteStore {
    async fn create_account(&self, account: &Account) -> Result<bool> {
        let account = account.clone();
        self.write("create_account", move |connection| {
            Box::pin(async move {
                let made = sqlx::query(
                    "INSERT INTO accounts (id, name, created_at, plan, suspended_at)
                     VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (name) DO NOTHING",
                )
                .bind(account.id)
                .bind(account.name)
                .bind(account.created_at)
                .bind(account.plan)
                .bind(account.suspended_at)
                .execute(connection)
                .await?;
                Ok(made.rows_affected() > 0)
            })
        })
        .await
    }

    async fn accounts(&self) -> Result<Vec<Account>> {
        let query = concat!("SELECT ", account_columns!(), " FROM accounts ORDER BY name");
        let query = sqlx::query_as(query);
        self.readers.all(query).await.map_err(failed_in("accounts"))
    }

    async fn account(&self, id: AccountId) -> Result<Option<Account>> {
        let query = concat!("SELECT ", account_columns!(), " FROM accounts WHERE id = ?1");
        self.readers.optional(sqlx::query_as(query).bind(id)).await.map_err(failed_in("account"))
    }

    async fn usage(&self, id: AccountId, now: Timestamp) -> Result<Usage> {
        self.count_usage(id, now).await.map_err(failed_in("usage"))
    }

    async fn set_plan(&self, write: &Write, plan: &str) -> Result<bool> {
        let (account, plan) = (write.account, plan.to_owned());
        self.write("set_plan", move |connection| {
            Box::pin(async move {
                let query = sqlx::query("UPDATE accounts SET plan = ?2 WHERE id = ?1");
                let put = query.bind(account).bind(plan).execute(connection).await?;
                Ok(put.rows_affected() > 0)
            })
        })
        .await
    }

    async fn set_suspended(&self, write: &Write, suspended: bool) -> Result<bool> {
        let write = *write;
        self.write("set_suspended", move |connection| {
            Box::pin(async move {
                let set = sqlx::query(
                    "UPDATE accounts SET
                         resumed_at = iif(?2 OR suspended_at IS NULL, resumed_at, ?3),
                         suspended_at = iif(?2, coalesce(suspended_at, ?3), NULL)
                     WHERE id = ?1",
                )
                .bind(write.account)
                .bind(suspended)
                .bind(write.now)
                .execute(connection)
                .await?;
                Ok(set.rows_affected() > 0)
            })
        })
        .await
    }

    async fn plans_in_use(&self) -> Result<Vec<String>> {
        let query = sqlx::query_as("SELECT DISTINCT plan FROM accounts ORDER BY plan");
        let plans: Vec<(String,)> =
            self.readers.all(query).await.map_err(failed_in("plans_in_use"))?;
        Ok(plans.into_iter().map(|(plan,)| plan).collect())
    }

    async fn create_key(&self, write: &Write, key: &NewKey) -> Result<KeyCreated> {
        let (write, key) = (*write, key.clone());
        self.write("create_key", move |connection| Box::pin(create_key(connection, write, key)))
            .await
    }

    async fn keys(&self, account: AccountId) -> Result<Vec<KeyRecord>> {
        let query = sqlx::query_as(
            "SELECT id, name, scope, created_at, expires_at, revoked_at FROM api_keys
             WHERE account_id = ?1 ORDER BY created_at DESC, id DESC",
        );
        self.readers.all(query.bind(account)).await.map_err(failed_in("keys"))
    }

    async fn revoke_key(&self, write: &Write, id: KeyId) -> Result<bool> {
        let write = *write;
        self.write("revoke_key", move |connection| {
            Box::pin(async move {
                let revoked = sqlx::query(
                    "UPDATE api_keys SET revoked_at = coalesce(revoked_at, ?3)
                     WHERE id = ?1 AND account_id = ?2",
                )
                .bind(id)
                .bind(write.account)
                .bind(write.now)
                .execute(connection)
                .await?;
                Ok(revoked.rows_affected() > 0)
            })
        })
        .await
    }

    async fn key(&self, id: KeyId) -> Result<Option<KnownKey>> {
        let query = sqlx::query_as(
            "SELECT k.account_id, k.digest, k.scope, k.expires_at, k.revoked_at, a.plan
             FROM api_keys AS k CROSS JOIN accounts AS a ON a.id = k.account_id WHERE k.id = ?1",
        );
        self.readers.optional(query.bind(id)).await.map_err(failed_in("key"))
    }
}

async fn create_key(
    connection: &mut SqliteConnection,
    write: Write,
    key: NewKey,
) -> Outcome<KeyCreated> {
    let working: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM api_keys WHERE account_id = ?1 AND revoked_at IS NULL
             AND (expires_at IS NULL OR expires_at > ?2)",
    )
    .bind(write.account)
    .bind(write.now)
    .fetch_one(&mut *connection)
    .await?;
    if working.unsigned_abs() >= MOST_KEYS {
        return Ok(KeyCreated::TooMany);
    }
    let made = sqlx::query(
        "INSERT INTO api_keys (id, account_id, name, scope, digest, created_at, expires_at)
         SELECT ?1, id, ?3, ?4, ?5, ?6, ?7 FROM accounts WHERE id = ?2",
    )
    .bind(key.id)
    .bind(write.account)
    .bind(key.name)
    .bind(key.scope)
    .bind(key.digest.0.to_vec())
    .bind(write.now)
    .bind(key.expires_at)
    .execute(connection)
    .await?;
    let was_made = made.rows_affected() > 0;
    Ok(if was_made { KeyCreated::Done } else { KeyCreated::NoSuchAccount })
}

impl SqliteStore {
    async fn count_usage(&self, id: AccountId, now: Timestamp) -> Outcome<Usage> {
        let query = sqlx::query_as(
            "SELECT
                 (SELECT count(*) FROM schedules WHERE account_id = ?1),
                 (SELECT count(*) FROM api_keys WHERE account_id = ?1 AND revoked_at IS NULL
                      AND (expires_at IS NULL OR expires_at > ?4)),
                 (SELECT count(*) FROM
                     (SELECT 1 FROM jobs WHERE account_id = ?1 AND id >= ?2 LIMIT ?3)),
                 (SELECT reserved FROM account_months WHERE account_id = ?1 AND month = ?5),
                 (SELECT exhausted_at FROM account_months WHERE account_id = ?1 AND month = ?5)",
        )
        .bind(id)
        .bind(key_from(start_of_month(now)))
        .bind(JOBS_COUNTED)
        .bind(now)
        .bind(month_of(now));
        let (schedules, keys, jobs, reserved, quota_exhausted_at): (_, _, _, Option<i64>, _) =
            self.readers.one(query).await?;
        let count = |rows: i64| {
            u64::try_from(rows)
                .map_err(|_| Fault::new(StoreErrorKind::Internal, "a negative number of rows"))
        };
        Ok(Usage {
            schedules: count(schedules)?,
            keys: count(keys)?,
            jobs_this_month: count(jobs)?,
            jobs_reserved: reserved.map(count).transpose()?,
            quota_exhausted_at,
        })
    }
}
