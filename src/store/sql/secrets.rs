//! Encryption keys, and the sealing of secret columns with another key.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, ColumnIndex, Decode, FromRow, Row, Type};

use crate::domain::AccountId;
use crate::store::contract::secrets::SealedRow;
use crate::store::encryption::encrypted_fields::EncryptedFields;
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::rows::read_rows;
use crate::store::sql::encoding::values::RowId;
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::{
    KeyProof, OpenError, Resealed, Result, SealedTable, SecretStore, StoreErrorKind, sql,
};

#[async_trait]
impl<D: Database> SecretStore for D {
    async fn use_keys(&self, others: &[KeyProof]) -> Result<()> {
        let stored = self.key_proofs().await?;
        let new = new_keys(self.encrypted_fields(), &stored, others);
        if new.map_err(|error| error.of("use_keys"))?.is_empty() {
            return Ok(());
        }
        let (others, encrypted_fields) = (others.to_vec(), self.encrypted_fields().clone());
        self.api().transaction("use_keys", call(note, (encrypted_fields, others))).await
    }

    async fn key_proofs(&self) -> Result<Vec<KeyProof>> {
        self.api().read("key_proofs", call(proofs, ())).await
    }

    async fn stale_secrets(&self) -> Result<u64> {
        let encrypted_fields = self.encrypted_fields().clone();
        self.api().long_read("stale_secrets", call(stale, (encrypted_fields,))).await
    }

    /// Finds the rows before the write transaction: that may take long, and other writers of SQLite
    /// would have to wait.
    async fn reseal(&self, table: SealedTable, after: [u8; 16], limit: u32) -> Result<Resealed> {
        let prefix = self.encrypted_fields().cipher.prefix();
        let found = self.api().long_read("reseal", call(find, (prefix, table, after, limit)));
        let found: Arc<[RowId]> = found.await?.into();
        let Some(RowId(last)) = found.last().copied() else { return Ok(Resealed::default()) };
        let rows = (self.encrypted_fields().clone(), table, found.clone());
        let resealed = self.api().batch("reseal", found.len(), call(reseal, rows)).await?;
        Ok(Resealed { last: Some(last), ..resealed })
    }

    /// Checks before and after the deletion, because a server may write with an old key in between.
    async fn forget_keys(&self, abandon: bool) -> Result<Vec<String>> {
        if keys_are_needed(self, abandon, &[]).await? {
            return Ok(Vec::new());
        }
        let forget = sql::query_as("DELETE FROM secret_keys WHERE id <> $1 RETURNING id, proof")
            .bind(self.encrypted_fields().cipher.first().to_owned());
        let forgotten = self.api().statement("forget_keys", 1, move |connection| {
            Box::pin(forget.clone().fetch_all(connection))
        });
        let forgotten: Vec<KeyProof> = forgotten.await?;
        if forgotten.is_empty() || !keys_are_needed(self, abandon, &forgotten).await? {
            return Ok(forgotten.into_iter().map(|key| key.id).collect());
        }
        self.api().transaction("forget_keys", call(insert, (forgotten,))).await?;
        Ok(Vec::new())
    }
}

async fn keys_are_needed<D: Database>(
    store: &D,
    abandon: bool,
    forgotten: &[KeyProof],
) -> Result<bool> {
    let keys = (store.encrypted_fields().clone(), abandon, forgotten.to_vec());
    store.api().long_read("forget_keys", call(need_others, keys)).await
}

/// Returns the ids of rows that another key than the first has sealed, sorted.
async fn find(
    connection: &mut Connection<'_>,
    prefix: String,
    table: SealedTable,
    after: [u8; 16],
    limit: u32,
) -> SqlResult<Vec<RowId>> {
    let (name, is_stale) = (table.name(), table.is_stale("$1"));
    let select =
        format!("SELECT id FROM {name} WHERE id > $2 AND ({is_stale}) ORDER BY id LIMIT $3");
    let query = sql::query_scalar(AssertSqlSafe(select)).bind(prefix);
    query.bind(RowId(after)).bind(i64::from(limit)).fetch_all(connection).await
}

/// Seals these rows with the first key, unless they are gone or another process has done so.
async fn reseal(
    connection: &mut Connection<'_>,
    encrypted_fields: EncryptedFields,
    table: SealedTable,
    ids: Arc<[RowId]>,
) -> SqlResult<Resealed> {
    let (name, columns, is_stale) = (table.name(), table.columns(), table.is_stale("$1"));
    let lock = connection.dialect().exclusive_lock();
    let select = format!(
        "SELECT id, account_id, {} FROM {name} WHERE id = $2 AND ({is_stale}) {lock}",
        columns.join(", ")
    );
    let mut rows = Vec::with_capacity(ids.len());
    for id in &*ids {
        let query =
            sql::query_as(AssertSqlSafe(select.clone())).bind(encrypted_fields.cipher.prefix());
        rows.extend(query.bind(*id).fetch_optional(connection).await?);
    }
    reseal_rows(connection, &encrypted_fields, table, rows).await
}

read_rows! {
    KeyProof { id, proof }
}

impl<'r, R> FromRow<'r, R> for SealedRow
where
    R: Row,
    usize: ColumnIndex<R>,
    RowId: Decode<'r, R::Database> + Type<R::Database>,
    AccountId: Decode<'r, R::Database> + Type<R::Database>,
    Option<String>: Decode<'r, R::Database> + Type<R::Database>,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        let RowId(id) = row.try_get(0)?;
        let values = (2..row.len()).map(|position| row.try_get(position));
        Ok(Self { id, account: row.try_get(1)?, values: values.collect::<sqlx::Result<_>>()? })
    }
}

/// The number of rows that one statement reads.
const ROWS: i64 = 50;

pub(in crate::store) async fn proofs(connection: &mut Connection<'_>) -> SqlResult<Vec<KeyProof>> {
    let query = sql::query_as("SELECT id, proof FROM secret_keys ORDER BY id");
    query.fetch_all(connection).await
}

/// Returns the keys that are not in `known`, or an error if a key is missing or differs.
pub(in crate::store) fn new_keys(
    encrypted_fields: &EncryptedFields,
    stored: &[KeyProof],
    others: &[KeyProof],
) -> SqlResult<Vec<KeyProof>> {
    let unfit = |why| SqlError::new(StoreErrorKind::WrongKeys, why);
    encrypted_fields.cipher.new_keys(stored, others).map_err(unfit)
}

/// Records the new keys. Only one process at a time does so: if processes start with different
/// keys, the first one decides.
async fn note(
    connection: &mut Connection<'_>,
    encrypted_fields: EncryptedFields,
    others: Vec<KeyProof>,
) -> SqlResult<()> {
    if connection.dialect() == Dialect::Postgres {
        let lock = "LOCK TABLE secret_keys IN SHARE ROW EXCLUSIVE MODE";
        sql::query(lock).execute(connection).await?;
    }
    let new = new_keys(&encrypted_fields, &proofs(connection).await?, &others)?;
    insert(connection, new).await
}

async fn insert(connection: &mut Connection<'_>, keys: Vec<KeyProof>) -> SqlResult<()> {
    for KeyProof { id, proof } in keys {
        sql::query("INSERT INTO secret_keys (id, proof) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(id)
            .bind(proof)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Counts the rows with a secret that the first key has not sealed.
async fn stale(
    connection: &mut Connection<'_>,
    encrypted_fields: EncryptedFields,
) -> SqlResult<u64> {
    let mut rows = 0;
    for table in SealedTable::ALL {
        let (name, is_stale) = (table.name(), table.is_stale("$1"));
        let query = AssertSqlSafe(format!("SELECT count(*) FROM {name} WHERE {is_stale}"));
        let query = sql::query_scalar(query).bind(encrypted_fields.cipher.prefix());
        let count: i64 = query.fetch_one(&mut *connection).await?;
        rows += count.unsigned_abs();
    }
    Ok(rows)
}

/// Returns `true` if a secret needs another key than the first one. These are the stale secrets;
/// with `abandon`, only those that can be opened. A secret whose key is not configured here still
/// counts if that key is one of the store's or one of the `forgotten` ones: a server that was
/// started meanwhile, with a newer first key, can open it.
async fn need_others(
    connection: &mut Connection<'_>,
    encrypted_fields: EncryptedFields,
    abandon: bool,
    forgotten: Vec<KeyProof>,
) -> SqlResult<bool> {
    if !abandon {
        return Ok(stale(connection, encrypted_fields).await? > 0);
    }
    let stored = proofs(connection).await?;
    let opens = |table, row: &SealedRow| match encrypted_fields.cipher.reseal(table, row) {
        Ok(_) => true,
        Err(OpenError::UnknownKey(key)) => stored.iter().chain(&forgotten).any(|one| one.id == key),
        Err(OpenError::Forged) => false,
    };
    for table in SealedTable::ALL {
        let mut after = [0; 16];
        loop {
            let rows = stale_rows(connection, &encrypted_fields, table, after).await?;
            let Some(last) = rows.last() else { break };
            after = last.id;
            if rows.iter().any(|row| opens(table, row)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns the next rows of a table with a secret that the first key has not sealed, sorted by id.
async fn stale_rows(
    connection: &mut Connection<'_>,
    encrypted_fields: &EncryptedFields,
    table: SealedTable,
    after: [u8; 16],
) -> SqlResult<Vec<SealedRow>> {
    let (name, columns, is_stale) = (table.name(), table.columns(), table.is_stale("$1"));
    let select = format!(
        "SELECT id, account_id, {} FROM {name} WHERE id > $2 AND ({is_stale}) ORDER BY id LIMIT $3",
        columns.join(", ")
    );
    let query = sql::query_as(AssertSqlSafe(select)).bind(encrypted_fields.cipher.prefix());
    query.bind(RowId(after)).bind(ROWS).fetch_all(connection).await
}

/// Seals rows with the first key. The rows are locked.
async fn reseal_rows(
    connection: &mut Connection<'_>,
    encrypted_fields: &EncryptedFields,
    table: SealedTable,
    rows: Vec<SealedRow>,
) -> SqlResult<Resealed> {
    let (name, columns) = (table.name(), table.columns());
    let set = columns.iter().zip(2..).map(|(column, position)| format!("{column} = ${position}"));
    let update = format!("UPDATE {name} SET {} WHERE id = $1", set.collect::<Vec<_>>().join(", "));
    let mut done = Resealed::default();
    for row in rows {
        done.last = Some(row.id);
        let Some(values) = encrypted_fields.reseal(table, &row) else {
            done.unreadable.push(row.account);
            continue;
        };
        let mut query = sql::query(AssertSqlSafe(update.clone())).bind(RowId(row.id));
        for value in values {
            query = query.bind(value);
        }
        query.execute(&mut *connection).await?;
        done.sealed += 1;
    }
    Ok(done)
}
