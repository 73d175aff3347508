//! Keys, and sealing with another one.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::types::Uuid;
use sqlx::{AssertSqlSafe, Executor, PgConnection, Row};

use super::error::{Fault, Outcome};
use super::values::count;
use super::{PostgresStore, Within, failed_in};
use crate::store::secrets::SealedRow;
use crate::store::vault::Vault;
use crate::store::{KeyProof, Resealed, Result, SealedTable, SecretStore, StoreErrorKind};

/// How long looking through all secrets may take.
const PATIENCE: Duration = Duration::from_secs(3_600);
const NO_TIMEOUT: &str = "SET LOCAL statement_timeout = 0";

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
            Box::pin(async move { stale(connection, &vault).await })
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

    async fn forget_keys(&self) -> Result<Vec<String>> {
        let vault = self.vault.clone();
        let forgotten = self.api.patiently(PATIENCE, Within::Transaction, move |connection| {
            Box::pin(forget(connection, vault.clone()))
        });
        forgotten.await.map_err(failed_in("forget_keys"))
    }
}

async fn proofs(connection: &mut PgConnection) -> Outcome<Vec<KeyProof>> {
    let query = sqlx::query_as("SELECT id, proof FROM secret_keys ORDER BY id");
    let rows: Vec<(String, String)> = query.fetch_all(connection).await?;
    Ok(rows.into_iter().map(|(id, proof)| KeyProof { id, proof }).collect())
}

/// Those of the keys that are not known yet, if all fit.
fn new_keys(vault: &Vault, known: &[KeyProof], others: &[KeyProof]) -> Outcome<Vec<KeyProof>> {
    let unfit = |why| Fault::new(StoreErrorKind::Incompatible, why);
    vault.sealer.new_keys(known, others).map_err(unfit)
}

/// Notes the new keys, one process after the other: of those that begin with different keys, the
/// first decides.
async fn note(connection: &mut PgConnection, vault: Vault, others: Vec<KeyProof>) -> Outcome<()> {
    connection.execute("LOCK TABLE secret_keys IN SHARE ROW EXCLUSIVE MODE").await?;
    let new = new_keys(&vault, &proofs(connection).await?, &others)?;
    let (ids, proofs): (Vec<_>, Vec<_>) = new.into_iter().map(|new| (new.id, new.proof)).unzip();
    sqlx::query("INSERT INTO secret_keys (id, proof) SELECT * FROM unnest($1, $2)")
        .bind(ids)
        .bind(proofs)
        .execute(connection)
        .await?;
    Ok(())
}

async fn stale(connection: &mut PgConnection, vault: &Vault) -> Outcome<u64> {
    connection.execute(NO_TIMEOUT).await?;
    let mut rows = 0;
    for table in SealedTable::ALL {
        let (name, is_stale) = (table.name(), table.is_stale("$1"));
        let query = AssertSqlSafe(format!("SELECT count(*) FROM {name} WHERE {is_stale}"));
        let query = sqlx::query_scalar(query).bind(vault.sealer.prefix());
        rows += count(query.fetch_one(&mut *connection).await?);
    }
    Ok(rows)
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
        .bind(Uuid::from_bytes(after))
        .bind(i64::from(limit))
        .fetch_all(&mut *connection)
        .await?;
    let set = columns.iter().zip(2..).map(|(column, place)| format!("{column} = ${place}"));
    let update = format!("UPDATE {name} SET {} WHERE id = $1", set.collect::<Vec<_>>().join(", "));
    let mut done = Resealed::default();
    for row in rows {
        let row = sealed_row(&row, columns.len())?;
        done.last = Some(row.id);
        let Some(values) = vault.reseal(table, &row) else {
            done.unreadable += 1;
            continue;
        };
        let mut query = sqlx::query(AssertSqlSafe(update.clone())).bind(Uuid::from_bytes(row.id));
        for value in values {
            query = query.bind(value);
        }
        query.execute(&mut *connection).await?;
        done.sealed += 1;
    }
    Ok(done)
}

fn sealed_row(row: &PgRow, columns: usize) -> Outcome<SealedRow> {
    let id: Uuid = row.try_get(0)?;
    let values = (0..columns).map(|place| row.try_get(place + 2));
    let values = values.collect::<sqlx::Result<_>>()?;
    Ok(SealedRow { id: id.into_bytes(), account: row.try_get(1)?, values })
}

async fn forget(connection: &mut PgConnection, vault: Vault) -> Outcome<Vec<String>> {
    if stale(connection, &vault).await? > 0 {
        return Ok(Vec::new());
    }
    let query = sqlx::query_scalar("DELETE FROM secret_keys WHERE id <> $1 RETURNING id");
    Ok(query.bind(vault.sealer.first()).fetch_all(connection).await?)
}
