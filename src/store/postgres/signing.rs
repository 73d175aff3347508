//! The secrets that accounts' requests are signed with. Whoever adds one has the account's row.

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, PgConnection};

use super::account_lock::PASSING;
use super::error::Outcome;
use super::key_changes::rotate_signing_secret;
use super::{PostgresStore, Within};
use crate::domain::{AccountId, Timestamp};
use crate::store::signing::{SECRETS, SealedSecret, prune};
use crate::store::vault::Vault;
use crate::store::{KnownSecret, NewSecret, Result, SigningStore, Write};

/// How many accounts get their first secret in one statement.
const ACCOUNTS_AT_ONCE: i64 = 500;

#[async_trait]
impl SigningStore for PostgresStore {
    async fn make_first_secrets(&self) -> Result<()> {
        loop {
            let vault = self.vault.clone();
            let made = self.api.run("make_first_secrets", Within::Transaction, move |connection| {
                let vault = vault.clone();
                Box::pin(async move {
                    let query = sqlx::query_as(WITHOUT).bind(ACCOUNTS_AT_ONCE);
                    let without: Vec<(AccountId, Timestamp)> =
                        query.fetch_all(&mut *connection).await?;
                    make_first(connection, &vault, &without).await?;
                    Ok(without.len())
                })
            });
            if made.await? == 0 {
                return Ok(());
            }
        }
    }

    async fn signing_secrets(&self, account: AccountId) -> Result<Vec<KnownSecret>> {
        let secrets = self.api.run("signing_secrets", Within::Statement, move |connection| {
            Box::pin(async move {
                Ok(sqlx::query_as(SECRETS).bind(account).fetch_all(connection).await?)
            })
        });
        let secrets: Vec<SealedSecret> = secrets.await?;
        Ok(secrets.into_iter().map(|secret| self.vault.open_known(account, secret)).collect())
    }

    async fn rotate_signing_secret(&self, write: &Write, new: &NewSecret) -> Result<bool> {
        let (write, id, old_expires_at) = (*write, new.id, new.old_expires_at);
        let secret = self.vault.seal_secret(write.account, id, &new.secret);
        self.api
            .run("rotate_signing_secret", Within::Transaction, move |connection| {
                let secret = (id, secret.clone());
                Box::pin(rotate_signing_secret(connection, write, secret, old_expires_at))
            })
            .await
    }

    async fn prune_signing_secrets(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.scheduler
            .run("prune_signing_secrets", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query(AssertSqlSafe(prune(PASSING)))
                        .bind(before)
                        .bind(i64::from(limit));
                    Ok(query.execute(connection).await?.rows_affected())
                })
            })
            .await
    }
}

const WITHOUT: &str = "
    SELECT id, created_at FROM accounts AS a
    WHERE NOT EXISTS (SELECT FROM signing_secrets AS s WHERE s.account_id = a.id)
    ORDER BY id LIMIT $1 FOR NO KEY UPDATE";

/// Makes the first secret of each of these accounts, unless it is there: as old as the account.
pub(super) async fn make_first(
    connection: &mut PgConnection,
    vault: &Vault,
    accounts: &[(AccountId, Timestamp)],
) -> Outcome<()> {
    let secrets = accounts.iter().map(|(account, _)| vault.first_secret(*account));
    let (ids, secrets): (Vec<_>, Vec<_>) = secrets.unzip();
    sqlx::query(
        "INSERT INTO signing_secrets (id, account_id, secret, created_at)
         SELECT * FROM unnest($1, $2, $3, $4) ON CONFLICT DO NOTHING",
    )
    .bind(ids)
    .bind(accounts.iter().map(|(account, _)| *account).collect::<Vec<_>>())
    .bind(secrets)
    .bind(accounts.iter().map(|(_, created_at)| *created_at).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}
