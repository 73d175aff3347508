//! The secrets that sign the requests of accounts.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Deserialize;

#[cfg(doc)]
use crate::domain::signing::MOST_SECRETS;
use crate::domain::signing::SigningSecret;
use crate::domain::{AccountId, JobId, SigningSecretId, Timestamp};
use crate::runtime::measured;
use crate::store::{Result, WriteContext};

/// A signing secret of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownSecret {
    /// The id of the secret.
    pub id: SigningSecretId,
    /// The secret; absent if it cannot be decrypted.
    pub secret: Option<SigningSecret>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time from which the secret no longer signs; the newest secret has none.
    pub expires_at: Option<Timestamp>,
}

/// A secret that replaces an account's newest one.
#[derive(Clone, Debug)]
pub struct NewSecret {
    /// The id of the secret.
    pub id: SigningSecretId,
    /// The secret.
    pub secret: SigningSecret,
    /// The time from which the previous secret no longer signs.
    pub old_expires_at: Timestamp,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// The secrets that sign the requests of accounts. The transaction that creates an account also
    /// creates its first secret. Claiming a job whose requests are signed reads the secrets.
    pub trait SigningStore: Send + Sync {
        /// Creates the first secret of each account that has none, such as those of an earlier
        /// release. Its id is derived from the account, so only one is created, whichever replica
        /// does it.
        async fn make_first_secrets(&self) -> Result<()>;

        /// Returns the secrets of an account, newest first. An expired secret is included until it
        /// is pruned or the next rotation removes it.
        async fn signing_secrets(&self, account: AccountId) -> Result<Vec<KnownSecret>>;

        /// Adds a secret that signs beside the newest one, until that expires. A secret that
        /// already had an expiry is removed at once, so there are never more than [`MOST_SECRETS`].
        /// Returns `false` if there is no such account.
        async fn rotate_signing_secret(&self, write: &WriteContext, new: &NewSecret) -> Result<bool>;

        /// Deletes secrets that expired before `before`, at most `limit`. Returns their number.
        async fn prune_signing_secrets(&self, before: Timestamp, limit: u32) -> Result<u64>;
    }
}

/// Reads the secrets of an account, newest first. Parameter: account.
pub(in crate::store) const SECRETS: &str = "
    SELECT id, secret, created_at, expires_at FROM signing_secrets
    WHERE account_id = $1 ORDER BY expires_at IS NOT NULL, created_at DESC";

/// A row of `signing_secrets`.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::store) struct SealedSecret {
    pub(in crate::store) id: SigningSecretId,
    pub(in crate::store) secret: String,
    pub(in crate::store) created_at: Timestamp,
    pub(in crate::store) expires_at: Option<Timestamp>,
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
