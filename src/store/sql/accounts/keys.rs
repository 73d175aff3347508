//! The API keys of accounts, within a transaction.

use crate::domain::KeyId;
use crate::domain::audit::Action;
use crate::domain::key::MAX_KEYS;
use crate::store::sql;
use crate::store::sql::account_lock::lock;
use crate::store::sql::audit;
use crate::store::sql::connection::Connection;
use crate::store::sql::error::SqlResult;
use crate::store::{KeyCreated, KeyRotation, NewKey, RotationResult, WriteContext};

/// Counts the keys of the account that are neither revoked nor expired.
async fn working_keys(connection: &mut Connection<'_>, write: WriteContext) -> SqlResult<u64> {
    let working: i64 = sql::query_scalar(
        "SELECT count(*) FROM api_keys WHERE account_id = $1 AND revoked_at IS NULL
             AND (expires_at IS NULL OR expires_at > $2)",
    )
    .bind(write.account)
    .bind(write.now)
    .fetch_one(connection)
    .await?;
    Ok(working.unsigned_abs())
}

pub(in crate::store) async fn create_key(
    connection: &mut Connection<'_>,
    write: WriteContext,
    key: NewKey,
) -> SqlResult<KeyCreated> {
    if !lock(connection, write.account).await? {
        return Ok(KeyCreated::NoSuchAccount);
    }
    if working_keys(connection, write).await? >= MAX_KEYS {
        return Ok(KeyCreated::TooMany);
    }
    sql::query(
        "INSERT INTO api_keys (id, account_id, name, scope, digest, created_at, expires_at, created_by,
                               life_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, CAST($7 AS bigint) - $6)",
    )
    .bind(key.id)
    .bind(write.account)
    .bind(key.name)
    .bind(key.scope)
    .bind(key.digest.0.to_vec())
    .bind(write.now)
    .bind(key.expires_at)
    .bind(write.author.actor.to_string())
    .execute(&mut *connection)
    .await?;
    audit::record(connection, write, Action::KeyCreated, [key.id]).await?;
    Ok(KeyCreated::Done)
}

/// Rotates a key. The account is locked, so that concurrent rotations never exceed [`MAX_KEYS`].
pub(in crate::store) async fn rotate_key(
    connection: &mut Connection<'_>,
    write: WriteContext,
    rotation: KeyRotation,
) -> SqlResult<RotationResult> {
    lock(connection, write.account).await?;
    let works: bool = sql::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM api_keys WHERE id = $1 AND account_id = $2
             AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3))",
    )
    .bind(rotation.old)
    .bind(write.account)
    .bind(write.now)
    .fetch_one(&mut *connection)
    .await?;
    if !works {
        return Ok(RotationResult::NotFound);
    }
    if working_keys(connection, write).await? + 1 - rotation.ended_by(write.now) > MAX_KEYS {
        return Ok(RotationResult::TooMany);
    }
    sql::query(
        "INSERT INTO api_keys
             (id, account_id, name, scope, digest, created_at, expires_at, created_by, life_ms)
         SELECT $3, account_id, name, scope, $4, $5, $5 + life_ms, $6, life_ms
         FROM api_keys WHERE id = $1 AND account_id = $2",
    )
    .bind(rotation.old)
    .bind(write.account)
    .bind(rotation.new)
    .bind(rotation.digest.0.to_vec())
    .bind(write.now)
    .bind(write.author.actor.to_string())
    .execute(&mut *connection)
    .await?;
    sql::query(
        "UPDATE api_keys SET expires_at = CASE WHEN expires_at < $3 THEN expires_at ELSE $3 END
         WHERE id = $1 AND account_id = $2",
    )
    .bind(rotation.old)
    .bind(write.account)
    .bind(rotation.old_expires_at)
    .execute(&mut *connection)
    .await?;
    audit::record(connection, write, Action::KeyRotated, [rotation.objects()]).await?;
    Ok(RotationResult::Done)
}

pub(in crate::store) async fn revoke_key(
    connection: &mut Connection<'_>,
    write: WriteContext,
    id: KeyId,
) -> SqlResult<bool> {
    let revoked = sql::query(
        "UPDATE api_keys SET revoked_at = $3
         WHERE id = $1 AND account_id = $2 AND revoked_at IS NULL",
    )
    .bind(id)
    .bind(write.account)
    .bind(write.now)
    .execute(&mut *connection)
    .await?;
    if revoked > 0 {
        audit::record(connection, write, Action::KeyRevoked, [id]).await?;
        return Ok(true);
    }
    let known = "SELECT EXISTS (SELECT 1 FROM api_keys WHERE id = $1 AND account_id = $2)";
    sql::query_scalar(known).bind(id).bind(write.account).fetch_one(connection).await
}
