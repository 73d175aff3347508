//! The secrets that sign the requests of accounts.

use std::cmp::Reverse;
use std::collections::HashMap;

use async_trait::async_trait;
use serde::Deserialize;
use sqlx::AssertSqlSafe;

use crate::domain::audit::Action;
use crate::domain::{AccountId, JobId, SigningSecretId, Timestamp};
use crate::store::contract::signing::SealedSecret;
use crate::store::encryption::encrypted_fields::EncryptedFields;
use crate::store::sql::account_lock::lock;
use crate::store::sql::audit;
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::error::SqlResult;
use crate::store::sql::history::old_rows::{OldRows, prune};
use crate::store::{KnownSecret, NewSecret, Result, SigningStore, WriteContext, sql};

/// Reads the secrets of an account, newest first. Parameter: account.
pub(in crate::store) const SECRETS: &str = "
    SELECT id, secret, created_at, expires_at FROM signing_secrets
    WHERE account_id = $1 ORDER BY expires_at IS NOT NULL, created_at DESC";

/// The number of accounts that get their first secret in one transaction.
const ACCOUNTS_AT_ONCE: u16 = 500;

pub(in crate::store) const OLD_SECRETS: OldRows =
    OldRows { table: "signing_secrets", condition: "expires_at < $1", order: "expires_at" };

#[async_trait]
impl<D: Database> SigningStore for D {
    async fn make_first_secrets(&self) -> Result<()> {
        loop {
            let make = call(make_missing, (self.encrypted_fields().clone(),));
            let rows = usize::from(ACCOUNTS_AT_ONCE);
            if self.api().batch("make_first_secrets", rows, make).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn signing_secrets(&self, account: AccountId) -> Result<Vec<KnownSecret>> {
        let secrets = sql::query_as(SECRETS).bind(account);
        let secrets = self.api().all("signing_secrets", secrets).await?;
        Ok(secrets
            .into_iter()
            .map(|secret| self.encrypted_fields().open_known(account, secret))
            .collect())
    }

    async fn rotate_signing_secret(&self, write: &WriteContext, new: &NewSecret) -> Result<bool> {
        let secret = self.encrypted_fields().seal_secret(write.account, new.id, &new.secret);
        let rotate = call(rotate, (*write, (new.id, secret), new.old_expires_at));
        self.api().transaction("rotate_signing_secret", rotate).await
    }

    async fn prune_signing_secrets(&self, before: Timestamp, limit: u32) -> Result<u64> {
        prune(self, "prune_signing_secrets", before, limit, OLD_SECRETS).await
    }
}

/// Creates the first secret of some accounts that have none. Returns the number of accounts.
async fn make_missing(
    connection: &mut Connection<'_>,
    encrypted_fields: EncryptedFields,
) -> SqlResult<usize> {
    let lock = connection.dialect().exclusive_lock();
    let statement = format!(
        "SELECT id, created_at FROM accounts AS a
         WHERE NOT EXISTS (SELECT 1 FROM signing_secrets AS s WHERE s.account_id = a.id)
         ORDER BY id LIMIT $1 {lock}"
    );
    let query = sql::query_as(AssertSqlSafe(statement)).bind(i64::from(ACCOUNTS_AT_ONCE));
    let without: Vec<(AccountId, Timestamp)> = query.fetch_all(connection).await?;
    for (account, created_at) in &without {
        make_first(connection, &encrypted_fields, *account, *created_at).await?;
    }
    Ok(without.len())
}

/// Creates the first secret of an account, with the account's time of creation. Does nothing if the
/// secret exists or the account does not.
pub(in crate::store) async fn make_first(
    connection: &mut Connection<'_>,
    encrypted_fields: &EncryptedFields,
    account: AccountId,
    created_at: Timestamp,
) -> SqlResult<()> {
    let (id, secret) = encrypted_fields.first_secret(account);
    sql::query(
        "INSERT INTO signing_secrets (id, account_id, secret, created_at)
         SELECT $1, id, $3, $4 FROM accounts WHERE id = $2 ON CONFLICT DO NOTHING",
    )
    .bind(id)
    .bind(account)
    .bind(secret)
    .bind(created_at)
    .run(connection)
    .await
}

/// Adds a secret that signs beside the newest one, until that expires.
async fn rotate(
    connection: &mut Connection<'_>,
    write: WriteContext,
    (id, secret): (SigningSecretId, String),
    old_expires_at: Timestamp,
) -> SqlResult<bool> {
    if !lock(connection, write.account).await? {
        return Ok(false);
    }
    sql::query("DELETE FROM signing_secrets WHERE account_id = $1 AND expires_at IS NOT NULL")
        .bind(write.account)
        .execute(connection)
        .await?;
    sql::query("UPDATE signing_secrets SET expires_at = $2 WHERE account_id = $1")
        .bind(write.account)
        .bind(old_expires_at)
        .execute(connection)
        .await?;
    sql::query(
        "INSERT INTO signing_secrets (id, account_id, secret, created_at) VALUES ($1, $2, $3, $4)",
    )
    .bind(id)
    .bind(write.account)
    .bind(secret)
    .bind(write.now)
    .execute(connection)
    .await?;
    audit::record(connection, write, Action::SigningSecretRotated, [id]).await?;
    Ok(true)
}

/// The encrypted signing secrets of the jobs whose requests are signed.
pub(in crate::store) type JobSecrets = HashMap<JobId, Vec<SealedSecret>>;

/// A secret in the JSON that the statements of claims return: its id in hexadecimal, the sealed
/// text, the time of its creation, and the time from which it no longer signs.
#[derive(Deserialize)]
pub(in crate::store) struct SecretRow(String, String, i64, Option<i64>);

impl SecretRow {
    /// Returns the secrets of one account, newest first; `None` if one of the rows cannot be read.
    pub(in crate::store) fn read(rows: Vec<Self>) -> Option<Vec<SealedSecret>> {
        let secret = |Self(id, secret, created_at, expires_at)| {
            let id = u128::from_str_radix(&id, 16).ok()?.to_be_bytes();
            let id = SigningSecretId::from_bytes(id);
            let created_at = Timestamp::from_millis(created_at);
            let expires_at = expires_at.map(Timestamp::from_millis);
            Some(SealedSecret { id, secret, created_at, expires_at })
        };
        let mut secrets = rows.into_iter().map(secret).collect::<Option<Vec<_>>>()?;
        // The newest secret has no expiry.
        secrets.sort_unstable_by_key(|one| (one.expires_at.is_some(), Reverse(one.created_at)));
        Some(secrets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_newest_first() {
        let rows = r#"[["0000000000000000000000000000000A","old",6,9],["0b","new",6,null]]"#;
        let rows: Vec<SecretRow> = serde_json::from_str(rows).expect("rows");
        let secrets = SecretRow::read(rows).expect("readable");
        let told: Vec<_> =
            secrets.iter().map(|one| (one.id.to_bytes()[15], &*one.secret)).collect();
        assert_eq!(told, [(0x0b, "new"), (0x0a, "old")]);
        let damaged: Vec<SecretRow> = serde_json::from_str(r#"[["?","x",1,null]]"#).expect("rows");
        assert!(SecretRow::read(damaged).is_none());
    }
}
