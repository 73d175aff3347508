//! Keys, and sealing with another one.

use std::future::{Future, ready};

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, ConnectOptions, Row, SqliteConnection};

use super::error::{Fault, Outcome};
use super::open::reading;
use super::secret_rows::{insert, need_others, new_keys, note, proofs, reseal_rows, stale};
use super::{Settings, SqliteStore, failed_in};
use crate::store::secrets::SealedRow;
use crate::store::vault::Vault;
use crate::store::{KeyProof, Resealed, Result, SealedTable, SecretStore, StoreErrorKind};

impl SqliteStore {
    /// The keys that secrets of a file may be sealed with. Makes no file.
    ///
    /// # Errors
    /// If there is a file that cannot be read.
    pub async fn stored_keys(settings: &Settings) -> Result<Vec<KeyProof>> {
        let read = async {
            if !settings.path.is_file() {
                return Ok(Vec::new());
            }
            let mut connection = reading(settings).connect().await?;
            let tables: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'secret_keys'",
            )
            .fetch_one(&mut connection)
            .await?;
            match tables {
                0 => Ok(Vec::new()),
                _ => proofs(&mut connection).await,
            }
        };
        read.await.map_err(failed_in("stored_keys"))
    }
}

#[async_trait]
impl SecretStore for SqliteStore {
    async fn use_keys(&self, others: &[KeyProof]) -> Result<()> {
        let known = self.key_proofs().await?;
        let new = new_keys(&self.vault, &known, others);
        if new.map_err(|fault| fault.of("use_keys"))?.is_empty() {
            return Ok(());
        }
        let (others, vault) = (others.to_vec(), self.vault.clone());
        self.write("use_keys", move |connection| Box::pin(note(connection, vault, others))).await
    }

    async fn key_proofs(&self) -> Result<Vec<KeyProof>> {
        let mut reader = self.readers.take().await.map_err(failed_in("key_proofs"))?;
        let read = proofs(&mut reader).await;
        reader.done(read).map_err(failed_in("key_proofs"))
    }

    async fn stale_secrets(&self) -> Result<u64> {
        let mut reader = self.readers.take().await.map_err(failed_in("stale_secrets"))?;
        let counted = stale(&mut reader, &self.vault).await;
        reader.done(counted).map_err(failed_in("stale_secrets"))
    }

    /// Looks for the rows beside the writer, which others wait for: that can take long.
    async fn reseal(&self, table: SealedTable, after: [u8; 16], limit: u32) -> Result<Resealed> {
        let mut reader = self.readers.take().await.map_err(failed_in("reseal"))?;
        let found = find(&mut reader, &self.vault, table, after, limit).await;
        let found = reader.done(found).map_err(failed_in("reseal"))?;
        let Some(last) = found.last().cloned() else { return Ok(Resealed::default()) };
        let last = Some(id_of(last).map_err(failed_in("reseal"))?);
        let vault = self.vault.clone();
        self.write_rows("reseal", limit as usize, move |connection| {
            Box::pin(async move {
                let done = reseal(connection, vault, table, found).await?;
                Ok(Resealed { last, ..done })
            })
        })
        .await
    }

    /// Looks before and after, and not meanwhile: others wait for the writer.
    async fn forget_keys(&self, abandon: bool) -> Result<Vec<String>> {
        if self.need_others(abandon, &[]).await? {
            return Ok(Vec::new());
        }
        let first = self.vault.sealer.first().to_owned();
        let gone = self.write("forget_keys", |connection| {
            Box::pin(async move {
                let query = sqlx::query_as("DELETE FROM secret_keys WHERE id <> ?1 RETURNING *");
                Ok(query.bind(first).fetch_all(connection).await?)
            })
        });
        let gone: Vec<(String, String)> = gone.await?;
        let gone: Vec<_> = gone.into_iter().map(|(id, proof)| KeyProof { id, proof }).collect();
        if gone.is_empty() || !self.need_others(abandon, &gone).await? {
            return Ok(gone.into_iter().map(|key| key.id).collect());
        }
        self.write("forget_keys", |connection| Box::pin(insert(connection, gone))).await?;
        Ok(Vec::new())
    }
}

impl SqliteStore {
    async fn need_others(&self, abandon: bool, gone: &[KeyProof]) -> Result<bool> {
        let mut reader = self.readers.take().await.map_err(failed_in("forget_keys"))?;
        let looked = need_others(&mut reader, &self.vault, abandon, gone).await;
        reader.done(looked).map_err(failed_in("forget_keys"))
    }
}

/// Writes take turns.
pub(super) fn hold_keys(_: &mut SqliteConnection) -> impl Future<Output = Outcome<()>> {
    ready(Ok(()))
}

/// An id of any kind, as it is stored.
pub(super) fn row_id(id: [u8; 16]) -> Vec<u8> {
    id.to_vec()
}

/// The ids of rows to seal anew, in their order.
async fn find(
    connection: &mut SqliteConnection,
    vault: &Vault,
    table: SealedTable,
    after: [u8; 16],
    limit: u32,
) -> Outcome<Vec<Vec<u8>>> {
    let (name, is_stale) = (table.name(), table.is_stale("?1"));
    let select =
        format!("SELECT id FROM {name} WHERE id > ?2 AND ({is_stale}) ORDER BY id LIMIT ?3");
    let query = sqlx::query_scalar(AssertSqlSafe(select)).bind(vault.sealer.prefix());
    Ok(query.bind(after.to_vec()).bind(limit).fetch_all(connection).await?)
}

/// Seals these rows anew, unless they are gone or somebody else has done so.
async fn reseal(
    connection: &mut SqliteConnection,
    vault: Vault,
    table: SealedTable,
    ids: Vec<Vec<u8>>,
) -> Outcome<Resealed> {
    let (name, columns, is_stale) = (table.name(), table.columns(), table.is_stale("?1"));
    let select = format!(
        "SELECT id, account_id, {} FROM {name} WHERE id = ?2 AND ({is_stale})",
        columns.join(", ")
    );
    let mut rows = Vec::with_capacity(ids.len());
    for id in ids {
        let query = sqlx::query(AssertSqlSafe(select.clone())).bind(vault.sealer.prefix());
        let row = query.bind(id).fetch_optional(&mut *connection).await?;
        rows.extend(row.map(|row| sealed_row(&row, columns.len())).transpose()?);
    }
    reseal_rows(connection, &vault, table, rows).await
}

fn id_of(bytes: Vec<u8>) -> Outcome<[u8; 16]> {
    let not_one = |_| Fault::new(StoreErrorKind::Corrupt, "an id that is not 16 bytes long");
    bytes.try_into().map_err(not_one)
}

pub(super) fn sealed_row(row: &SqliteRow, columns: usize) -> Outcome<SealedRow> {
    let id = id_of(row.try_get(0)?)?;
    let values = (0..columns).map(|place| row.try_get(place + 2));
    Ok(SealedRow { id, account: row.try_get(1)?, values: values.collect::<sqlx::Result<_>>()? })
}
