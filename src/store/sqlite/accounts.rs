//! Accounts and their keys.

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::audit;
use super::error::{Fault, Outcome};
use super::values::key_from;
use super::{SqliteStore, failed_in};
use crate::domain::audit::Action;
use crate::domain::key::{KeyRecord, MOST_KEYS};
use crate::domain::{AccountId, KeyId, Timestamp};
use crate::store::accounts::{JOBS_COUNTED, start_of_month};
use crate::store::{
    Account, AccountStore, KnownKey, NewKey, Result, Rotated, Rotation, StoreErrorKind, Usage,
    Write,
};

#[async_trait]
impl AccountStore for SqliteStore {
    async fn create_account(&self, write: &Write, name: &str) -> Result<bool> {
        let (write, name) = (*write, name.to_owned());
        self.write("create_account", move |connection| {
            Box::pin(create_account(connection, write, name))
        })
        .await
    }

    async fn accounts(&self) -> Result<Vec<Account>> {
        let query = sqlx::query_as("SELECT id, name, created_at FROM accounts ORDER BY name");
        self.readers.all(query).await.map_err(failed_in("accounts"))
    }

    async fn account(&self, id: AccountId) -> Result<Option<Account>> {
        let query = sqlx::query_as("SELECT id, name, created_at FROM accounts WHERE id = ?1");
        self.readers.optional(query.bind(id)).await.map_err(failed_in("account"))
    }

    async fn usage(&self, id: AccountId, now: Timestamp) -> Result<Usage> {
        self.count_usage(id, now).await.map_err(failed_in("usage"))
    }

    async fn create_key(&self, write: &Write, key: &NewKey) -> Result<bool> {
        let (write, key) = (*write, key.clone());
        self.write("create_key", move |connection| Box::pin(create_key(connection, write, key)))
            .await
    }

    async fn keys(&self, account: AccountId) -> Result<Vec<KeyRecord>> {
        let query = sqlx::query_as(
            "SELECT id, name, scope, created_at, created_by, expires_at, revoked_at FROM api_keys
             WHERE account_id = ?1 ORDER BY created_at DESC, id DESC",
        );
        self.readers.all(query.bind(account)).await.map_err(failed_in("keys"))
    }

    async fn rotate_key(&self, write: &Write, rotation: &Rotation) -> Result<Rotated> {
        let (write, rotation) = (*write, *rotation);
        self.write("rotate_key", move |connection| {
            Box::pin(rotate_key(connection, write, rotation))
        })
        .await
    }

    async fn revoke_key(&self, write: &Write, id: KeyId) -> Result<bool> {
        let write = *write;
        self.write("revoke_key", move |connection| Box::pin(revoke_key(connection, write, id)))
            .await
    }

    async fn key(&self, id: KeyId) -> Result<Option<KnownKey>> {
        let query = sqlx::query_as(
            "SELECT account_id, digest, scope, expires_at, revoked_at FROM api_keys WHERE id = ?1",
        );
        self.readers.optional(query.bind(id)).await.map_err(failed_in("key"))
    }
}

async fn create_account(
    connection: &mut SqliteConnection,
    write: Write,
    name: String,
) -> Outcome<bool> {
    let made = sqlx::query(
        "INSERT INTO accounts (id, name, created_at) VALUES (?1, ?2, ?3)
         ON CONFLICT (name) DO NOTHING",
    )
    .bind(write.account)
    .bind(name)
    .bind(write.now)
    .execute(&mut *connection)
    .await?;
    if made.rows_affected() == 0 {
        return Ok(false);
    }
    audit::record(connection, write, Action::AccountCreated, [write.account]).await?;
    Ok(true)
}

async fn create_key(connection: &mut SqliteConnection, write: Write, key: NewKey) -> Outcome<bool> {
    let made = sqlx::query(
        "INSERT INTO api_keys (id, account_id, name, scope, digest, created_at, expires_at, created_by)
         SELECT ?1, id, ?3, ?4, ?5, ?6, ?7, ?8 FROM accounts WHERE id = ?2",
    )
    .bind(key.id)
    .bind(write.account)
    .bind(key.name)
    .bind(key.scope)
    .bind(key.digest.0.to_vec())
    .bind(write.now)
    .bind(key.expires_at)
    .bind(write.author.actor.to_string())
    .execute(&mut *connection)
    .await?;
    if made.rows_affected() == 0 {
        return Ok(false);
    }
    audit::record(connection, write, Action::KeyCreated, [key.id]).await?;
    Ok(true)
}

/// One rotation after the other, so that there are never too many keys.
async fn rotate_key(
    connection: &mut SqliteConnection,
    write: Write,
    rotation: Rotation,
) -> Outcome<Rotated> {
    let working: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM api_keys
         WHERE account_id = ?1 AND revoked_at IS NULL
           AND (expires_at IS NULL OR expires_at > ?2)",
    )
    .bind(write.account)
    .bind(write.now)
    .fetch_one(&mut *connection)
    .await?;
    if working >= i64::from(MOST_KEYS) {
        return Ok(Rotated::TooMany);
    }
    let made = sqlx::query(
        "INSERT INTO api_keys
             (id, account_id, name, scope, digest, created_at, expires_at, created_by)
         SELECT ?3, account_id, name, scope, ?4, ?5, ?5 + (expires_at - created_at), ?6
         FROM api_keys
         WHERE id = ?1 AND account_id = ?2 AND revoked_at IS NULL
           AND (expires_at IS NULL OR expires_at > ?5)",
    )
    .bind(rotation.old)
    .bind(write.account)
    .bind(rotation.new)
    .bind(rotation.digest.0.to_vec())
    .bind(write.now)
    .bind(write.author.actor.to_string())
    .execute(&mut *connection)
    .await?;
    if made.rows_affected() == 0 {
        return Ok(Rotated::NotFound);
    }
    sqlx::query(
        "UPDATE api_keys SET expires_at = min(coalesce(expires_at, ?3), ?3)
         WHERE id = ?1 AND account_id = ?2",
    )
    .bind(rotation.old)
    .bind(write.account)
    .bind(rotation.old_expires_at)
    .execute(&mut *connection)
    .await?;
    audit::record(connection, write, Action::KeyRotated, [rotation.old]).await?;
    Ok(Rotated::Done)
}

async fn revoke_key(connection: &mut SqliteConnection, write: Write, id: KeyId) -> Outcome<bool> {
    let revoked = sqlx::query(
        "UPDATE api_keys SET revoked_at = ?3
         WHERE id = ?1 AND account_id = ?2 AND revoked_at IS NULL",
    )
    .bind(id)
    .bind(write.account)
    .bind(write.now)
    .execute(&mut *connection)
    .await?;
    if revoked.rows_affected() > 0 {
        audit::record(connection, write, Action::KeyRevoked, [id]).await?;
        return Ok(true);
    }
    let known = "SELECT EXISTS (SELECT 1 FROM api_keys WHERE id = ?1 AND account_id = ?2)";
    Ok(sqlx::query_scalar(known).bind(id).bind(write.account).fetch_one(connection).await?)
}

impl SqliteStore {
    async fn count_usage(&self, id: AccountId, now: Timestamp) -> Outcome<Usage> {
        let query = sqlx::query_as(
            "SELECT
                 (SELECT count(*) FROM schedules WHERE account_id = ?1),
                 (SELECT count(*) FROM api_keys WHERE account_id = ?1 AND revoked_at IS NULL),
                 (SELECT count(*) FROM
                     (SELECT 1 FROM jobs WHERE account_id = ?1 AND id >= ?2 LIMIT ?3))",
        )
        .bind(id)
        .bind(key_from(start_of_month(now)))
        .bind(JOBS_COUNTED);
        let (schedules, keys, jobs): (i64, i64, i64) = self.readers.one(query).await?;
        let count = |rows: i64| {
            u64::try_from(rows)
                .map_err(|_| Fault::new(StoreErrorKind::Internal, "a negative number of rows"))
        };
        Ok(Usage {
            schedules: count(schedules)?,
            keys: count(keys)?,
            jobs_this_month: count(jobs)?,
        })
    }
}
