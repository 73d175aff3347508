//! Accounts and their keys.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;

use super::account_lock::{SUSPENSIONS, lock};
use super::audit;
use super::error::Outcome;
use super::keys::{create_key, revoke_key, rotate_key};
use super::quotas;
use super::values::{count, key_from};
use super::{PostgresStore, Within, signing};
use crate::domain::audit::Action;
use crate::domain::key::KeyRecord;
use crate::domain::plan::month_of;
use crate::domain::{AccountId, KeyId, Timestamp};
use crate::store::accounts::{JOBS_COUNTED, start_of_month};
use crate::store::rows::account_columns;
use crate::store::vault::Vault;
use crate::store::{
    Account, AccountStore, KeyCreated, KeyUse, KnownKey, NewKey, Result, Rotated, Rotation, Usage,
    Write,
};

#[async_trait]
impl AccountStore for PostgresStore {
    async fn create_account(&self, write: &Write, name: &str, plan: &str) -> Result<bool> {
        let (write, name, plan) = (*write, name.to_owned(), plan.to_owned());
        let vault = self.vault.clone();
        self.api
            .run("create_account", Within::Transaction, move |connection| {
                let (vault, name, plan) = (vault.clone(), name.clone(), plan.clone());
                Box::pin(create_account(connection, vault, write, name, plan))
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

    async fn jobs_made(&self, id: AccountId, now: Timestamp) -> Result<u64> {
        self.api
            .run("jobs_made", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = "SELECT count(*) FROM
                            (SELECT FROM jobs WHERE account_id = $1 AND id >= $2 LIMIT $3) AS made";
                    let query = sqlx::query_scalar(query).bind(id);
                    let query = query.bind(key_from(start_of_month(now))).bind(JOBS_COUNTED);
                    Ok(count(query.fetch_one(connection).await?))
                })
            })
            .await
    }

    async fn set_plan(&self, write: &Write, plan: &str) -> Result<bool> {
        let (write, plan) = (*write, plan.to_owned());
        self.api
            .run("set_plan", Within::Transaction, move |connection| {
                Box::pin(set_plan(connection, write, plan.clone()))
            })
            .await
    }

    async fn set_suspended(&self, write: &Write, suspended: bool) -> Result<bool> {
        let write = *write;
        self.api
            .run("set_suspended", Within::Transaction, move |connection| {
                Box::pin(set_suspended(connection, write, suspended))
            })
            .await
    }

    async fn plans_beside(&self, known: &[String]) -> Result<Vec<String>> {
        let known: Arc<[String]> = known.into();
        self.api
            .run("plans_beside", Within::Statement, move |connection| {
                let known = known.clone();
                Box::pin(async move {
                    let query = "SELECT DISTINCT plan FROM accounts WHERE plan <> ALL ($1)
                                 ORDER BY plan LIMIT 20";
                    Ok(sqlx::query_scalar(query).bind(&*known).fetch_all(connection).await?)
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
                        SELECT id, name, scope, created_at, created_by, expires_at, revoked_at,
                               last_used_at
                        FROM api_keys WHERE account_id = $1 ORDER BY created_at DESC, id DESC";
                    Ok(sqlx::query_as(query).bind(account).fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn rotate_key(&self, write: &Write, rotation: &Rotation) -> Result<Rotated> {
        let (write, rotation) = (*write, *rotation);
        self.api
            .run("rotate_key", Within::Transaction, move |connection| {
                Box::pin(rotate_key(connection, write, rotation))
            })
            .await
    }

    async fn revoke_key(&self, write: &Write, id: KeyId) -> Result<bool> {
        let write = *write;
        self.api
            .run("revoke_key", Within::Transaction, move |connection| {
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

    async fn note_key_uses(&self, uses: &[KeyUse]) -> Result<()> {
        let uses = uses.to_vec();
        self.api
            .run("note_key_uses", Within::Statement, move |connection| {
                Box::pin(note_uses(connection, uses.clone()))
            })
            .await
    }
}

/// The rows are locked in the order of their ids: another replica may write the same ones.
const USED: &str = "
    WITH used AS MATERIALIZED (
        SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS u (id, account_id, at)
    ), held AS MATERIALIZED (
        SELECT id FROM api_keys WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE
    )
    UPDATE api_keys AS k SET last_used_at = u.at FROM used AS u
    WHERE k.id = u.id AND k.account_id = u.account_id AND k.id IN (SELECT id FROM held)
      AND (k.last_used_at IS NULL OR k.last_used_at < u.at)";

async fn note_uses(connection: &mut PgConnection, uses: Vec<KeyUse>) -> Outcome<()> {
    sqlx::query(USED)
        .bind(uses.iter().map(|one| one.key).collect::<Vec<_>>())
        .bind(uses.iter().map(|one| one.account).collect::<Vec<_>>())
        .bind(uses.iter().map(|one| one.at).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

async fn create_account(
    connection: &mut PgConnection,
    vault: Vault,
    write: Write,
    name: String,
    plan: String,
) -> Outcome<bool> {
    let made = sqlx::query(
        "INSERT INTO accounts (id, name, created_at, plan) VALUES ($1, $2, $3, $4)
         ON CONFLICT (name) DO NOTHING",
    )
    .bind(write.account)
    .bind(name)
    .bind(write.now)
    .bind(plan)
    .execute(&mut *connection)
    .await?;
    if made.rows_affected() == 0 {
        return Ok(false);
    }
    signing::make_first(connection, &vault, &[(write.account, write.now)]).await?;
    audit::record(connection, write, Action::AccountCreated, [write.account]).await?;
    Ok(true)
}

async fn usage(connection: &mut PgConnection, id: AccountId, now: Timestamp) -> Outcome<Usage> {
    let (schedules, keys, reserved, quota_exhausted_at): (_, _, Option<i64>, _) = sqlx::query_as(
        "SELECT
             (SELECT count(*) FROM schedules WHERE account_id = $1),
             (SELECT count(*) FROM api_keys WHERE account_id = $1 AND revoked_at IS NULL
                  AND (expires_at IS NULL OR expires_at > $2)),
             (SELECT reserved FROM account_months WHERE account_id = $1 AND month = $3),
             (SELECT exhausted_at FROM account_months WHERE account_id = $1 AND month = $3)",
    )
    .bind(id)
    .bind(now)
    .bind(month_of(now))
    .fetch_one(connection)
    .await?;
    Ok(Usage {
        schedules: count(schedules),
        keys: count(keys),
        jobs_reserved: reserved.map(count),
        quota_exhausted_at,
    })
}

/// What is changed is entered; a plan that it has already is not.
async fn set_plan(connection: &mut PgConnection, write: Write, plan: String) -> Outcome<bool> {
    if !lock(connection, write.account).await? {
        return Ok(false);
    }
    let put = sqlx::query("UPDATE accounts SET plan = $2 WHERE id = $1 AND plan <> $2")
        .bind(write.account)
        .bind(plan)
        .execute(&mut *connection)
        .await?;
    if put.rows_affected() > 0 {
        quotas::forget_month(connection, write).await?;
        audit::record(connection, write, Action::AccountPlanSet, [write.account]).await?;
    }
    Ok(true)
}

async fn set_suspended(
    connection: &mut PgConnection,
    write: Write,
    suspended: bool,
) -> Outcome<bool> {
    if !lock(connection, write.account).await? {
        return Ok(false);
    }
    let set = sqlx::query(
        "UPDATE accounts SET
             resumed_at = CASE WHEN $2 THEN resumed_at ELSE $3 END,
             suspended_at = CASE WHEN $2 THEN $3 END
         WHERE id = $1 AND (suspended_at IS NULL) = $2",
    )
    .bind(write.account)
    .bind(suspended)
    .bind(write.now)
    .execute(&mut *connection)
    .await?;
    if set.rows_affected() > 0 {
        sqlx::query(SUSPENSIONS).execute(&mut *connection).await?;
        let action = if suspended { Action::AccountSuspended } else { Action::AccountResumed };
        audit::record(connection, write, action, [write.account]).await?;
    }
    Ok(true)
}
