//! The secrets that accounts' requests are signed with.

use std::cmp::Reverse;

use serde::Deserialize;

use super::{Result, Write};
#[cfg(doc)]
use crate::domain::signing::MOST_SECRETS;
use crate::domain::signing::SigningSecret;
use crate::domain::{AccountId, SigningSecretId, Timestamp};
use crate::runtime::measured;

/// A secret of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownSecret {
    /// Its id.
    pub id: SigningSecretId,
    /// The secret; absent if it cannot be decrypted.
    pub secret: Option<SigningSecret>,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it does not sign any more; the newest one has no end.
    pub expires_at: Option<Timestamp>,
}

/// A secret to take the place of an account's newest one.
#[derive(Clone, Debug)]
pub struct NewSecret {
    /// Its id.
    pub id: SigningSecretId,
    /// The secret.
    pub secret: SigningSecret,
    /// From when on the one before does not sign any more.
    pub old_expires_at: Timestamp,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// The secrets that accounts' requests are signed with. An account has its first one from the
    /// transaction on that makes it; claiming a job whose requests are signed reads them.
    pub trait SigningStore: Send + Sync {
        /// Makes the first secret of each account that has none, as those that were made by an earlier
        /// release. Its id follows from the account, so that there is only one, whoever makes it.
        async fn make_first_secrets(&self) -> Result<()>;

        /// The secrets of an account, newest first; one that has expired is among them until it is
        /// pruned, or the next rotation.
        async fn signing_secrets(&self, account: AccountId) -> Result<Vec<KnownSecret>>;

        /// Lets a new secret sign beside the newest one, until that expires. One that was to expire
        /// already goes at once: there are never more than [`MOST_SECRETS`]. `false` if there is no
        /// such account.
        async fn rotate_signing_secret(&self, write: &Write, new: &NewSecret) -> Result<bool>;

        /// Removes secrets that expired before `before`, at most `limit`. Returns how many.
        async fn prune_signing_secrets(&self, before: Timestamp, limit: u32) -> Result<u64>;
    }
}

/// Account.
pub(in crate::store) const SECRETS: &str = "
    SELECT id, secret, created_at, expires_at FROM signing_secrets
    WHERE account_id = $1 ORDER BY expires_at IS NOT NULL, created_at DESC";

/// A secret as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::store) struct SealedSecret {
    pub(in crate::store) id: SigningSecretId,
    pub(in crate::store) secret: String,
    pub(in crate::store) created_at: Timestamp,
    pub(in crate::store) expires_at: Option<Timestamp>,
}

/// A secret in an answer in JSON, as the statements of claims write it: its id in hexadecimal, the
/// sealed text, when it was made, and from when on it does not sign any more.
#[derive(Deserialize)]
pub(in crate::store) struct SecretRow(String, String, i64, Option<i64>);

impl SecretRow {
    /// The rows of one account, newest first; none if one of them cannot be read.
    pub(in crate::store) fn read(rows: Vec<Self>) -> Option<Vec<SealedSecret>> {
        let secret = |Self(id, secret, created_at, expires_at)| {
            let id = u128::from_str_radix(&id, 16).ok()?.to_be_bytes();
            let id = SigningSecretId::from_bytes(id);
            let created_at = Timestamp::from_millis(created_at);
            let expires_at = expires_at.map(Timestamp::from_millis);
            Some(SealedSecret { id, secret, created_at, expires_at })
        };
        let mut secrets = rows.into_iter().map(secret).collect::<Option<Vec<_>>>()?;
        // The newest one has no end.
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
