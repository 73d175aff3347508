//! The secrets that sign the requests of accounts.

#[cfg(doc)]
use crate::domain::signing::MAX_SECRETS;
use crate::domain::signing::SigningSecret;
use crate::domain::{AccountId, SigningSecretId, Timestamp};
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
        /// already had an expiry is removed at once, so there are never more than [`MAX_SECRETS`].
        /// Returns `false` if there is no such account.
        async fn rotate_signing_secret(&self, write: &WriteContext, new: &NewSecret) -> Result<bool>;

        /// Deletes secrets that expired before `before`, at most `limit`. Returns their number.
        async fn prune_signing_secrets(&self, before: Timestamp, limit: u32) -> Result<u64>;
    }
}

/// A row of `signing_secrets`.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::store) struct SealedSecret {
    pub(in crate::store) id: SigningSecretId,
    pub(in crate::store) secret: String,
    pub(in crate::store) created_at: Timestamp,
    pub(in crate::store) expires_at: Option<Timestamp>,
}
