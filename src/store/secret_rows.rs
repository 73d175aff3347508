//! Keys and sealed rows, within a transaction, of both adapters: each has this file as a module of
//! its own, and beside it says in `secrets` how rows are found and locked.

use sqlx::AssertSqlSafe;

use super::Connection;
use super::error::{Fault, Outcome};
use super::secrets::{hold_keys, row_id};
use crate::store::secrets::SealedRow;
use crate::store::vault::Vault;
use crate::store::{KeyProof, Resealed, SealedTable, StoreErrorKind};

pub(super) async fn proofs(connection: &mut Connection) -> Outcome<Vec<KeyProof>> {
    let query = sqlx::query_as("SELECT id, proof FROM secret_keys ORDER BY id");
    let rows: Vec<(String, String)> = query.fetch_all(connection).await?;
    Ok(rows.into_iter().map(|(id, proof)| KeyProof { id, proof }).collect())
}

/// Those of the keys that are not known yet, if all fit.
pub(super) fn new_keys(
    vault: &Vault,
    known: &[KeyProof],
    others: &[KeyProof],
) -> Outcome<Vec<KeyProof>> {
    let unfit = |why| Fault::new(StoreErrorKind::Incompatible, why);
    vault.sealer.new_keys(known, others).map_err(unfit)
}

/// Notes the new keys, one process after the other: of those that begin with different keys, the
/// first decides.
pub(super) async fn note(
    connection: &mut Connection,
    vault: Vault,
    others: Vec<KeyProof>,
) -> Outcome<()> {
    hold_keys(connection).await?;
    let new = new_keys(&vault, &proofs(connection).await?, &others)?;
    insert(connection, new).await
}

pub(super) async fn insert(connection: &mut Connection, keys: Vec<KeyProof>) -> Outcome<()> {
    for KeyProof { id, proof } in keys {
        sqlx::query("INSERT INTO secret_keys (id, proof) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(id)
            .bind(proof)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// How many rows have a secret that the first key has not sealed.
pub(super) async fn stale(connection: &mut Connection, vault: &Vault) -> Outcome<u64> {
    let mut rows = 0;
    for table in SealedTable::ALL {
        let (name, is_stale) = (table.name(), table.is_stale("$1"));
        let query = AssertSqlSafe(format!("SELECT count(*) FROM {name} WHERE {is_stale}"));
        let query = sqlx::query_scalar(query).bind(vault.sealer.prefix());
        let count: i64 = query.fetch_one(&mut *connection).await?;
        rows += count.unsigned_abs();
    }
    Ok(rows)
}

/// Seals rows anew that nobody else changes meanwhile.
pub(super) async fn reseal_rows(
    connection: &mut Connection,
    vault: &Vault,
    table: SealedTable,
    rows: Vec<SealedRow>,
) -> Outcome<Resealed> {
    let (name, columns) = (table.name(), table.columns());
    let set = columns.iter().zip(2..).map(|(column, place)| format!("{column} = ${place}"));
    let update = format!("UPDATE {name} SET {} WHERE id = $1", set.collect::<Vec<_>>().join(", "));
    let mut done = Resealed::default();
    for row in rows {
        done.last = Some(row.id);
        let Some(values) = vault.reseal(table, &row) else {
            done.unreadable += 1;
            continue;
        };
        let mut query = sqlx::query(AssertSqlSafe(update.clone())).bind(row_id(row.id));
        for value in values {
            query = query.bind(value);
        }
        query.execute(&mut *connection).await?;
        done.sealed += 1;
    }
    Ok(done)
}
