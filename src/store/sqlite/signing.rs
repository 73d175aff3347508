//! The secrets that accounts' requests are signed with.

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::account_lock::PASSING;
use super::error::Outcome;
use super::key_changes::rotate_signing_secret;
use super::{SqliteStore, failed_in};
use crate::domain::{AccountId, Timestamp};
use crate::store::signing::{SECRETS, SealedSecret, prune};
use crate::store::vault::Vault;
use crate::store::{KnownSecret, NewSecret, Result, SigningStore, Write};

/// How many accounts get their first secret in one transaction.
const ACCOUNTS_AT_ONCE: u32 = 500;

#[async_trait]
impl SigningStore for SqliteStore {
    async fn make_first_secrets(&self) -> Result<()> {
        loop {
            let query = sqlx::query_as(WITHOUT).bind(ACCOUNTS_AT_ONCE);
            let without: Vec<(AccountId, Timestamp)> =
                self.readers.all(query).await.map_err(failed_in("make_first_secrets"))?;
            if without.is_empty() {
                return Ok(());
            }
            let vault = self.vault.clone();
            self.write_rows("make_first_secrets", without.len(), move |connection| {
                Box::pin(async move {
                    for (account, created_at) in without {
                        make_first(connection, &vault, account, created_at).await?;
                    }
                    Ok(())
                })
            })
            .await?;
        }
    }

    async fn signing_secrets(&self, account: AccountId) -> Result<Vec<KnownSecret>> {
        let query = sqlx::query_as(SECRETS);
        let secrets: Vec<SealedSecret> =
            self.readers.all(query.bind(account)).await.map_err(failed_in("signing_secrets"))?;
        Ok(secrets.into_iter().map(|secret| self.vault.open_known(account, secret)).collect())
    }

    async fn rotate_signing_secret(&self, write: &Write, new: &NewSecret) -> Result<bool> {
        let (write, id, old_expires_at) = (*write, new.id, new.old_expires_at);
        let secret = self.vault.seal_secret(write.account, id, &new.secret);
        self.write("rotate_signing_secret", move |connection| {
            Box::pin(rotate_signing_secret(connection, write, (id, secret), old_expires_at))
        })
        .await
    }

    async fn prune_signing_secrets(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.write_rows("prune_signing_secrets", limit as usize, move |connection| {
            Box::pin(async move {
                let query = sqlx::query(AssertSqlSafe(prune(PASSING))).bind(before).bind(limit);
                Ok(query.execute(connection).await?.rows_affected())
            })
        })
        .await
    }
}

const WITHOUT: &str = "
    SELECT id, created_at FROM accounts AS a
    WHERE NOT EXISTS (SELECT 1 FROM signing_secrets AS s WHERE s.account_id = a.id) LIMIT ?1";

/// Makes the first secret of an account, unless it is there, or the account is there no more: as
/// old as the account.
pub(super) async fn make_first(
    connection: &mut SqliteConnection,
    vault: &Vault,
    account: AccountId,
    created_at: Timestamp,
) -> Outcome<()> {
    let (id, secret) = vault.first_secret(account);
    sqlx::query(
        "INSERT INTO signing_secrets (id, account_id, secret, created_at)
         SELECT ?1, id, ?3, ?4 FROM accounts WHERE id = ?2 ON CONFLICT DO NOTHING",
    )
    .bind(id)
    .bind(account)
    .bind(secret)
    .bind(created_at)
    .execute(connection)
    .await?;
    Ok(())
}
