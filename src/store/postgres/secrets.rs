//! Keys, and sealing with another one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::types::Uuid;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, Row};

use super::error::Outcome;
use super::options::options;
use super::secret_rows::{insert, need_others, new_keys, note, proofs, reseal_rows, stale};
use super::{PostgresStore, Settings, Within, failed_in};
use crate::store::secrets::SealedRow;
use crate::store::vault::Vault;
use crate::store::{KeyProof, Resealed, Result, SealedTable, SecretStore};

/// How long looking through all secrets may take.
const PATIENCE: Duration = Duration::from_secs(3_600);
const NO_TIMEOUT: &str = "SET LOCAL statement_timeout = 0";

impl PostgresStore {
    /// The keys that secrets of a database may be sealed with. Changes nothing.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn stored_keys(settings: &Settings) -> Result<Vec<KeyProof>> {
        let read = async {
            let mut connection = options(settings)?.connect().await?;
            let is_there = sqlx::query_scalar("SELECT to_regclass('secret_keys') IS NOT NULL");
            let is_there: bool = is_there.fetch_one(&mut connection).await?;
            let found = if is_there { proofs(&mut connection).await? } else { Vec::new() };
            connection.close().await?;
            Ok(found)
        };
        read.await.map_err(failed_in("stored_keys"))
    }
}

#[async_trait]
impl SecretStore for PostgresStore {
    async fn use_keys(&self, others: &[KeyProof]) -> Result<()> {
        let known = self.key_proofs().await?;
        let new = new_keys(&self.vault, &known, others);
        if new.map_err(|fault| fault.of("use_keys"))?.is_empty() {
            return Ok(());
        }
        let (others, vault) = (others.to_vec(), self.vault.clone());
        self.api
            .run("use_keys", Within::Transaction, move |connection| {
                Box::pin(note(connection, vault.clone(), others.clone()))
            })
            .await
    }

    async fn key_proofs(&self) -> Result<Vec<KeyProof>> {
        self.api
            .run("key_proofs", Within::Statement, |connection| Box::pin(proofs(connection)))
            .await
    }

    async fn stale_secrets(&self) -> Result<u64> {
        let vault = self.vault.clone();
        let counted = self.api.patiently(PATIENCE, Within::Transaction, move |connection| {
            let vault = vault.clone();
            Box::pin(async move {
                connection.execute(NO_TIMEOUT).await?;
                stale(connection, &vault).await
            })
        });
        counted.await.map_err(failed_in("stale_secrets"))
    }

    async fn reseal(&self, table: SealedTable, after: [u8; 16], limit: u32) -> Result<Resealed> {
        let vault = self.vault.clone();
        let resealed = self.api.patiently(PATIENCE, Within::Transaction, move |connection| {
            Box::pin(reseal(connection, vault.clone(), table, after, limit))
        });
        resealed.await.map_err(failed_in("reseal"))
    }

    /// Looks before and after: a server may write with an old key meanwhile.
    async fn forget_keys(&self, abandon: bool) -> Result<Vec<String>> {
        if self.need_others(abandon, &[]).await? {
            return Ok(Vec::new());
        }
        let first = self.vault.sealer.first().to_owned();
        let gone = self.api.run("forget_keys", Within::Statement, move |connection| {
            let query =
                sqlx::query_as("DELETE FROM secret_keys WHERE id <> $1 RETURNING id, proof");
            let query = query.bind(first.clone());
            Box::pin(async move { Ok(query.fetch_all(connection).await?) })
        });
        let gone: Vec<(String, String)> = gone.await?;
        let gone: Vec<_> = gone.into_iter().map(|(id, proof)| KeyProof { id, proof }).collect();
        if gone.is_empty() || !self.need_others(abandon, &gone).await? {
            return Ok(gone.into_iter().map(|key| key.id).collect());
        }
        let put_back = self.api.run("forget_keys", Within::Transaction, move |connection| {
            Box::pin(insert(connection, gone.clone()))
        });
        put_back.await?;
        Ok(Vec::new())
    }
}

impl PostgresStore {
    async fn need_others(&self, abandon: bool, gone: &[KeyProof]) -> Result<bool> {
        let (vault, gone): (_, Arc<[KeyProof]>) = (self.vault.clone(), gone.into());
        let looked = self.api.patiently(PATIENCE, Within::Transaction, move |connection| {
            let (vault, gone) = (vault.clone(), gone.clone());
            Box::pin(async move {
                connection.execute(NO_TIMEOUT).await?;
                need_others(connection, &vault, abandon, &gone).await
            })
        });
        looked.await.map_err(failed_in("forget_keys"))
    }
}

/// Lets others wait who note keys.
pub(super) async fn hold_keys(connection: &mut PgConnection) -> Outcome<()> {
    connection.execute("LOCK TABLE secret_keys IN SHARE ROW EXCLUSIVE MODE").await?;
    Ok(())
}

/// An id of any kind, as it is stored.
pub(super) fn row_id(id: [u8; 16]) -> Uuid {
    Uuid::from_bytes(id)
}

async fn reseal(
    connection: &mut PgConnection,
    vault: Vault,
    table: SealedTable,
    after: [u8; 16],
    limit: u32,
) -> Outcome<Resealed> {
    connection.execute(NO_TIMEOUT).await?;
    let (name, columns, is_stale) = (table.name(), table.columns(), table.is_stale("$1"));
    let select = format!(
        "SELECT id, account_id, {} FROM {name} WHERE id > $2 AND ({is_stale})
         ORDER BY id LIMIT $3 FOR NO KEY UPDATE",
        columns.join(", ")
    );
    let rows = sqlx::query(AssertSqlSafe(select))
        .bind(vault.sealer.prefix())
        .bind(row_id(after))
        .bind(i64::from(limit))
        .fetch_all(&mut *connection)
        .await?;
    let rows = rows.iter().map(|row| sealed_row(row, columns.len())).collect::<Outcome<_>>()?;
    reseal_rows(connection, &vault, table, rows).await
}

pub(super) fn sealed_row(row: &PgRow, columns: usize) -> Outcome<SealedRow> {
    let id: Uuid = row.try_get(0)?;
    let values = (0..columns).map(|place| row.try_get(place + 2));
    let values = values.collect::<sqlx::Result<_>>()?;
    Ok(SealedRow { id: id.into_bytes(), account: row.try_get(1)?, values })
}
