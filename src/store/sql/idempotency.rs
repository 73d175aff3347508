//! Idempotency keys: a call with a key takes effect once, and a repeated call gets the same answer.

use async_trait::async_trait;
use sqlx::AssertSqlSafe;

use crate::domain::audit::Action;
use crate::domain::call::Idempotency;
use crate::domain::{AccountId, Timestamp};
use crate::store::contract::idempotency::StoredKey;
use crate::store::encryption::encrypted_fields::EncryptedFields;
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::sql::history::old_rows::{OldRows, prune};
use crate::store::{
    IdempotencyStore, Reservation, Reserved, Result, StoreErrorKind, WriteContext, sql,
};

/// Reads a key ($1) of an account ($2), unless the account is deleted.
const READ: &str =
    "SELECT request, holder, reserved_at, action, objects, answer FROM idempotency_keys
     WHERE id = $1 AND account_id = $2 AND EXISTS (SELECT 1 FROM accounts WHERE id = $2)";

/// The error of a call that took too long and therefore has no effect.
const TAKEN_OVER: &str = "the call has lost its idempotency key to another one";

pub(in crate::store) const OLD_KEYS: OldRows =
    OldRows { table: "idempotency_keys", condition: "reserved_at < $1", order: "reserved_at" };

#[async_trait]
impl<D: Database> IdempotencyStore for D {
    async fn reserve(
        &self,
        account: AccountId,
        now: Timestamp,
        reservation: &Reservation,
    ) -> Result<Reserved> {
        let (new, encrypted_fields) = (*reservation, self.encrypted_fields().clone());
        let reserve = call(reserve, (encrypted_fields, account, now, new));
        self.api().transaction("reserve", reserve).await
    }

    async fn keep_answer(
        &self,
        account: AccountId,
        idempotency: Idempotency,
        answer: &str,
    ) -> Result<()> {
        let answer = self.encrypted_fields().seal_answer(account, idempotency.key, answer);
        let keep = sql::query(
            "UPDATE idempotency_keys SET answer = $4
             WHERE id = $1 AND account_id = $2 AND holder = $3 AND answer IS NULL",
        );
        let keep = keep.bind(idempotency.key).bind(account).bind(holder(idempotency)).bind(answer);
        self.api().execute("keep_answer", 1, keep).await?;
        Ok(())
    }

    async fn release(&self, account: AccountId, idempotency: Idempotency) -> Result<()> {
        let release = sql::query(
            "DELETE FROM idempotency_keys
             WHERE id = $1 AND account_id = $2 AND holder = $3 AND action IS NULL
               AND answer IS NULL",
        );
        let release = release.bind(idempotency.key).bind(account).bind(holder(idempotency));
        self.api().execute("release", 1, release).await?;
        Ok(())
    }

    async fn prune_answers(&self, before: Timestamp, limit: u32) -> Result<u64> {
        prune(self, "prune_answers", before, limit, OLD_KEYS).await
    }
}

/// Marks the call's reservation, if it has one, in the transaction of its effect.
///
/// # Errors
/// Returns an error if another call has taken the key over: then nothing may take effect.
pub(in crate::store) async fn mark(
    connection: &mut Connection<'_>,
    write: WriteContext,
    action: Action,
    objects: &[String],
) -> SqlResult<()> {
    let Some(idempotency) = write.idempotency else { return Ok(()) };
    let marked = sql::query(
        "UPDATE idempotency_keys SET action = $4, objects = $5
         WHERE id = $1 AND account_id = $2 AND holder = $3 AND action IS NULL",
    )
    .bind(idempotency.key)
    .bind(write.account)
    .bind(holder(idempotency))
    .bind(action)
    .bind(objects_text(objects))
    .execute(connection)
    .await?;
    if marked == 0 {
        return Err(SqlError::new(StoreErrorKind::TakenOver, TAKEN_OVER));
    }
    Ok(())
}

async fn reserve(
    connection: &mut Connection<'_>,
    encrypted_fields: EncryptedFields,
    account: AccountId,
    now: Timestamp,
    new: Reservation,
) -> SqlResult<Reserved> {
    let idempotency = new.idempotency;
    let made = sql::query(
        "INSERT INTO idempotency_keys (id, account_id, request, holder, reserved_at)
         SELECT $1, id, $3, $4, $5 FROM accounts WHERE id = $2 ON CONFLICT (id) DO NOTHING",
    )
    .bind(idempotency.key)
    .bind(account)
    .bind(new.request.to_vec())
    .bind(holder(idempotency))
    .bind(now)
    .execute(&mut *connection)
    .await?;
    if made > 0 {
        return Ok(Reserved::Yours);
    }
    // The first look takes no lock: with one, concurrent calls with the key would keep each other
    // from the answer.
    let mut said = judge(connection, "", &encrypted_fields, account, now, &new).await?;
    if matches!(said, None | Some(Reserved::Unanswered(_))) {
        let skip_locked = connection.dialect().skip_locked();
        said = judge(connection, skip_locked, &encrypted_fields, account, now, &new).await?;
    }
    match said {
        Some(said @ Reserved::Unanswered(_)) => {
            take_over(connection, account, idempotency).await?;
            Ok(said)
        }
        Some(said) => Ok(said),
        None => {
            take(connection, account, now, &new).await?;
            Ok(Reserved::Yours)
        }
    }
}

/// Returns the state of a key; `None` if its time is over, so that it can be taken.
async fn judge(
    connection: &mut Connection<'_>,
    locking: &'static str,
    encrypted_fields: &EncryptedFields,
    account: AccountId,
    now: Timestamp,
    new: &Reservation,
) -> SqlResult<Option<Reserved>> {
    let key = new.idempotency.key;
    let read = AssertSqlSafe(format!("{READ} {locking}"));
    let read = sql::query_as(read).bind(key).bind(account);
    let stored: Option<StoredKey> = read.fetch_optional(connection).await?;
    // The key is missing or locked: another call is taking it, it was removed and is free at the
    // next try, or the account was deleted.
    let Some(mut stored) = stored else { return Ok(Some(Reserved::Running)) };
    encrypted_fields.open_answer(account, key, &mut stored);
    Ok(stored.judge(now, new))
}

/// Gives a key whose time is over to a new call.
async fn take(
    connection: &mut Connection<'_>,
    account: AccountId,
    now: Timestamp,
    new: &Reservation,
) -> SqlResult<()> {
    sql::query(
        "UPDATE idempotency_keys SET request = $3, holder = $4, reserved_at = $5,
             action = NULL, objects = NULL, answer = NULL
         WHERE id = $1 AND account_id = $2",
    )
    .bind(new.idempotency.key)
    .bind(account)
    .bind(new.request.to_vec())
    .bind(holder(new.idempotency))
    .bind(now)
    .run(connection)
    .await
}

/// Gives the key of a call that took effect to the call that answers for it.
async fn take_over(
    connection: &mut Connection<'_>,
    account: AccountId,
    idempotency: Idempotency,
) -> SqlResult<()> {
    sql::query("UPDATE idempotency_keys SET holder = $3 WHERE id = $1 AND account_id = $2")
        .bind(idempotency.key)
        .bind(account)
        .bind(holder(idempotency))
        .run(connection)
        .await
}

fn holder(idempotency: Idempotency) -> Vec<u8> {
    idempotency.holder.to_be_bytes().to_vec()
}

/// Returns the ids of a receipt in their stored form.
fn objects_text(objects: &[String]) -> String {
    serde_json::to_string(objects).expect("texts always have a JSON form")
}
