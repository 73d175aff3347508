//! Calls that take effect once.

use async_trait::async_trait;
use sqlx::{PgConnection, types::Uuid};

use super::error::{Fault, Outcome};
use super::{PostgresStore, Within};
use crate::domain::audit::Action;
use crate::domain::call::Once;
use crate::domain::{AccountId, Timestamp};
use crate::store::idempotency::{StoredKey, TAKEN_OVER, objects_text};
use crate::store::vault::Vault;
use crate::store::{IdempotencyStore, Reservation, Reserved, Result, StoreErrorKind, Write};

/// Marks the call's reservation, if it has one, in the transaction of its effect.
///
/// # Errors
/// If another call has taken the key over: then nothing may take effect.
pub(super) async fn mark(
    connection: &mut PgConnection,
    write: Write,
    action: Action,
    objects: &[String],
) -> Outcome<()> {
    let Some(once) = write.once else { return Ok(()) };
    let marked = sqlx::query(
        "UPDATE idempotency_keys SET action = $4, objects = $5
         WHERE id = $1 AND account_id = $2 AND holder = $3 AND action IS NULL",
    )
    .bind(Uuid::from_bytes(once.key.0))
    .bind(write.account)
    .bind(once.holder.to_be_bytes().to_vec())
    .bind(action)
    .bind(objects_text(objects))
    .execute(connection)
    .await?;
    if marked.rows_affected() == 0 {
        return Err(Fault::new(StoreErrorKind::TakenOver, TAKEN_OVER));
    }
    Ok(())
}

#[async_trait]
impl IdempotencyStore for PostgresStore {
    async fn reserve(
        &self,
        account: AccountId,
        now: Timestamp,
        reservation: &Reservation,
    ) -> Result<Reserved> {
        let (new, vault) = (*reservation, self.vault.clone());
        self.api
            .run("reserve", Within::Transaction, move |connection| {
                Box::pin(reserve(connection, vault.clone(), account, now, new))
            })
            .await
    }

    async fn keep_answer(&self, account: AccountId, once: Once, answer: &str) -> Result<()> {
        let answer = self.vault.seal_answer(account, once.key, answer);
        self.api
            .run("keep_answer", Within::Statement, move |connection| {
                Box::pin(keep(connection, account, once, answer.clone()))
            })
            .await
    }

    async fn release(&self, account: AccountId, once: Once) -> Result<()> {
        self.api
            .run("release", Within::Statement, move |connection| {
                Box::pin(release(connection, account, once))
            })
            .await
    }

    async fn prune_answers(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.scheduler
            .run("prune_answers", Within::Statement, move |connection| {
                Box::pin(prune(connection, before, limit))
            })
            .await
    }
}

async fn reserve(
    connection: &mut PgConnection,
    vault: Vault,
    account: AccountId,
    now: Timestamp,
    new: Reservation,
) -> Outcome<Reserved> {
    let once = new.once;
    let made = sqlx::query(
        "INSERT INTO idempotency_keys (id, account_id, request, holder, reserved_at)
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING",
    )
    .bind(Uuid::from_bytes(once.key.0))
    .bind(account)
    .bind(new.request.to_vec())
    .bind(once.holder.to_be_bytes().to_vec())
    .bind(now)
    .execute(&mut *connection)
    .await?;
    if made.rows_affected() > 0 {
        return Ok(Reserved::Yours);
    }
    let stored: Option<StoredKey> = sqlx::query_as(
        "SELECT request, holder, reserved_at, action, objects, answer FROM idempotency_keys
         WHERE id = $1 AND account_id = $2 FOR UPDATE SKIP LOCKED",
    )
    .bind(Uuid::from_bytes(once.key.0))
    .bind(account)
    .fetch_optional(&mut *connection)
    .await?;
    // Who holds it takes effect or keeps its answer just now; or it is removed, and is free at the
    // next try.
    let Some(mut stored) = stored else { return Ok(Reserved::Running) };
    vault.open_answer(account, once.key, &mut stored);
    if let Some(said) = stored.judge(now, &new) {
        return Ok(said);
    }
    sqlx::query(
        "UPDATE idempotency_keys SET request = $3, holder = $4, reserved_at = $5,
             action = NULL, objects = NULL, answer = NULL
         WHERE id = $1 AND account_id = $2",
    )
    .bind(Uuid::from_bytes(once.key.0))
    .bind(account)
    .bind(new.request.to_vec())
    .bind(once.holder.to_be_bytes().to_vec())
    .bind(now)
    .execute(connection)
    .await?;
    Ok(Reserved::Yours)
}

async fn keep(
    connection: &mut PgConnection,
    account: AccountId,
    once: Once,
    answer: String,
) -> Outcome<()> {
    sqlx::query(
        "UPDATE idempotency_keys SET answer = $4
         WHERE id = $1 AND account_id = $2 AND holder = $3 AND answer IS NULL",
    )
    .bind(Uuid::from_bytes(once.key.0))
    .bind(account)
    .bind(once.holder.to_be_bytes().to_vec())
    .bind(answer)
    .execute(connection)
    .await?;
    Ok(())
}

async fn release(connection: &mut PgConnection, account: AccountId, once: Once) -> Outcome<()> {
    sqlx::query(
        "DELETE FROM idempotency_keys
         WHERE id = $1 AND account_id = $2 AND holder = $3 AND action IS NULL
           AND answer IS NULL",
    )
    .bind(Uuid::from_bytes(once.key.0))
    .bind(account)
    .bind(once.holder.to_be_bytes().to_vec())
    .execute(connection)
    .await?;
    Ok(())
}

async fn prune(connection: &mut PgConnection, before: Timestamp, limit: u32) -> Outcome<u64> {
    let pruned = sqlx::query(PRUNE).bind(before).bind(i64::from(limit)).execute(connection).await?;
    Ok(pruned.rows_affected())
}

const PRUNE: &str = "
    DELETE FROM idempotency_keys WHERE id IN
        (SELECT id FROM idempotency_keys WHERE reserved_at < $1
         ORDER BY reserved_at LIMIT $2 FOR UPDATE SKIP LOCKED)";
