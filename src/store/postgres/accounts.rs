//! Accounts and their keys.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;

use super::error::Outcome;
use super::values::{count, key_from};
use super::{PostgresStore, Within};
use crate::domain::key::KeyRecord;
use crate::domain::plan::{MOST_KEYS, month_of};
use crate::domain::{AccountId, KeyId, Timestamp};
use crate::store::accounts::{JOBS_COUNTED, start_of_month};
use crate::store::rows::account_columns;
use crate::store::{Account, AccountStore, KeyCreated, KnownKey, NewKey, Result, Usage, Write};

#[async_trait]
impl AccountStore for PostgresStore {
    async fn create_account(&self, account: &Account) -> Result<bool> {
        let account = account.clone();
        self.api
            .run("create_account", Within::Statement, move |connection| {
                Box::pin(create_account(connection, account.clone()))
            })
            .await
    }

    async fn accounts(&self) -> Result<Vec<Account>> {
        self.api
            .run("accounts", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query =
                        concat!("SELECT ", account_columns!(), " FROM accounts ORDER BY name");
                    Ok(sqlx::query_as(query).fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn account(&self, id: AccountId) -> Result<Option<Account>> {
        self.api
            .run("account", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query =
                        concat!("SELECT ", account_columns!(), " FROM accounts WHERE id = $1");
                    Ok(sqlx::query_as(query).bind(id).fetch_optional(connection).await?)
                })
            })
            .await
    }

    async fn usage(&self, id: AccountId, now: Timestamp) -> Result<Usage> {
        self.api
            .run("usage", Within::Statement, move |connection| Box::pin(usage(connection, id, now)))
            .await
    }

    async fn set_plan(&self, write: &Write, plan: &str) -> Result<bool> {
        let (account, plan): (_, Arc<str>) = (write.account, plan.into());
        self.api
            .run("set_plan", Within::Statement, move |connection| {
                let plan = plan.clone();
                Box::pin(async move {
                    let query = sqlx::query("UPDATE accounts SET plan = $2 WHERE id = $1");
                    let put = query.bind(account).bind(&*plan).execute(connection).await?;
                    Ok(put.rows_affected() > 0)
                })
            })
            .await
    }

    async fn set_suspended(&self, write: &Write, suspended: bool) -> Result<bool> {
        let write = *write;
        self.api
            .run("set_suspended", Within::Statement, move |connection| {
                Box::pin(set_suspended(connection, write, suspended))
            })
            .await
    }

    async fn plans_in_use(&self) -> Result<Vec<String>> {
        self.api
            .run("plans_in_use", Within::Statement, |connection| {
                Box::pin(async move {
                    let query = "SELECT DISTINCT plan FROM accounts ORDER BY plan";
                    Ok(sqlx::query_scalar(query).fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn create_key(&self, write: &Write, key: &NewKey) -> Result<KeyCreated> {
        let (write, key) = (*write, key.clone());
        self.api
            .run("create_key", Within::Transaction, move |connection| {
                Box::pin(create_key(connection, write, key.clone()))
            })
            .await
    }

    async fn keys(&self, account: AccountId) -> Result<Vec<KeyRecord>> {
        self.api
            .run("keys", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = "
                        SELECT id, name, scope, created_at, expires_at, revoked_at FROM api_keys
                        WHERE account_id = $1 ORDER BY created_at DESC, id DESC";
                    Ok(sqlx::query_as(query).bind(account).fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn revoke_key(&self, write: &Write, id: KeyId) -> Result<bool> {
        let write = *write;
        self.api
            .run("revoke_key", Within::Statement, move |connection| {
                Box::pin(revoke_key(connection, write, id))
            })
            .await
    }

    async fn key(&self, id: KeyId) -> Result<Option<KnownKey>> {
        self.api
            .run("key", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = "
                        SELECT k.account_id, k.digest, k.scope, k.expires_at, k.revoked_at, a.plan
                        FROM api_keys AS k JOIN accounts AS a ON a.id = k.account_id
                        WHERE k.id = $1";
                    Ok(sqlx::query_as(query).bind(id).fetch_optional(connection).await?)
                })
            })
            .await
    }
}

async fn create_account(connection: &mut PgConnection, account: Account) -> Outcome<bool> {
    let made = sqlx::query(
        "INSERT INTO accounts (id, name, created_at, plan, suspended_at)
         VALUES ($1, $2, $3, $4, $5)
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
}

async fn usage(connection: &mut PgConnection, id: AccountId, now: Timestamp) -> Outcome<Usage> {
    let (schedules, keys, jobs, reserved, quota_exhausted_at): (_, _, _, Option<i64>, _) =
        sqlx::query_as(
            "SELECT
             (SELECT count(*) FROM schedules WHERE account_id = $1),
             (SELECT count(*) FROM api_keys WHERE account_id = $1 AND revoked_at IS NULL
                  AND (expires_at IS NULL OR expires_at > $4)),
             (SELECT count(*) FROM
                 (SELECT FROM jobs WHERE account_id = $1 AND id >= $2 LIMIT $3) AS counted),
             (SELECT reserved FROM account_months WHERE account_id = $1 AND month = $5),
             (SELECT exhausted_at FROM account_months WHERE account_id = $1 AND month = $5)",
        )
        .bind(id)
        .bind(key_from(start_of_month(now)))
        .bind(JOBS_COUNTED)
        .bind(now)
        .bind(month_of(now))
        .fetch_one(connection)
        .await?;
    Ok(Usage {
        schedules: count(schedules),
        keys: count(keys),
        jobs_this_month: count(jobs),
        jobs_reserved: reserved.map(count),
        quota_exhausted_at,
    })
}

async fn set_suspended(
    connection: &mut PgConnection,
    write: Write,
    suspended: bool,
) -> Outcome<bool> {
    let set = sqlx::query(
        "UPDATE accounts SET
             resumed_at = CASE WHEN $2 OR suspended_at IS NULL THEN resumed_at ELSE $3 END,
             suspended_at = CASE WHEN $2 THEN coalesce(suspended_at, $3) END
         WHERE id = $1",
    )
    .bind(write.account)
    .bind(suspended)
    .bind(write.now)
    .execute(connection)
    .await?;
    Ok(set.rows_affected() > 0)
}

/// Locks an account, so that what it has can be counted and added to by one at a time. A statement
/// of its own: the next one sees what the others have added before. `false` if there is none.
pub(super) async fn lock(connection: &mut PgConnection, id: AccountId) -> Outcome<bool> {
    let query = sqlx::query("SELECT FROM accounts WHERE id = $1 FOR NO KEY UPDATE");
    Ok(query.bind(id).fetch_optional(connection).await?.is_some())
}

async fn create_key(
    connection: &mut PgConnection,
    write: Write,
    key: NewKey,
) -> Outcome<KeyCreated> {
    if !lock(connection, write.account).await? {
        return Ok(KeyCreated::NoSuchAccount);
    }
    let working = sqlx::query_scalar(
        "SELECT count(*) FROM api_keys WHERE account_id = $1 AND revoked_at IS NULL
             AND (expires_at IS NULL OR expires_at > $2)",
    )
    .bind(write.account)
    .bind(write.now)
    .fetch_one(&mut *connection)
    .await?;
    if count(working) >= MOST_KEYS {
        return Ok(KeyCreated::TooMany);
    }
    sqlx::query(
        "INSERT INTO api_keys (id, account_id, name, scope, digest, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(key.id)
    .bind(write.account)
    .bind(key.name)
    .bind(key.scope)
    .bind(key.digest.0)
    .bind(write.now)
    .bind(key.expires_at)
    .execute(connection)
    .await?;
    Ok(KeyCreated::Done)
}

async fn revoke_key(connection: &mut PgConnection, write: Write, id: KeyId) -> Outcome<bool> {
    let revoked = sqlx::query(
        "UPDATE api_keys SET revoked_at = coalesce(revoked_at, $3)
         WHERE id = $1 AND account_id = $2",
    )
    .bind(id)
    .bind(write.account)
    .bind(write.now)
    .execute(connection)
    .await?;
    Ok(revoked.rows_affected() > 0)
}
