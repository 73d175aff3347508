//! Accounts and their keys.

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::error::Outcome;
use super::values::{hex, json_rows, key_from};
use super::{SqliteStore, account_changes, audit, failed_in, signing};
use crate::domain::audit::Action;
use crate::domain::key::{KeyRecord, MOST_KEYS};
use crate::domain::{AccountId, KeyId, Timestamp};
use crate::store::accounts::{JOBS_COUNTED, start_of_month};
use crate::store::rows::account_columns;
use crate::store::{
    Account, AccountStore, KeyCreated, KeyUse, KnownKey, NewKey, Result, Rotated, Rotation, Usage,
    Write,
};

#[async_trait]
impl AccountStore for SqliteStore {
    async fn create_account(&self, write: &Write, name: &str, plan: &str) -> Result<bool> {
        let (write, name, plan) = (*write, name.to_owned(), plan.to_owned());
        let vault = self.vault.clone();
        self.write("create_account", move |connection| {
            Box::pin(async move {
                let made = account_changes::create_account(connection, write, name, plan).await?;
                if made {
                    signing::make_first(connection, &vault, write.account, write.now).await?;
                }
                Ok(made)
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
        let counted = self.readers.one(account_changes::counted(id, now)).await;
        counted.map(account_changes::used).map_err(failed_in("usage"))
    }

    async fn jobs_made(&self, id: AccountId, now: Timestamp) -> Result<u64> {
        let query = "
            SELECT count(*) FROM (SELECT 1 FROM jobs WHERE account_id = ?1 AND id >= ?2 LIMIT ?3)";
        let query = sqlx::query_as(query).bind(id).bind(key_from(start_of_month(now)));
        let made = self.readers.one(query.bind(JOBS_COUNTED)).await;
        made.map(|(made,): (i64,)| made.unsigned_abs()).map_err(failed_in("jobs_made"))
    }

    async fn set_plan(&self, write: &Write, plan: &str) -> Result<bool> {
        let (write, plan) = (*write, plan.to_owned());
        self.write("set_plan", move |connection| {
            Box::pin(account_changes::set_plan(connection, write, plan))
        })
        .await
    }

    async fn set_suspended(&self, write: &Write, suspended: bool) -> Result<bool> {
        let write = *write;
        self.write("set_suspended", move |connection| {
            Box::pin(account_changes::set_suspended(connection, write, suspended))
        })
        .await
    }

    async fn plans_beside(&self, known: &[String]) -> Result<Vec<String>> {
        let known = serde_json::to_string(known).expect("texts always have a JSON form");
        let query = sqlx::query_as(
            "SELECT DISTINCT plan FROM accounts
             WHERE plan NOT IN (SELECT value FROM json_each(?1)) ORDER BY plan LIMIT 20",
        );
        let plans = self.readers.all(query.bind(known)).await;
        let plans: Vec<(String,)> = plans.map_err(failed_in("plans_beside"))?;
        Ok(plans.into_iter().map(|(plan,)| plan).collect())
    }

    async fn create_key(&self, write: &Write, key: &NewKey) -> Result<KeyCreated> {
        let (write, key) = (*write, key.clone());
        self.write("create_key", move |connection| Box::pin(create_key(connection, write, key)))
            .await
    }

    async fn keys(&self, account: AccountId) -> Result<Vec<KeyRecord>> {
        let query = sqlx::query_as(
            "SELECT id, name, scope, created_at, created_by, expires_at, revoked_at, last_used_at
             FROM api_keys WHERE account_id = ?1 ORDER BY created_at DESC, id DESC",
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
            "SELECT k.account_id, k.digest, k.scope, k.expires_at, k.revoked_at, a.plan
             FROM api_keys AS k CROSS JOIN accounts AS a ON a.id = k.account_id WHERE k.id = ?1",
        );
        self.readers.optional(query.bind(id)).await.map_err(failed_in("key"))
    }

    async fn note_key_uses(&self, uses: &[KeyUse]) -> Result<()> {
        let row = |one: &KeyUse| (hex(&one.key), hex(&one.account), one.at.as_millis());
        let rows = json_rows(&uses.iter().map(row).collect::<Vec<_>>());
        self.write_rows("note_key_uses", uses.len(), move |connection| {
            Box::pin(async move {
                sqlx::query(USED).bind(rows).execute(connection).await?;
                Ok(())
            })
        })
        .await
    }
}

pub(super) const USED: &str = "
    UPDATE api_keys SET last_used_at = u.at
    FROM (SELECT unhex(value ->> 0) AS id, unhex(value ->> 1) AS account, value ->> 2 AS at
          FROM jsonb_each(?1)) AS u
    WHERE api_keys.id = u.id AND api_keys.account_id = u.account
      AND (last_used_at IS NULL OR last_used_at < u.at)";

/// How many keys of the account work.
async fn working_keys(connection: &mut SqliteConnection, write: Write) -> Outcome<u64> {
    let working: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM api_keys WHERE account_id = ?1 AND revoked_at IS NULL
             AND (expires_at IS NULL OR expires_at > ?2)",
    )
    .bind(write.account)
    .bind(write.now)
    .fetch_one(connection)
    .await?;
    Ok(working.unsigned_abs())
}

async fn create_key(
    connection: &mut SqliteConnection,
    write: Write,
    key: NewKey,
) -> Outcome<KeyCreated> {
    if working_keys(connection, write).await? >= MOST_KEYS {
        return Ok(KeyCreated::TooMany);
    }
    let made = sqlx::query(
        "INSERT INTO api_keys (id, account_id, name, scope, digest, created_at, expires_at, created_by,
                               life_ms)
         SELECT ?1, id, ?3, ?4, ?5, ?6, ?7, ?8, ?7 - ?6 FROM accounts WHERE id = ?2",
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
        return Ok(KeyCreated::NoSuchAccount);
    }
    audit::record(connection, write, Action::KeyCreated, [key.id]).await?;
    Ok(KeyCreated::Done)
}

/// One rotation after the other, so that there are never too many keys.
async fn rotate_key(
    connection: &mut SqliteConnection,
    write: Write,
    rotation: Rotation,
) -> Outcome<Rotated> {
    let works: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM api_keys WHERE id = ?1 AND account_id = ?2
             AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?3))",
    )
    .bind(rotation.old)
    .bind(write.account)
    .bind(write.now)
    .fetch_one(&mut *connection)
    .await?;
    if !works {
        return Ok(Rotated::NotFound);
    }
    if working_keys(connection, write).await? + 1 - rotation.ended_by(write.now) > MOST_KEYS {
        return Ok(Rotated::TooMany);
    }
    sqlx::query(
        "INSERT INTO api_keys
             (id, account_id, name, scope, digest, created_at, expires_at, created_by, life_ms)
         SELECT ?3, account_id, name, scope, ?4, ?5, ?5 + life_ms, ?6, life_ms
         FROM api_keys WHERE id = ?1 AND account_id = ?2",
    )
    .bind(rotation.old)
    .bind(write.account)
    .bind(rotation.new)
    .bind(rotation.digest.0.to_vec())
    .bind(write.now)
    .bind(write.author.actor.to_string())
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "UPDATE api_keys SET expires_at = min(coalesce(expires_at, ?3), ?3)
         WHERE id = ?1 AND account_id = ?2",
    )
    .bind(rotation.old)
    .bind(write.account)
    .bind(rotation.old_expires_at)
    .execute(&mut *connection)
    .await?;
    audit::record(connection, write, Action::KeyRotated, [rotation.objects()]).await?;
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
