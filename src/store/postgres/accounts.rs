//! Accounts and their keys.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;

use super::error::Outcome;
use super::key_changes::{create_key, revoke_key, rotate_key};
use super::values::{count, key_from};
use super::{PostgresStore, Within, account_changes, signing};
use crate::domain::key::KeyRecord;
use crate::domain::{AccountId, KeyId, Timestamp};
use crate::store::accounts::{JOBS_COUNTED, start_of_month};
use crate::store::rows::account_columns;
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
                Box::pin(async move {
                    let made =
                        account_changes::create_account(connection, write, name, plan).await?;
                    if made {
                        signing::make_first(connection, &vault, &[(write.account, write.now)])
                            .await?;
                    }
                    Ok(made)
                })
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
        let counted = self.api.run("usage", Within::Statement, move |connection| {
            let query = account_changes::counted(id, now);
            Box::pin(async move { Ok(query.fetch_one(connection).await?) })
        });
        counted.await.map(account_changes::used)
    }

    async fn jobs_made(&self, id: AccountId, now: Timestamp) -> Result<u64> {
        self.api
            .run("jobs_made", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = "SELECT count(*) FROM
                            (SELECT id FROM jobs WHERE account_id = $1 AND id >= $2
                             UNION ALL SELECT id FROM runs WHERE account_id = $1 AND id >= $2
                             LIMIT $3) AS made";
                    let query = sqlx::query_scalar(query).bind(id);
                    let query = query.bind(key_from(start_of_month(now))).bind(JOBS_COUNTED);
                    Ok(count(query.fetch_one(connection).await?))
                })
            })
            .await
    }

    async fn set_plan(&self, write: &Write, plan: &str) -> Result<bool> {
        let (write, plan) = (*write, plan.to_owned());
        let set = self.api.run("set_plan", Within::Transaction, move |connection| {
            Box::pin(account_changes::set_plan(connection, write, plan.clone()))
        });
        let is_there = set.await?;
        if is_there {
            // Also if nothing has changed: the call before may have ended in between.
            self.fence_shards("set_plan", write.account).await?;
        }
        Ok(is_there)
    }

    async fn set_suspended(&self, write: &Write, suspended: bool) -> Result<bool> {
        let write = *write;
        let set = self.api.run("set_suspended", Within::Transaction, move |connection| {
            Box::pin(account_changes::set_suspended(connection, write, suspended))
        });
        let is_there = set.await?;
        if is_there {
            // Also if nothing has changed: the call before may have ended in between.
            self.drain("set_suspended", write.account).await?;
            self.fence_shards("set_suspended", write.account).await?;
        }
        Ok(is_there)
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
