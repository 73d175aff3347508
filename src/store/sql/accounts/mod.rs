//! Accounts and their API keys.

mod changes;
pub(in crate::store) mod erasure;
pub(in crate::store) mod jobs_made;
mod keys;

use async_trait::async_trait;
use sqlx::AssertSqlSafe;

use crate::domain::key::KeyRecord;
use crate::domain::{AccountId, KeyId, Timestamp};
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::encoding::batch_rows::{ColumnType, batch_row, json};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::encoding::rows::account_columns;
use crate::store::sql::error::SqlResult;
use crate::store::{
    Account, AccountStore, AccountUsage, KeyCreated, KeyRotation, KeyUse, KnownKey, NewKey, Result,
    RotationResult, WriteContext, sql,
};

pub(in crate::store) use changes::insert_account;

#[async_trait]
impl<D: Database> AccountStore for D {
    async fn create_account(&self, write: &WriteContext, name: &str, plan: &str) -> Result<bool> {
        let encrypted_fields = self.encrypted_fields().clone();
        let new = (encrypted_fields, *write, name.to_owned(), plan.to_owned());
        self.api().transaction("create_account", call(changes::create_account, new)).await
    }

    async fn accounts(&self) -> Result<Vec<Account>> {
        let query = concat!("SELECT ", account_columns!(), " FROM accounts ORDER BY name");
        self.api().all("accounts", sql::query_as(query)).await
    }

    async fn account(&self, id: AccountId) -> Result<Option<Account>> {
        let query = concat!("SELECT ", account_columns!(), " FROM accounts WHERE id = $1");
        self.api().optional("account", sql::query_as(query).bind(id)).await
    }

    async fn usage(&self, id: AccountId, now: Timestamp) -> Result<AccountUsage> {
        self.api().one("usage", changes::counted(id, now)).await.map(changes::used)
    }

    async fn jobs_made(&self, id: AccountId, now: Timestamp) -> Result<u64> {
        self.api().snapshot("jobs_made", call(jobs_made::count, (id, now))).await
    }

    async fn set_plan(&self, write: &WriteContext, plan: &str) -> Result<bool> {
        let set = call(changes::set_plan, (*write, plan.to_owned()));
        let is_there = self.api().transaction("set_plan", set).await?;
        if is_there {
            // Even if nothing has changed: the replica may have died in an earlier call, before
            // this.
            self.fence_plan("set_plan", write.account).await?;
        }
        Ok(is_there)
    }

    async fn set_suspended(&self, write: &WriteContext, suspended: bool) -> Result<bool> {
        let set = call(changes::set_suspended, (*write, suspended));
        let is_there = self.api().transaction("set_suspended", set).await?;
        if is_there {
            // Even if nothing has changed: the replica may have died in an earlier call, before
            // this.
            self.fence_suspension("set_suspended", write.account).await?;
        }
        Ok(is_there)
    }

    async fn plans_beside(&self, known: &[String]) -> Result<Vec<String>> {
        let known_plan = D::DIALECT.among("plan", ColumnType::Text, "$1");
        let query = format!(
            "SELECT DISTINCT plan FROM accounts WHERE NOT ({known_plan})
             ORDER BY plan LIMIT 20"
        );
        let query = sql::query_scalar(AssertSqlSafe(query)).bind(json(known));
        self.api().scalars("plans_beside", query).await
    }

    async fn create_key(&self, write: &WriteContext, key: &NewKey) -> Result<KeyCreated> {
        self.api().transaction("create_key", call(keys::create_key, (*write, key.clone()))).await
    }

    async fn keys(&self, account: AccountId) -> Result<Vec<KeyRecord>> {
        let query = sql::query_as(
            "SELECT id, name, scope, created_at, created_by, expires_at, revoked_at, last_used_at
             FROM api_keys WHERE account_id = $1 ORDER BY created_at DESC, id DESC",
        );
        self.api().all("keys", query.bind(account)).await
    }

    async fn rotate_key(
        &self,
        write: &WriteContext,
        rotation: &KeyRotation,
    ) -> Result<RotationResult> {
        self.api().transaction("rotate_key", call(keys::rotate_key, (*write, *rotation))).await
    }

    async fn revoke_key(&self, write: &WriteContext, id: KeyId) -> Result<bool> {
        self.api().transaction("revoke_key", call(keys::revoke_key, (*write, id))).await
    }

    async fn key(&self, id: KeyId) -> Result<Option<KnownKey>> {
        let query = sql::query_as(
            "SELECT k.account_id, k.digest, k.scope, k.expires_at, k.revoked_at, a.plan
             FROM api_keys AS k JOIN accounts AS a ON a.id = k.account_id WHERE k.id = $1",
        );
        self.api().optional("key", query.bind(id)).await
    }

    async fn note_key_uses(&self, uses: &[KeyUse]) -> Result<()> {
        let rows: Vec<UsedKey> = uses.iter().map(UsedKey::new).collect();
        let (count, rows) = (rows.len(), json(&rows));
        self.api().batch("note_key_uses", count, call(note_uses, (rows,))).await
    }
}

batch_row! {
    /// A use of a key, as a row of a batch.
    UsedKey { id: Hex, account_id: Hex, used_at: i64 }
}

impl UsedKey {
    fn new(used: &KeyUse) -> Self {
        Self {
            id: Hex(used.key.to_bytes()),
            account_id: Hex(used.account.to_bytes()),
            used_at: used.at.as_millis(),
        }
    }
}

async fn note_uses(connection: &mut Connection<'_>, uses: String) -> SqlResult<()> {
    let used = connection.dialect().rows::<UsedKey>("$1");
    // In the order of their ids: another replica may write the same rows.
    let lock = connection.dialect().exclusive_lock();
    let lock =
        format!("SELECT id FROM api_keys WHERE id IN (SELECT r.id FROM {used}) ORDER BY id {lock}");
    let locked: Vec<KeyId> =
        sql::query_scalar(AssertSqlSafe(lock)).bind(uses.clone()).fetch_all(connection).await?;
    if locked.is_empty() {
        return Ok(());
    }
    let statement = format!(
        "UPDATE api_keys SET last_used_at = r.used_at FROM {used}
         WHERE api_keys.id = r.id AND api_keys.account_id = r.account_id
           AND (last_used_at IS NULL OR last_used_at < r.used_at)"
    );
    sql::query(AssertSqlSafe(statement)).bind(uses).run(connection).await
}
