//! Idempotency keys, within a transaction, of both adapters: each has this file as a module of its
//! own, and beside it says in `idempotency` how a key's row is read and kept from others.

use super::Connection;
use super::error::{Fault, Outcome};
use super::idempotency::{HELD, PRUNE};
use crate::domain::audit::Action;
use crate::domain::call::Once;
use crate::domain::{AccountId, Timestamp};
use crate::store::idempotency::{READ, StoredKey, TAKEN_OVER, objects_text};
use crate::store::vault::Vault;
use crate::store::{Reservation, Reserved, StoreErrorKind, Write};

/// Marks the call's reservation, if it has one, in the transaction of its effect.
///
/// # Errors
/// If another call has taken the key over: then nothing may take effect.
pub(super) async fn mark(
    connection: &mut Connection,
    write: Write,
    action: Action,
    objects: &[String],
) -> Outcome<()> {
    let Some(once) = write.once else { return Ok(()) };
    let marked = sqlx::query(
        "UPDATE idempotency_keys SET action = $4, objects = $5
         WHERE id = $1 AND account_id = $2 AND holder = $3 AND action IS NULL",
    )
    .bind(once.key)
    .bind(write.account)
    .bind(holder(once))
    .bind(action)
    .bind(objects_text(objects))
    .execute(connection)
    .await?;
    if marked.rows_affected() == 0 {
        return Err(Fault::new(StoreErrorKind::TakenOver, TAKEN_OVER));
    }
    Ok(())
}

pub(super) async fn reserve(
    connection: &mut Connection,
    vault: Vault,
    account: AccountId,
    now: Timestamp,
    new: Reservation,
) -> Outcome<Reserved> {
    let once = new.once;
    let made = sqlx::query(
        "INSERT INTO idempotency_keys (id, account_id, request, holder, reserved_at)
         SELECT $1, id, $3, $4, $5 FROM accounts WHERE id = $2 ON CONFLICT (id) DO NOTHING",
    )
    .bind(once.key)
    .bind(account)
    .bind(new.request.to_vec())
    .bind(holder(once))
    .bind(now)
    .execute(&mut *connection)
    .await?;
    if made.rows_affected() > 0 {
        return Ok(Reserved::Yours);
    }
    // Whoever only asks takes no lock: askers would keep each other from the answer.
    let mut said = judge(connection, READ, &vault, account, now, &new).await?;
    if matches!(said, None | Some(Reserved::Unanswered(_))) {
        said = judge(connection, HELD, &vault, account, now, &new).await?;
    }
    match said {
        Some(said @ Reserved::Unanswered(_)) => {
            take_over(connection, account, once).await?;
            Ok(said)
        }
        Some(said) => Ok(said),
        None => {
            take(connection, account, now, &new).await?;
            Ok(Reserved::Yours)
        }
    }
}

/// What there is of a key that is known; nothing if its time is over, so that it can be taken.
async fn judge(
    connection: &mut Connection,
    read: &'static str,
    vault: &Vault,
    account: AccountId,
    now: Timestamp,
    new: &Reservation,
) -> Outcome<Option<Reserved>> {
    let key = new.once.key;
    let read = sqlx::query_as(read).bind(key).bind(account);
    let stored: Option<StoredKey> = read.fetch_optional(connection).await?;
    // Somebody takes it just now; or it is removed, and is free at the next try; or the account is
    // gone.
    let Some(mut stored) = stored else { return Ok(Some(Reserved::Running)) };
    vault.open_answer(account, key, &mut stored);
    Ok(stored.judge(now, new))
}

/// Lets a call have a key whose time is over.
async fn take(
    connection: &mut Connection,
    account: AccountId,
    now: Timestamp,
    new: &Reservation,
) -> Outcome<()> {
    sqlx::query(
        "UPDATE idempotency_keys SET request = $3, holder = $4, reserved_at = $5,
             action = NULL, objects = NULL, answer = NULL
         WHERE id = $1 AND account_id = $2",
    )
    .bind(new.once.key)
    .bind(account)
    .bind(new.request.to_vec())
    .bind(holder(new.once))
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// Lets a call answer what another one has done.
async fn take_over(connection: &mut Connection, account: AccountId, once: Once) -> Outcome<()> {
    sqlx::query("UPDATE idempotency_keys SET holder = $3 WHERE id = $1 AND account_id = $2")
        .bind(once.key)
        .bind(account)
        .bind(holder(once))
        .execute(connection)
        .await?;
    Ok(())
}

pub(super) async fn keep(
    connection: &mut Connection,
    account: AccountId,
    once: Once,
    answer: String,
) -> Outcome<()> {
    sqlx::query(
        "UPDATE idempotency_keys SET answer = $4
         WHERE id = $1 AND account_id = $2 AND holder = $3 AND answer IS NULL",
    )
    .bind(once.key)
    .bind(account)
    .bind(holder(once))
    .bind(answer)
    .execute(connection)
    .await?;
    Ok(())
}

pub(super) async fn release(
    connection: &mut Connection,
    account: AccountId,
    once: Once,
) -> Outcome<()> {
    sqlx::query(
        "DELETE FROM idempotency_keys
         WHERE id = $1 AND account_id = $2 AND holder = $3 AND action IS NULL
           AND answer IS NULL",
    )
    .bind(once.key)
    .bind(account)
    .bind(holder(once))
    .execute(connection)
    .await?;
    Ok(())
}

pub(super) async fn prune(
    connection: &mut Connection,
    before: Timestamp,
    limit: u32,
) -> Outcome<u64> {
    let pruned = sqlx::query(PRUNE).bind(before).bind(i64::from(limit)).execute(connection).await?;
    Ok(pruned.rows_affected())
}

fn holder(once: Once) -> Vec<u8> {
    once.holder.to_be_bytes().to_vec()
}
