//! Accounts and their keys.

use async_trait::async_trait;

use super::key_changes::{create_key, revoke_key, rotate_key};
use super::values::{hex, json_rows, key_from};
use super::{SqliteStore, account_changes, failed_in, signing};
use crate::domain::key::KeyRecord;
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
            SELECT count(*) FROM (SELECT 1 FROM jobs WHERE account_id = ?1 AND id >= ?2
                                  UNION ALL SELECT 1 FROM runs WHERE account_id = ?1 AND id >= ?2
                                  LIMIT ?3)";
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
