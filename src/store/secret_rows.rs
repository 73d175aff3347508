//! Keys and sealed rows, within a transaction, of both adapters: each has this file as a module of
//! its own, and beside it says in `secrets` how rows are found and locked.

use sqlx::AssertSqlSafe;

use super::Connection;
use super::error::{Fault, Outcome};
use super::secrets::{hold_keys, row_id, sealed_row};
use crate::store::secrets::SealedRow;
use crate::store::vault::Vault;
use crate::store::{KeyProof, OpenError, Resealed, SealedTable, StoreErrorKind};

/// How many rows are looked at in one statement.
const ROWS: i64 = 50;

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
    let unfit = |why| Fault::new(StoreErrorKind::WrongKeys, why);
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

/// Whether there are secrets that need another key than the first one: stale ones, but for those
/// that are to be abandoned because they cannot be opened. Those of a key of the store, or of one
/// of those just `forgotten`, that is not known here can be opened elsewhere: by a server that was
/// started meanwhile, with a newer first key.
pub(super) async fn need_others(
    connection: &mut Connection,
    vault: &Vault,
    abandon: bool,
    forgotten: &[KeyProof],
) -> Outcome<bool> {
    if !abandon {
        return Ok(stale(connection, vault).await? > 0);
    }
    let known = proofs(connection).await?;
    let opens = |table, row: &SealedRow| match vault.sealer.reseal(table, row) {
        Ok(_) => true,
        Err(OpenError::UnknownKey(key)) => known.iter().chain(forgotten).any(|one| one.id == key),
        Err(OpenError::Forged) => false,
    };
    for table in SealedTable::ALL {
        let mut after = [0; 16];
        loop {
            let rows = stale_rows(connection, vault, table, after).await?;
            let Some(last) = rows.last() else { break };
            after = last.id;
            if rows.iter().any(|row| opens(table, row)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The next rows of a table that have a secret which the first key has not sealed, by their ids.
async fn stale_rows(
    connection: &mut Connection,
    vault: &Vault,
    table: SealedTable,
    after: [u8; 16],
) -> Outcome<Vec<SealedRow>> {
    let (name, columns, is_stale) = (table.name(), table.columns(), table.is_stale("$1"));
    let select = format!(
        "SELECT id, account_id, {} FROM {name} WHERE id > $2 AND ({is_stale}) ORDER BY id LIMIT $3",
        columns.join(", ")
    );
    let query = sqlx::query(AssertSqlSafe(select)).bind(vault.sealer.prefix());
    let query = query.bind(row_id(after)).bind(ROWS);
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(|row| sealed_row(row, columns.len())).collect()
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
            done.unreadable.push(row.account);
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
